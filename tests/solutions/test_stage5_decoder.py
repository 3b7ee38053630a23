"""The solution of stage 5 against PyTorch's layers in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from solutions.stage1_attention.attention import causal_mask, padding_mask
from solutions.stage5_decoder.decoder import Decoder, DecoderLayer
from solutions.stage5_decoder.transformer import Transformer
from stages.stage5_decoder.checks.oracles import part, torch_mask, torch_state
from stages.stage5_decoder.checks.wrong_layers import Case, run_layer, run_stack

BATCH, TGT_LEN, SRC_LEN, D_MODEL, HEADS, D_FF, LAYERS = 2, 5, 7, 12, 3, 20, 3
SRC_VOCAB, TGT_VOCAB, MAX_LEN = 17, 13, 11

ORDERS = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])
MASKS = pytest.mark.parametrize(
    ("tgt_kind", "memory_kind"),
    list(
        itertools.product(
            ["none", "causal", "causal and padding", "each head its own"], ["none", "left", "right"]
        )
    ),
)
MODES = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Everything in float64, from a fixed seed."""
    torch.manual_seed(5)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def randomise(module: nn.Module) -> None:
    """Random values everywhere: fresh norms would hide that they are swapped."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5)


def make_tgt_mask(kind: str) -> Tensor | None:
    real = torch.ones(BATCH, TGT_LEN, dtype=torch.long)
    real[1, 3:] = 0
    each_head = torch.rand(BATCH, HEADS, TGT_LEN, TGT_LEN) < 0.5
    return {
        "none": None,
        "causal": causal_mask(TGT_LEN),
        "causal and padding": causal_mask(TGT_LEN) & padding_mask(real),
        "each head its own": each_head | torch.eye(TGT_LEN, dtype=torch.bool),
    }[kind]


def make_memory_mask(kind: str) -> Tensor | None:
    real = torch.ones(BATCH, SRC_LEN, dtype=torch.long)
    if kind == "left":
        real[0, :3] = 0
    if kind == "right":
        real[1, 4:] = 0
    return None if kind == "none" else padding_mask(real)


def compare(own: nn.Module, theirs: nn.Module, tgt_mask: Tensor | None, memory_mask: Tensor | None) -> None:
    """Outputs, and the gradients of the inputs and of every weight, are equal."""
    x, memory = torch.randn(BATCH, TGT_LEN, D_MODEL), torch.randn(BATCH, SRC_LEN, D_MODEL)
    cotangent = torch.randn_like(x)
    own_inputs = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    their_inputs = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    actual = own(*own_inputs, tgt_mask, memory_mask)
    their_masks = (
        torch_mask(tgt_mask, HEADS, BATCH, TGT_LEN, TGT_LEN),
        torch_mask(memory_mask, HEADS, BATCH, TGT_LEN, SRC_LEN),
    )
    expected = theirs(*their_inputs, *their_masks)
    same(actual, expected)
    (actual * cotangent).sum().backward()
    (expected * cotangent).sum().backward()
    for mine, other in zip(own_inputs, their_inputs, strict=True):
        assert mine.grad is not None and other.grad is not None
        same(mine.grad, other.grad)
    compare_gradients(own, theirs)


def compare_gradients(own: nn.Module, theirs: nn.Module) -> None:
    with torch.no_grad():
        for parameter in own.parameters():
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)  # so that torch_state() renames gradients
    gradients = torch_state(own.state_dict())
    for name, parameter in theirs.named_parameters():
        assert parameter.grad is not None
        same(gradients[name], parameter.grad)


@ORDERS
@ACTIVATIONS
@MASKS
@MODES
def test_layer(norm_first: bool, activation: str, tgt_kind: str, memory_kind: str, training: bool) -> None:
    own = DecoderLayer(D_MODEL, HEADS, D_FF, 0.0, norm_first, activation)
    randomise(own)
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, activation, batch_first=True, norm_first=norm_first
    )
    theirs.load_state_dict(torch_state(own.state_dict()))
    compare(
        own.train(training), theirs.train(training), make_tgt_mask(tgt_kind), make_memory_mask(memory_kind)
    )


@ORDERS
@ACTIVATIONS
@MASKS
@MODES
def test_decoder(norm_first: bool, activation: str, tgt_kind: str, memory_kind: str, training: bool) -> None:
    own = Decoder(LAYERS, D_MODEL, HEADS, D_FF, 0.0, norm_first, activation)
    randomise(own)
    layer = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, activation, batch_first=True, norm_first=norm_first
    )
    theirs = nn.TransformerDecoder(layer, LAYERS, nn.LayerNorm(D_MODEL) if norm_first else None)
    theirs.load_state_dict(torch_state(own.state_dict()))
    compare(
        own.train(training), theirs.train(training), make_tgt_mask(tgt_kind), make_memory_mask(memory_kind)
    )


def make_model(norm_first: bool = True, dropout: float = 0.0, pad_id: int = 0) -> Transformer:
    model = Transformer(
        SRC_VOCAB, TGT_VOCAB, D_MODEL, HEADS, LAYERS, D_FF, dropout, MAX_LEN, norm_first, pad_id
    )
    randomise(model)
    return model


def make_tokens(pad_id: int, side: str) -> tuple[Tensor, Tensor]:
    """Source and target ids with padding in different rows."""
    src = torch.randint(4, SRC_VOCAB, (BATCH, SRC_LEN))
    tgt = torch.randint(4, TGT_VOCAB, (BATCH, TGT_LEN))
    if side == "right":
        src[0, 5:], tgt[1, 3:] = pad_id, pad_id
    if side == "left":
        src[0, :2], tgt[1, :2] = pad_id, pad_id
    return src, tgt


@ORDERS
@MODES
@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("pad_id", [0, 3])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer(norm_first: bool, training: bool, side: str, pad_id: int) -> None:
    own = make_model(norm_first, pad_id=pad_id).train(training)
    theirs = nn.Transformer(
        D_MODEL, HEADS, LAYERS, LAYERS, D_FF, 0.0, batch_first=True, norm_first=norm_first
    ).train(training)
    if not norm_first:  # PyTorch adds these after post-norm layers too; the paper and the contract do not
        theirs.encoder.norm = theirs.decoder.norm = None
    for name in ("encoder", "decoder"):
        getattr(theirs, name).load_state_dict(torch_state(part(own.state_dict(), name)))

    src, tgt = make_tokens(pad_id, side)
    vectors = [
        (embedding(tokens) * math.sqrt(D_MODEL) + own.positions.pe[:, : tokens.shape[1]]).detach()
        for tokens, embedding in ((src, own.src_embed), (tgt, own.tgt_embed))
    ]
    hidden = theirs(
        *vectors,
        tgt_mask=~causal_mask(TGT_LEN)[0, 0],
        src_key_padding_mask=src == pad_id,
        tgt_key_padding_mask=tgt == pad_id,
        memory_key_padding_mask=src == pad_id,
    )
    expected = nn.functional.linear(hidden, own.fc_out.weight, own.fc_out.bias)
    actual = own(src, tgt)
    real = tgt != pad_id
    same(actual[real], expected[real])

    cotangent = torch.randn_like(actual) * real[..., None]
    (actual * cotangent).sum().backward()
    (expected * cotangent).sum().backward()
    compare_gradients(own.encoder, theirs.encoder)
    compare_gradients(own.decoder, theirs.decoder)


def test_masks_of_none_hide_nothing() -> None:
    model = make_model()
    src, tgt = make_tokens(0, "right")
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    memory = model.encode(src)
    same(memory, model.encode(src, everything))
    same(model.decode(tgt, memory), model.decode(tgt, memory, everything, everything))


def test_matrices_start_xavier_uniform() -> None:
    torch.set_default_dtype(torch.float32)
    model = Transformer(300, 400, 64, 4, 2, 128)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert parameter.abs().max() <= bound, name
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name


def test_embeddings_are_dropped_in_training_only() -> None:
    model = make_model(dropout=1.0)
    src, _ = make_tokens(0, "none")
    same(model.train().encode(src), model.encoder.norm.bias.expand(BATCH, SRC_LEN, D_MODEL))
    same(model.eval().encode(src), model.encode(src))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, MAX_LEN])
def test_batch_of_one(dtype: torch.dtype, length: int) -> None:
    model = make_model().to(dtype)
    src, tgt = torch.randint(4, SRC_VOCAB, (1, MAX_LEN)), torch.randint(4, TGT_VOCAB, (1, length))
    logits = model(src, tgt)
    assert logits.shape == (1, length, TGT_VOCAB) and logits.dtype == dtype
    assert logits.isfinite().all()


def test_bad_input_is_named() -> None:
    model = make_model()
    src, tgt = make_tokens(0, "none")
    with pytest.raises(ValueError, match=f"{MAX_LEN + 1}"):
        model(src, torch.full((BATCH, MAX_LEN + 1), 4))
    with pytest.raises(ValueError, match=f"{MAX_LEN + 1}"):
        model(torch.full((BATCH, MAX_LEN + 1), 4), tgt)
    for bad in (TGT_VOCAB, -1):
        with pytest.raises(ValueError, match=rf"\[{bad}\].*{TGT_VOCAB}"):
            model(src, torch.full((BATCH, TGT_LEN), bad))
    with pytest.raises(ValueError, match=rf"\[{SRC_VOCAB}\].*{SRC_VOCAB}"):
        model(torch.full((BATCH, SRC_LEN), SRC_VOCAB), tgt)
    for size in (1, 3):
        with pytest.raises(ValueError, match=f"{size}.*{BATCH}"):
            model(src, torch.full((size, TGT_LEN), 4))
    with pytest.raises(ValueError, match="10.*3"):
        Transformer(SRC_VOCAB, TGT_VOCAB, d_model=10, num_heads=3)
    with pytest.raises(ValueError, match="swish"):
        DecoderLayer(D_MODEL, HEADS, D_FF, activation="swish")


def test_no_position_sees_a_later_one() -> None:
    model = make_model()
    src, tgt = make_tokens(0, "right")
    changed = tgt.clone()
    changed[:, 3] = 4 + (tgt[:, 3] - 3) % (TGT_VOCAB - 4)
    same(model(src, tgt)[:, :3], model(src, changed)[:, :3])


@ORDERS
@ACTIVATIONS
@MASKS
def test_wrong_layers_are_right_without_a_flaw(
    norm_first: bool, activation: str, tgt_kind: str, memory_kind: str
) -> None:
    """What the checks compare with as mistakes differs from the right answer by the mistake alone."""
    x, memory = torch.randn(BATCH, TGT_LEN, D_MODEL), torch.randn(BATCH, SRC_LEN, D_MODEL)
    masks = make_tgt_mask(tgt_kind), make_memory_mask(memory_kind)
    for own, run in (
        (DecoderLayer(D_MODEL, HEADS, D_FF, 0.0, norm_first, activation), run_layer),
        (Decoder(LAYERS, D_MODEL, HEADS, D_FF, 0.0, norm_first, activation), run_stack),
    ):
        randomise(own)
        with torch.no_grad():
            expected = own(x, memory, *masks)
        same(run(Case(own.state_dict(), HEADS, norm_first, x, memory, *masks, activation)), expected)
