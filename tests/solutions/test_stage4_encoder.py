"""The reference of stage 4 against PyTorch's own layers, in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.stage1_attention.attention import causal_mask, padding_mask
from solutions.stage4_encoder.encoder import Encoder, EncoderLayer, FeedForward, LayerNorm
from stages.stage4_encoder.checks import oracles

BATCH, SEQ, D_MODEL, HEADS, D_FF, LAYERS = 2, 5, 12, 3, 14, 3

RIGHT_PADDED = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 0]])
LEFT_PADDED = torch.tensor([[0, 0, 5, 6, 7], [0, 5, 6, 7, 8]])
MASKS = {
    "none": None,
    "causal": causal_mask(SEQ),
    "right padding": padding_mask(RIGHT_PADDED),
    "left padding": padding_mask(LEFT_PADDED),
    "right padding and causal": padding_mask(RIGHT_PADDED) & causal_mask(SEQ),
    "one for each head": torch.rand(BATCH, HEADS, SEQ, SEQ, generator=torch.Generator().manual_seed(5)).ge(
        0.4
    )
    | torch.eye(SEQ, dtype=torch.bool),
}
COMBINATIONS = list(itertools.product([True, False], ["relu", "gelu"], MASKS))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def randomised(module: nn.Module) -> nn.Module:
    """In float64, every parameter random: norms that are fresh hide mistakes, and so do zero biases."""
    module.double()
    with torch.no_grad():
        for seed, (name, parameter) in enumerate(module.named_parameters()):
            shift = 1.0 if parameter.dim() == 1 and name.endswith("weight") else 0.0
            parameter.copy_(normal(*parameter.shape, seed=100 + seed) * 0.4 + shift)
    return module


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def assert_same_value_and_gradients(module: nn.Module, x: Tensor, mask: Tensor | None, oracle) -> None:
    """The module and PyTorch's layer agree forwards and backwards, down to every single parameter."""
    leaves = oracles.leaves({name: value.detach() for name, value in module.named_parameters()})
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    output, expected = module(inputs[0], mask), oracle(inputs[1], leaves, mask)
    assert_equal(output, expected)
    cotangent = normal(*output.shape, seed=9)
    named = dict(module.named_parameters())
    ours = torch.autograd.grad((output * cotangent).sum(), [inputs[0], *named.values()])
    theirs = torch.autograd.grad((expected * cotangent).sum(), [inputs[1], *(leaves[name] for name in named)])
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        assert_equal(ours_one, theirs_one)


# LayerNorm


@pytest.mark.parametrize(
    "shape", [(D_MODEL,), (SEQ, D_MODEL), (BATCH, SEQ, D_MODEL), (2, 3, 4, D_MODEL), (2, 1)]
)
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-3, 0.0), (1.0, 1e3), (0.0, 3.0)])
def test_layer_norm(shape: tuple[int, ...], eps: float, scale: float, shift: float) -> None:
    norm = randomised(LayerNorm(shape[-1], eps))
    x = (normal(*shape) * scale + shift).requires_grad_()
    output, expected = norm(x), F.layer_norm(x, shape[-1:], norm.weight, norm.bias, eps)
    assert_equal(output, expected)
    cotangent = normal(*shape, seed=3)
    inputs = [x, norm.weight, norm.bias]
    ours = torch.autograd.grad((output * cotangent).sum(), inputs)
    theirs = torch.autograd.grad((expected * cotangent).sum(), inputs)
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_one, theirs_one, rtol=1e-8, atol=1e-8)


def test_layer_norm_starts_as_plain_normalisation() -> None:
    norm = LayerNorm(D_MODEL)
    assert torch.equal(norm.weight, torch.ones(D_MODEL))
    assert torch.equal(norm.bias, torch.zeros(D_MODEL))
    assert norm.eps == 1e-5


def test_layer_norm_survives_a_large_mean_in_float32() -> None:
    x = (normal(4, D_MODEL) + 1e4).float()
    expected = F.layer_norm(x.double(), (D_MODEL,)).float()
    torch.testing.assert_close(LayerNorm(D_MODEL)(x), expected, rtol=1e-2, atol=1e-2)


