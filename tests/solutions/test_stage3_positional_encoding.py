"""The reference of stage 3 against the closed formulas and complex multiplication, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from solutions.stage3_positional_encoding.positional_encoding import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
    apply_rotary,
    rotary_table,
    sinusoidal_table,
)

BATCH, HEADS, SEQ, D_MODEL, D_K, MAX_LEN = 2, 3, 5, 12, 8, 11

Layer = SinusoidalPositionalEncoding | LearnedPositionalEncoding


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def closed_formula(length: int, d_model: int) -> Tensor:
    """The paper's table, number by number, by the math module."""
    table = torch.empty(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def turns(length: int, d_k: int, base: float = 10000.0, first: int = 0) -> Tensor:
    """(length, d_k/2) complex numbers e^(j * angle), number by number."""
    rows = [
        [
            complex(math.cos(angle), math.sin(angle))
            for angle in (p * base ** (-2 * i / d_k) for i in range(d_k // 2))
        ]
        for p in range(first, first + length)
    ]
    return torch.tensor(rows, dtype=torch.complex128)


def rotated_in_complex_numbers(x: Tensor, turn: Tensor) -> Tensor:
    """Feature i is the real part of pair i, feature i + d_k/2 its imaginary part."""
    real, imaginary = x.chunk(2, dim=-1)
    pairs = torch.complex(real.contiguous(), imaginary.contiguous()) * turn
    return torch.cat([pairs.real, pairs.imag], dim=-1)


def rotated_as_in_hugging_face(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x * cos + rotate_half(x) * sin, with each column of the tables given twice."""
    half = x.shape[-1] // 2
    rotate_half = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * torch.cat((cos, cos), dim=-1) + rotate_half * torch.cat((sin, sin), dim=-1)


def layers(dropout: float = 0.0) -> list[Layer]:
    """One of each kind, in float64, with the same interface."""
    return [
        SinusoidalPositionalEncoding(D_MODEL, MAX_LEN, dropout).double(),
        LearnedPositionalEncoding(D_MODEL, MAX_LEN, dropout).double(),
    ]


def rows_of(layer: Layer) -> Tensor:
    """(MAX_LEN, D_MODEL): what the layer adds."""
    return layer.pe[0] if isinstance(layer, SinusoidalPositionalEncoding) else layer.embedding.weight.detach()


# The table of sines and cosines


@pytest.mark.parametrize("d_model", [2, 4, 12, 64, 512])
def test_the_table_is_the_papers_formula(d_model: int) -> None:
    torch.testing.assert_close(
        sinusoidal_table(51, d_model).double(), closed_formula(51, d_model), atol=1e-5, rtol=0
    )


def test_float32_is_enough_up_to_position_5000() -> None:
    torch.testing.assert_close(
        sinusoidal_table(5001, 16).double(), closed_formula(5001, 16), atol=2e-3, rtol=0
    )


def test_in_float64_the_formula_holds_to_twelve_digits() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        table = sinusoidal_table(5001, 16)
        cos, sin = rotary_table(5001, 16)
    finally:
        torch.set_default_dtype(before)
    torch.testing.assert_close(table, closed_formula(5001, 16), atol=1e-11, rtol=0)
    torch.testing.assert_close(torch.complex(cos, sin), turns(5001, 16), atol=1e-11, rtol=0)


def test_one_row_is_position_0() -> None:
    assert sinusoidal_table(1, 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_dot_products_depend_on_distance_alone() -> None:
    table = sinusoidal_table(60, D_MODEL).double()
    products = table @ table.T
    frequencies = [10000 ** (-2 * i / D_MODEL) for i in range(D_MODEL // 2)]
    for distance in (0, 1, 7, 40):
        expected = sum(math.cos(distance * frequency) for frequency in frequencies)
        torch.testing.assert_close(
            products.diagonal(distance), torch.full((60 - distance,), expected).double(), atol=1e-4, rtol=0
        )


@pytest.mark.parametrize("d_model", [1, 7, 511])
def test_an_odd_d_model_is_refused(d_model: int) -> None:
    with pytest.raises(ValueError, match=str(d_model)):
        sinusoidal_table(5, d_model)
    with pytest.raises(ValueError, match=str(d_model)):
        SinusoidalPositionalEncoding(d_model)


# The two layers that add


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    ("batch", "seq", "offset"), [(2, 5, 0), (2, 5, 3), (1, 5, 6), (3, 1, 10), (1, 11, 0)]
)
def test_rows_from_offset_on_are_added_to_every_sequence(
    index: int, batch: int, seq: int, offset: int
) -> None:
    layer, x = layers()[index], normal(batch, seq, D_MODEL)
    before = x.clone()
    output = layer(x, offset)
    for b in range(batch):
        for s in range(seq):
            assert torch.equal(output[b, s], x[b, s] + rows_of(layer)[offset + s])
    assert torch.equal(x, before)


@pytest.mark.parametrize("index", [0, 1])
def test_non_contiguous_inputs(index: int) -> None:
    layer = layers()[index]
    sequence_first = normal(SEQ, BATCH, D_MODEL).transpose(0, 1)
    expanded = normal(1, 1, D_MODEL).expand(BATCH, SEQ, D_MODEL)
    for x in (sequence_first, expanded):
        assert torch.equal(layer(x), layer(x.contiguous()))


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("seq", "offset"), [(12, 0), (5, 7), (4, 10), (1, 11), (1, 30)])
def test_positions_behind_the_last_row_are_refused(index: int, seq: int, offset: int) -> None:
    with pytest.raises(ValueError, match=f"{offset}.*{seq}.*{MAX_LEN}"):
        layers()[index](normal(BATCH, seq, D_MODEL), offset)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("seq", "offset"), [(5, -1), (3, -5), (1, -1)])
def test_a_negative_offset_is_refused(index: int, seq: int, offset: int) -> None:
    with pytest.raises(ValueError, match=str(offset)):
        layers()[index](normal(BATCH, seq, D_MODEL), offset)


@pytest.mark.parametrize("index", [0, 1])
def test_dropout_acts_on_the_sum_and_only_in_training(index: int) -> None:
    layer, x = layers(dropout=0.25)[index], normal(8, SEQ, D_MODEL)
    total = x + rows_of(layer)[:SEQ]
    output = layer.train()(x).detach()
    kept = output != 0
    torch.testing.assert_close(output, torch.where(kept, total / 0.75, 0.0))
    assert 0.65 < kept.double().mean() < 0.85
    assert torch.equal(layer.eval()(x), total)


def test_the_sinusoidal_table_is_saved_and_moved_but_not_trained() -> None:
    layer = SinusoidalPositionalEncoding(D_MODEL, MAX_LEN)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {
        "pe": (1, MAX_LEN, D_MODEL)
    }
    assert torch.equal(layer.pe[0], sinusoidal_table(MAX_LEN, D_MODEL))
    assert list(layer.parameters()) == []
    assert layer.bfloat16()(torch.zeros(1, 3, D_MODEL, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert layer.to("meta")(torch.zeros(1, 3, D_MODEL, device="meta")).device.type == "meta"
    assert SinusoidalPositionalEncoding(2).pe.shape == (1, 5000, 2)


def test_each_learned_row_gets_the_gradient_of_its_position() -> None:
    layer = LearnedPositionalEncoding(D_MODEL, MAX_LEN).double()
    assert isinstance(layer.embedding, nn.Embedding)
    assert layer.embedding.weight.shape == (MAX_LEN, D_MODEL)
    cotangent = normal(BATCH, SEQ, D_MODEL, seed=1)
    (layer(normal(BATCH, SEQ, D_MODEL), offset=3) * cotangent).sum().backward()
    expected = torch.zeros(MAX_LEN, D_MODEL, dtype=torch.float64)
    expected[3 : 3 + SEQ] = cotangent.sum(dim=0)
    torch.testing.assert_close(layer.embedding.weight.grad, expected)


# Rotary positions


@pytest.mark.parametrize(("d_k", "base"), [(2, 10000.0), (8, 10000.0), (64, 10000), (8, 500000.0)])
def test_the_rotary_table_holds_the_angles(d_k: int, base: float) -> None:
    cos, sin = rotary_table(51, d_k, base)
    assert cos.shape == sin.shape == (51, d_k // 2)
    torch.testing.assert_close(
        torch.complex(cos.double(), sin.double()), turns(51, d_k, base), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("d_k", [1, 7])
def test_an_odd_d_k_is_refused(d_k: int) -> None:
    with pytest.raises(ValueError, match=str(d_k)):
        rotary_table(5, d_k)


@pytest.mark.parametrize(
    ("batch", "seq", "offset"), [(2, 5, 0), (2, 5, 3), (1, 5, 6), (3, 1, 10), (1, 11, 0)]
)
def test_rotating_is_complex_multiplication(batch: int, seq: int, offset: int) -> None:
    x, turn = normal(batch, HEADS, seq, D_K), turns(MAX_LEN, D_K)
    before = x.clone()
    output = apply_rotary(x, turn.real, turn.imag, offset)
    here = slice(offset, offset + seq)
    torch.testing.assert_close(output, rotated_in_complex_numbers(x, turn[here]))
    torch.testing.assert_close(output, rotated_as_in_hugging_face(x, turn.real[here], turn.imag[here]))
    torch.testing.assert_close(output.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(x, before)


def test_scores_depend_on_relative_position_alone() -> None:
    cos, sin = turns(40, D_K).real, turns(40, D_K).imag
    query, key = normal(BATCH, HEADS, SEQ, D_K, seed=1), normal(BATCH, HEADS, SEQ, D_K, seed=2)

    def scores(query_offset: int, key_offset: int) -> Tensor:
        return apply_rotary(query, cos, sin, query_offset) @ apply_rotary(key, cos, sin, key_offset).mT

    torch.testing.assert_close(scores(0, 0), scores(30, 30))
    torch.testing.assert_close(scores(9, 2), scores(27, 20))
    assert (scores(0, 0) - scores(1, 0)).abs().max() > 0.1


def test_rotary_accepts_non_contiguous_input_and_keeps_its_dtype() -> None:
    cos, sin = rotary_table(MAX_LEN, D_K)
    x = normal(BATCH, SEQ, HEADS, D_K).transpose(1, 2)
    torch.testing.assert_close(apply_rotary(x, cos, sin), apply_rotary(x.contiguous(), cos, sin))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert apply_rotary(x.to(dtype), cos, sin).dtype == dtype


@pytest.mark.parametrize(("seq", "offset"), [(12, 0), (5, 7), (4, 10), (1, 11), (5, -1), (3, -5), (1, -1)])
def test_positions_that_the_rotary_table_lacks_are_refused(seq: int, offset: int) -> None:
    cos, sin = rotary_table(MAX_LEN, D_K)
    with pytest.raises(ValueError, match=f"{offset}.*{seq}.*{MAX_LEN}"):
        apply_rotary(normal(BATCH, HEADS, seq, D_K), cos, sin, offset)


def test_gradients() -> None:
    turn = turns(MAX_LEN, D_K)
    x = normal(2, 2, 3, D_K).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: apply_rotary(x, turn.real, turn.imag, 2), (x,))
    for layer in layers():
        assert torch.autograd.gradcheck(
            lambda x, layer=layer: layer(x, 2), (normal(2, 3, D_MODEL).requires_grad_(),)
        )
