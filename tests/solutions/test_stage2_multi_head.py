"""The reference of stage 2 against PyTorch's own layer, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from solutions.stage1_attention.attention import causal_mask, padding_mask
from solutions.stage2_multi_head.multi_head import MultiHeadAttention, merge_heads, split_heads

BATCH, Q_LEN, K_LEN, D_MODEL, HEADS = 2, 5, 7, 12, 3
D_K = D_MODEL // HEADS


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def attention() -> MultiHeadAttention:
    """In eval mode, every parameter random, biases too."""
    layer = MultiHeadAttention(D_MODEL, HEADS).double().eval()
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 + seed))
    return layer


def torch_layer(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's layer with our weights: it stacks the three input projections in one matrix."""
    theirs = nn.MultiheadAttention(D_MODEL, ours.num_heads, batch_first=True, dtype=torch.float64).eval()
    inputs = (ours.w_q, ours.w_k, ours.w_v)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([projection.weight for projection in inputs]),
            "in_proj_bias": torch.cat([projection.bias for projection in inputs]),
            "out_proj.weight": ours.w_o.weight,
            "out_proj.bias": ours.w_o.bias,
        }
    )
    return theirs


def assert_same_as_torch(
    ours: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> None:
    """Our mask is True = may attend; PyTorch's layer hides where True and wants one mask for each head."""
    hidden = None
    if mask is not None:
        shape = (query.shape[0], ours.num_heads, query.shape[1], key.shape[1])
        hidden = ~mask.expand(shape).reshape(-1, *shape[2:])
    expected, expected_weights = torch_layer(ours)(
        query, key, value, attn_mask=hidden, average_attn_weights=False
    )
    output, weights = ours(query, key, value, mask)
    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(output, expected)


def test_split_gives_each_head_its_own_features() -> None:
    x = normal(BATCH, Q_LEN, D_MODEL)
    heads = split_heads(x, HEADS)
    assert heads.shape == (BATCH, HEADS, Q_LEN, D_K)
    for h in range(HEADS):
        assert torch.equal(heads[:, h], x[:, :, h * D_K : (h + 1) * D_K])


def test_merge_is_the_inverse_of_split() -> None:
    x = normal(BATCH, Q_LEN, D_MODEL)
    assert torch.equal(merge_heads(split_heads(x, HEADS)), x)


@pytest.mark.parametrize("shape", [(1, Q_LEN, D_MODEL), (BATCH, 1, D_MODEL), (1, 1, D_MODEL)])
def test_batch_and_length_of_one(attention: MultiHeadAttention, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    assert torch.equal(merge_heads(split_heads(x, HEADS)), x)
    assert_same_as_torch(attention, x, x, x)


def test_non_contiguous_inputs(attention: MultiHeadAttention) -> None:
    sequence_first = normal(Q_LEN, BATCH, D_MODEL).transpose(0, 1)
    every_other = normal(BATCH, Q_LEN, 2 * D_MODEL)[:, :, ::2]
    expanded = normal(1, 1, D_MODEL).expand(BATCH, Q_LEN, D_MODEL)
    for x in (sequence_first, every_other, expanded):
        assert torch.equal(split_heads(x, HEADS), split_heads(x.contiguous(), HEADS))
        heads = x.reshape(BATCH, Q_LEN, HEADS, D_K).permute(0, 2, 1, 3)
        assert torch.equal(merge_heads(heads), merge_heads(heads.contiguous()))
        torch.testing.assert_close(attention(x, x, x), attention(*(x.contiguous(),) * 3))


def test_self_attention(attention: MultiHeadAttention) -> None:
    x = normal(BATCH, Q_LEN, D_MODEL)
    assert_same_as_torch(attention, x, x, x)


def test_cross_attention(attention: MultiHeadAttention) -> None:
    query = normal(BATCH, Q_LEN, D_MODEL, seed=1)
    key = normal(BATCH, K_LEN, D_MODEL, seed=2)
    value = normal(BATCH, K_LEN, D_MODEL, seed=3)
    assert_same_as_torch(attention, query, key, value)


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_any_number_of_heads(num_heads: int) -> None:
    layer = MultiHeadAttention(D_MODEL, num_heads).double()
    x = normal(BATCH, Q_LEN, D_MODEL)
    assert_same_as_torch(layer, x, x, x)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * D_MODEL**2 + 4 * D_MODEL


def test_the_causal_mask_of_stage_1_fits_as_it_is(attention: MultiHeadAttention) -> None:
    x = normal(BATCH, Q_LEN, D_MODEL)
    assert_same_as_torch(attention, x, x, x, causal_mask(Q_LEN))


@pytest.mark.parametrize("tokens", [[[5, 6, 7, 0, 0], [5, 6, 7, 8, 0]], [[0, 0, 5, 6, 7], [0, 5, 6, 7, 8]]])
def test_the_padding_mask_of_stage_1_fits_as_it_is(
    attention: MultiHeadAttention, tokens: list[list[int]]
) -> None:
    x = normal(BATCH, Q_LEN, D_MODEL)
    assert_same_as_torch(attention, x, x, x, padding_mask(torch.tensor(tokens)))


def test_a_query_that_sees_nothing_spoils_nothing(attention: MultiHeadAttention) -> None:
    x = normal(BATCH, Q_LEN, D_MODEL).requires_grad_()
    mask = padding_mask(torch.tensor([[0, 0, 5, 6, 7], [0, 5, 6, 7, 8]])) & causal_mask(Q_LEN)
    output, weights = attention(x, x, x, mask)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    for value in (output, weights, gradient):
        assert value.isfinite().all()


def test_a_mask_for_each_head(attention: MultiHeadAttention) -> None:
    query, memory = normal(BATCH, Q_LEN, D_MODEL, seed=1), normal(BATCH, K_LEN, D_MODEL, seed=2)
    mask = normal(1, HEADS, 1, K_LEN, seed=3) > 0
    mask[..., 2] = True
    assert_same_as_torch(attention, query, memory, memory, mask)


@pytest.mark.parametrize(
    "shape", [(BATCH, K_LEN), (BATCH, Q_LEN, K_LEN), (BATCH, 1, Q_LEN, K_LEN + 1), (3, 1, 1, 1, 1)]
)
def test_a_mask_that_does_not_fit_is_refused(attention: MultiHeadAttention, shape: tuple[int, ...]) -> None:
    query, memory = normal(BATCH, Q_LEN, D_MODEL, seed=1), normal(BATCH, K_LEN, D_MODEL, seed=2)
    with pytest.raises(ValueError, match=f"{BATCH}.*{HEADS}.*{Q_LEN}.*{K_LEN}"):
        attention(query, memory, memory, torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(("d_model", "num_heads"), [(10, 3), (4, 8), (12, 0)])
def test_heads_that_do_not_divide_d_model_are_refused(d_model: int, num_heads: int) -> None:
    with pytest.raises(ValueError, match=f"{d_model}.*{num_heads}"):
        MultiHeadAttention(d_model, num_heads)


def test_dropout_drops_whole_weights_and_only_in_training() -> None:
    # Values that hold the same one-hot row twice in each head: the output shows each weight twice.
    keys, heads, p = 4, 3, 0.5
    layer = MultiHeadAttention(heads * 2 * keys, heads, dropout=p).double()
    with torch.no_grad():
        for projection in (layer.w_v, layer.w_o):
            projection.weight.copy_(torch.eye(heads * 2 * keys))
            projection.bias.zero_()
    query, key = normal(8, 5, heads * 2 * keys, seed=1), normal(8, keys, heads * 2 * keys, seed=2)
    value = torch.eye(keys, dtype=torch.float64).repeat(1, heads * 2).expand(8, keys, -1)

    weights = layer.eval()(query, key, value)[1].detach()
    first, second = split_heads(layer.train()(query, key, value)[0], heads).detach().chunk(2, dim=-1)
    torch.testing.assert_close(first, second)
    kept = first != 0
    torch.testing.assert_close(first, torch.where(kept, weights / (1 - p), 0.0))
    assert 0.4 < kept.double().mean() < 0.6

    layer.eval()
    assert torch.equal(layer(query, key, value)[0], layer(query, key, value)[0])


def test_gradients(attention: MultiHeadAttention) -> None:
    query, key, value = (normal(1, length, D_MODEL, seed=length).requires_grad_() for length in (2, 3, 3))
    mask = torch.tensor([[True, True, False], [True, False, True]])
    assert torch.autograd.gradcheck(lambda *inputs: attention(*inputs, mask)[0], (query, key, value))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_output_has_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    layer = MultiHeadAttention(D_MODEL, HEADS).to(dtype)
    x = normal(BATCH, Q_LEN, D_MODEL).to(dtype)
    output, weights = layer(x, x, x, causal_mask(Q_LEN))
    assert output.dtype == weights.dtype == dtype