# FeedForward


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("training", [True, False])
def test_feed_forward(activation: str, training: bool) -> None:
    network = randomised(FeedForward(D_MODEL, D_FF, dropout=0.0, activation=activation)).train(training)
    theirs = nn.Sequential(network.linear1, nn.ReLU() if activation == "relu" else nn.GELU(), network.linear2)
    x = normal(BATCH, SEQ, D_MODEL)
    assert_equal(network(x), theirs(x))


def test_feed_forward_drops_hidden_features() -> None:
    network = FeedForward(4, 200, dropout=0.25)
    with torch.no_grad():
        network.linear1.weight.zero_(), network.linear1.bias.fill_(1.0)
        network.linear2.weight.fill_(1.0), network.linear2.bias.zero_()
    kept = network(torch.zeros(50, 3, 4)) * 0.75  # the number of hidden features left
    assert torch.equal(kept, kept[..., :1].expand_as(kept))
    torch.testing.assert_close(kept, kept.round())
    assert 0.72 < kept.mean() / 200 < 0.78
    assert torch.equal(network.eval()(torch.zeros(1, 1, 4)), torch.full((1, 1, 4), 200.0))


@pytest.mark.parametrize("activation", ["tanh", "", "ReLU ", None])
def test_unknown_activations_are_refused(activation: str) -> None:
    for build in (
        lambda: FeedForward(4, 6, activation=activation),
        lambda: EncoderLayer(4, 2, 6, activation=activation),
        lambda: Encoder(1, 4, 2, 6, activation=activation),
    ):
        with pytest.raises(ValueError, match=repr(activation)):
            build()


# EncoderLayer and Encoder


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("norm_first", "activation", "mask"), COMBINATIONS)
def test_layer(norm_first: bool, activation: str, mask: str, training: bool) -> None:
    settings = oracles.Settings(D_MODEL, HEADS, D_FF, norm_first, activation)
    layer = randomised(EncoderLayer(D_MODEL, HEADS, D_FF, 0.0, norm_first, activation)).train(training)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == oracles.layer_shapes(
        settings
    )
    assert_same_value_and_gradients(
        layer,
        normal(BATCH, SEQ, D_MODEL),
        MASKS[mask],
        lambda x, weights, mask: oracles.torch_layer(x, weights, settings, mask),
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("norm_first", "activation", "mask"), COMBINATIONS)
def test_encoder(norm_first: bool, activation: str, mask: str, training: bool) -> None:
    settings = oracles.Settings(D_MODEL, HEADS, D_FF, norm_first, activation)
    encoder = randomised(Encoder(LAYERS, D_MODEL, HEADS, D_FF, 0.0, norm_first, activation)).train(training)
    shapes = {name: tuple(value.shape) for name, value in encoder.state_dict().items()}
    assert shapes == oracles.encoder_shapes(LAYERS, settings)
    assert_same_value_and_gradients(
        encoder,
        normal(BATCH, SEQ, D_MODEL),
        MASKS[mask],
        lambda x, weights, mask: oracles.torch_encoder(x, weights, settings, mask),
    )


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_fused_path_of_pytorch_agrees_too(norm_first: bool) -> None:
    """In eval mode without gradients PyTorch runs another implementation of the same layer."""
    settings = oracles.Settings(D_MODEL, HEADS, D_FF, norm_first)
    layer = randomised(EncoderLayer(D_MODEL, HEADS, D_FF, 0.3, norm_first)).eval()
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, batch_first=True, norm_first=norm_first, dtype=torch.float64
    ).eval()
    theirs.load_state_dict(oracles.layer_to_torch(layer.state_dict()))
    x = normal(BATCH, SEQ, D_MODEL)
    with torch.no_grad():
        assert_equal(layer(x), theirs(x))
        assert_equal(layer(x), oracles.torch_layer(x, layer.state_dict(), settings))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("tokens", [RIGHT_PADDED, LEFT_PADDED])
