"""The stage 1 solution against PyTorch's own attention, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solutions.stage1_attention.attention import (
    SingleHeadAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Normal numbers that are the same on every run."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def query_key_value(*leading: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Independent query, key and value with all sizes different."""
    return (
        normal(*leading, 4, 8, dtype=dtype, seed=1),
        normal(*leading, 7, 8, dtype=dtype, seed=2),
        normal(*leading, 7, 6, dtype=dtype, seed=3),
    )


def pytorch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """PyTorch's own attention, which wants the mask with two axes or more."""
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.size(-2))
    return F.scaled_dot_product_attention(query, key, value, mask)


def exact(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "pad_id", "expected"),
    [
        ([[5, 9, 4, 0, 0], [7, 0, 0, 0, 0]], 0, [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]),
        ([[0, 0, 5, 9, 4], [0, 6, 6, 8, 7]], 0, [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]]),
        ([[0, 3, 7, 3], [3, 3, 3, 3]], 3, [[1, 0, 1, 0], [0, 0, 0, 0]]),
    ],
    ids=["right", "left", "another pad_id, in between, and nothing real"],
)
def test_padding_mask_marks_real_tokens(
    rows: list[list[int]], pad_id: int, expected: list[list[int]]
) -> None:
    mask = padding_mask(torch.tensor(rows), pad_id)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(rows), 1, 1, len(rows[0]))
    assert mask[:, 0, 0].int().tolist() == expected


@pytest.mark.parametrize("length", [1, 2, 5])
def test_causal_mask_is_the_lower_triangle_with_the_diagonal(length: int) -> None:
    mask = causal_mask(length)
    assert mask.dtype == torch.bool
    assert mask.shape == (1, 1, length, length)
    assert mask[0, 0].tolist() == [[key <= query for key in range(length)] for query in range(length)]


def test_causal_mask_is_made_on_the_device() -> None:
    assert causal_mask(3, device="meta").device.type == "meta"


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 3, 5), (1,)], ids=str)
def test_attention_equals_pytorch(leading: tuple[int, ...]) -> None:
    query, key, value = query_key_value(*leading)
    output, weights = scaled_dot_product_attention(query, key, value)
    exact(output, pytorch(query, key, value))
    exact(weights @ value, output)
    exact(weights.sum(-1), torch.ones(*leading, 4, dtype=torch.float64))


@pytest.mark.parametrize(
    "shape", [(2, 3, 4, 7), (2, 1, 4, 7), (1, 3, 1, 7), (2, 1, 1, 7), (4, 7), (7,), (1, 1, 4, 1)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.uint8], ids=str)
def test_masks_of_every_shape_and_dtype_equal_pytorch(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    query, key, value = query_key_value(2, 3)
    mask = normal(*shape) > -0.5
    mask[..., 0] = True
    output, weights = scaled_dot_product_attention(query, key, value, mask.to(dtype))
    exact(output, pytorch(query, key, value, mask))
    assert not weights[~mask.expand(2, 3, 4, 7)].any()


def test_a_mask_of_true_hides_nothing() -> None:
    query, key, value = query_key_value(2, 3)
    everything = torch.ones(4, 7, dtype=torch.bool)
    exact(
        scaled_dot_product_attention(query, key, value, everything)[1],
        scaled_dot_product_attention(query, key, value)[1],
    )


@pytest.mark.parametrize("shift", [-2e4, 0.0, 1e3])
def test_scores_of_any_size_are_fine(shift: float) -> None:
    query, key, value = query_key_value(2, 3)
    query = torch.cat([query, torch.full((2, 3, 4, 1), shift * 3, dtype=torch.float64)], dim=-1)
    key = torch.cat([key, torch.ones(2, 3, 7, 1, dtype=torch.float64)], dim=-1)
    mask = torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.bool)
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output, pytorch(query, key, value, mask), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_a_query_that_sees_nothing_is_finite_and_harms_nobody() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in query_key_value(2, 3))
    mask = normal(2, 1, 4, 7) > -0.5
    mask[..., 0] = True
    mask[1, :, 2] = False
    with torch.autograd.detect_anomaly(check_nan=True):
        output, weights = scaled_dot_product_attention(query, key, value, mask)
        gradients = torch.autograd.grad(output.sum(), (query, key, value))
    expected = pytorch(query, key, value, mask)
    exact(output, expected)
    assert not weights[1, :, 2].any()
    for gradient, right in zip(
        gradients, torch.autograd.grad(expected.sum(), (query, key, value)), strict=True
    ):
        assert gradient.isfinite().all()
        exact(gradient, right)


@pytest.mark.parametrize(
    ("leading", "mask"),
    [
        ((), (1, 4, 7)),
        ((3,), (2, 3, 4, 7)),
        ((1, 3), (2, 1, 4, 7)),
        ((2, 1), (2, 3, 4, 7)),
        ((2, 3), (4, 6)),
        ((2, 3), (2, 7)),
        ((2, 3), (2, 4, 7)),
    ],
    ids=str,
)
def test_a_mask_that_does_not_fit_names_both_shapes(leading: tuple[int, ...], mask: tuple[int, ...]) -> None:
    query, key, value = query_key_value(*leading)
    with pytest.raises(ValueError) as error:
        scaled_dot_product_attention(query, key, value, torch.ones(mask, dtype=torch.bool))
    assert str(mask) in str(error.value)
    assert str((*leading, 4, 7)) in str(error.value)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)], ids=str)
def test_half_precision_works(dtype: torch.dtype, tolerance: float) -> None:
    query, key, value = query_key_value(2, 3, dtype=dtype)
    mask = torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.bool)
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert output.dtype == weights.dtype == dtype
    expected = pytorch(query.double(), key.double(), value.double(), mask)
    torch.testing.assert_close(output.double(), expected, rtol=tolerance, atol=tolerance)


def test_gradients_are_right() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in query_key_value(2))
    mask = torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.bool)
    assert torch.autograd.gradcheck(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask), (query, key, value)
    )


def test_inputs_are_not_modified_and_may_be_non_contiguous() -> None:
    query, key, value = (tensor.transpose(0, 1) for tensor in query_key_value(3, 2))
    mask = normal(4, 7) > -0.5
    mask[:, 0] = True
    before = [tensor.clone() for tensor in (query, key, value, mask)]
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    exact(output, pytorch(query, key, value, mask))
    for tensor, old in zip((query, key, value, mask), before, strict=True):
        assert torch.equal(tensor, old)


def test_single_head_attention_equals_pytorch() -> None:
    head = SingleHeadAttention(12, 5).double()
    x = normal(2, 6, 12)
    tokens = torch.tensor([[4, 5, 6, 7, 0, 0], [0, 4, 5, 6, 7, 8]])
    for mask in (None, causal_mask(6)[0], padding_mask(tokens)[:, 0]):
        output, weights = head(x, mask)
        query, key, value = (
            F.linear(x, layer.weight, layer.bias) for layer in (head.w_q, head.w_k, head.w_v)
        )
        exact(output, pytorch(query, key, value, mask))
        assert weights.shape == (2, 6, 6)
    assert {name: tuple(tensor.shape) for name, tensor in head.named_parameters()} == {
        "w_q.weight": (5, 12),
        "w_q.bias": (5,),
        "w_k.weight": (5, 12),
        "w_k.bias": (5,),
        "w_v.weight": (5, 12),
        "w_v.bias": (5,),
    }