def test_padding_changes_nothing(norm_first: bool, tokens: Tensor) -> None:
    encoder = randomised(Encoder(LAYERS, D_MODEL, HEADS, D_FF, norm_first=norm_first)).eval()
    x = normal(BATCH, SEQ, D_MODEL)
    output = encoder(x, padding_mask(tokens))
    for row in range(BATCH):
        real = tokens[row] != 0
        assert_equal(output[row : row + 1, real], encoder(x[row : row + 1, real]))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_sentence_of_pads_spoils_nothing(norm_first: bool) -> None:
    encoder = randomised(Encoder(LAYERS, D_MODEL, HEADS, D_FF, norm_first=norm_first)).eval()
    x = normal(BATCH, SEQ, D_MODEL).requires_grad_()
    output = encoder(x, padding_mask(torch.tensor([[0, 0, 0, 0, 0], [5, 6, 7, 8, 0]])))
    assert_equal(output[1, :4], encoder(x[1:, :4])[0])
    for gradient in torch.autograd.grad(output.sum(), [x, *encoder.parameters()]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, D_MODEL), (1, SEQ, D_MODEL), (BATCH, 1, D_MODEL)])
def test_batch_and_length_of_one(norm_first: bool, shape: tuple[int, ...]) -> None:
    settings = oracles.Settings(D_MODEL, HEADS, D_FF, norm_first)
    encoder = randomised(Encoder(LAYERS, D_MODEL, HEADS, D_FF, 0.0, norm_first))
    x = normal(*shape)
    assert_equal(encoder(x), oracles.torch_encoder(x, encoder.state_dict(), settings))


@pytest.mark.parametrize("norm_first", [True, False])
def test_non_contiguous_inputs_that_stay_as_they_are(norm_first: bool) -> None:
    encoder = randomised(Encoder(LAYERS, D_MODEL, HEADS, D_FF, norm_first=norm_first)).eval()
    sequence_first = normal(SEQ, BATCH, D_MODEL).transpose(0, 1)
    every_other = normal(BATCH, SEQ, 2 * D_MODEL)[:, :, ::2]
    expanded = normal(1, 1, D_MODEL).expand(BATCH, SEQ, D_MODEL)
    for x in (sequence_first, every_other, expanded):
        before = x.clone()
        assert_equal(encoder(x), encoder(x.contiguous()))
        assert torch.equal(x, before)


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_acts_on_each_branch_and_only_in_training(norm_first: bool) -> None:
    layer = EncoderLayer(D_MODEL, HEADS, D_FF, dropout=0.5, norm_first=norm_first).double()
    x = normal(BATCH, SEQ, D_MODEL)
    assert not torch.equal(layer(x), layer(x))
    layer.dropout.p = 1.0  # both branches vanish, the stream stays
    assert_equal(layer(x), x if norm_first else layer.norm2(layer.norm1(x)))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_dropout_is_handed_on() -> None:
    encoder = Encoder(LAYERS, D_MODEL, HEADS, D_FF, dropout=0.25)
    rates = [module.p for module in encoder.modules() if isinstance(module, nn.Dropout)]
    assert rates == [0.25] * 3 * LAYERS


@pytest.mark.parametrize("norm_first", [True, False])
def test_layers_have_weights_of_their_own(norm_first: bool) -> None:
    encoder = Encoder(LAYERS, D_MODEL, HEADS, D_FF, norm_first=norm_first)
    one = sum(parameter.numel() for parameter in EncoderLayer(D_MODEL, HEADS, D_FF).parameters())
    norm = 2 * D_MODEL if norm_first else 0
    assert sum(parameter.numel() for parameter in encoder.parameters()) == LAYERS * one + norm
    assert not torch.equal(encoder.layers[0].self_attn.w_q.weight, encoder.layers[1].self_attn.w_q.weight)
    assert (encoder.norm is None) is not norm_first


def test_heads_that_do_not_divide_d_model_are_refused() -> None:
    with pytest.raises(ValueError, match="10.*3"):
        EncoderLayer(10, 3, D_FF)
    with pytest.raises(ValueError, match="10.*3"):
        Encoder(2, 10, 3, D_FF)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{BATCH}.*{HEADS}.*{SEQ}.*{SEQ}"):
        Encoder(2, D_MODEL, HEADS, D_FF)(
            torch.zeros(BATCH, SEQ, D_MODEL), torch.ones(BATCH, SEQ, dtype=torch.bool)
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_output_has_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    encoder = Encoder(2, D_MODEL, HEADS, D_FF).to(dtype)
    assert encoder(normal(BATCH, SEQ, D_MODEL).to(dtype), causal_mask(SEQ)).dtype == dtype
