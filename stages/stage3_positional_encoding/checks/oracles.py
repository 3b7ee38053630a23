"""Right and wrong tables, sums and rotations, all written from the formulas in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake
from grader.submission import Raising

Mistakes = dict[str, Callable[[], Tensor]]

PER_TOKEN = "batch position feature"
PER_HEAD = "batch head position feature"


# Tables of sines and cosines


def exponents(width: int) -> Tensor:
    """(width/2,): 2i / width for each pair i."""
    return torch.arange(0, width, 2, dtype=torch.float64) / width


def angles(length: int, exponents: Tensor, base: float = 10000.0, first: int = 0) -> Tensor:
    """(length, pairs): position / base^exponent, the positions counted from `first`."""
    positions = torch.arange(first, first + length, dtype=torch.float64).unsqueeze(1)
    return positions / base**exponents


def coarse_angles(length: int, exponents: Tensor, base: float = 10000.0) -> list[Tensor]:
    """The angles of positions that were made in half precision, or rounded to it (arange itself rounds otherwise)."""
    half = (torch.bfloat16, torch.float16)
    positions = [torch.arange(length).to(dtype) for dtype in half]
    positions += [torch.arange(length, dtype=dtype) for dtype in half]
    return [position.double().unsqueeze(1) / base**exponents for position in positions]


def interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """(length, 2 * pairs): even, odd, even, odd, ..."""
    return torch.stack([even, odd], dim=-1).flatten(-2)


def nearest(actual: Tensor, *guesses: Tensor) -> Tensor:
    """The guess that comes closest to `actual`: one mistake can be made in more than one way."""
    fitting = [guess for guess in guesses if guess.shape == actual.shape]
    if not fitting:
        return guesses[0]
    return min(fitting, key=lambda guess: float((guess - actual).abs().max()))


def waves(angles: Tensor) -> Tensor:
    """Sines in the even columns, cosines in the odd ones."""
    return interleaved(angles.sin(), angles.cos())


def right_table(length: int, d_model: int) -> Tensor:
    """The paper's table, in float32 as the learner's."""
    return waves(angles(length, exponents(d_model))).float()


def as_rounded(guess: Tensor, angles: Tensor, actual: Tensor) -> Tensor:
    """`guess`, but `actual` where the two differ by no more than what float32 loses in so large an angle."""
    if guess.shape != actual.shape:
        return guess
    return torch.where((guess - actual).abs() <= 1e-6 * angles.abs(), actual.double(), guess)


def expect_table(returned: Any, length: int, d_model: int, what: str, atol: float) -> None:
    """What came back is the paper's table; else the known mistake that it shows."""
    actual = expect(returned, what).value()
    expect(returned, what, dims="position feature").equals(
        right_table(length, d_model), wrong_tables(length, d_model, actual), atol=atol, rtol=0
    )


def wrong_tables(length: int, d_model: int, actual: Tensor) -> Mistakes:
    """What known mistakes make of the table; `actual` is the table that is looked at."""
    right = exponents(d_model)
    own = torch.arange(d_model, dtype=torch.float64) / d_model  # one exponent for each column
    steep = torch.arange(length).unsqueeze(1) * d_model / 10000.0 ** (right * d_model)
    growing = angles(length, -right)

    def columns(exponents: Tensor) -> Tensor:
        every = angles(length, exponents)
        return interleaved(every[:, 0::2].sin(), every[:, 1::2].cos())

    return {
        "exponent-doubled": lambda: waves(angles(length, 2 * right)),
        "exponent-doubled-by-column": lambda: columns(2 * own),
        "exponent-by-column": lambda: columns(own),
        "exponent-halved": lambda: waves(angles(length, right / 2)),
        "exponent-outside-power": lambda: as_rounded(waves(steep), interleaved(steep, steep), actual),
        "divided-by-one-pair-less": lambda: waves(angles(length, right * d_model / (d_model - 2))),
        "frequencies-grow": lambda: as_rounded(waves(growing), interleaved(growing, growing), actual),
        "base-1000": lambda: waves(angles(length, right, base=1000.0)),
        "logarithm-to-base-10": lambda: waves(angles(length, right, base=math.exp(4.0))),
        "halves-concatenated": lambda: torch.cat(
            [angles(length, right).sin(), angles(length, right).cos()], dim=-1
        ),
        "cosines-first": lambda: waves(angles(length, right)).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
        "positions-from-one": lambda: waves(angles(length, right, first=1)),
        "positions-in-half-precision": lambda: nearest(actual, *map(waves, coarse_angles(length, right))),
    }


# Layers that add rows of a table. The two have mistakes in common, and a code of its own for each.

SINUSOIDAL = {
    "not-added": "positions-not-added",
    "input-lost": "positions-replace-input",
    "concatenated": "positions-concatenated",
    "by-batch": "positions-by-batch",
    "one-row": "one-row-for-all",
    "off-by-one": "rows-off-by-one",
    "offset-ignored": "offset-ignored",
    "scaled": "scaled-in-positions",
    "missing": "positions-dropout-missing",
    "in-eval": "positions-dropout-in-eval",
    "part": "positions-dropout-on-part",
    "last-row-refused": "last-row-refused",
}
LEARNED = {
    "not-added": "learned-not-added",
    "by-batch": "learned-by-batch",
    "one-row": "learned-one-row-for-all",
    "off-by-one": "learned-off-by-one",
    "offset-ignored": "learned-offset-ignored",
    "missing": "learned-dropout-missing",
    "in-eval": "learned-dropout-in-eval",
    "part": "learned-dropout-on-part",
    "last-row-refused": "learned-last-row-refused",
}


def distinct_rows(table: Tensor, what: str) -> Tensor:
    """(max_len, d_model): what a layer adds. Rows that are equal could not tell a right layer from a wrong one."""
    if len(torch.unique(table, dim=0)) < len(table):
        fail(f"{what} holds the same row for two positions; every position needs a row of its own.")
    return table


def sinusoidal_rows(layer: Any, max_len: int, d_model: int) -> Tensor:
    """The rows of a submission's `pe`. The values of the table are another check's business."""
    pe = expect(layer.pe, "pe", dims="1 position feature").tensor()
    if pe.numel() != max_len * d_model:
        pe = expect(layer.pe, "pe", dims="1 position feature").tensor((1, max_len, d_model))
    return distinct_rows(pe.reshape(max_len, d_model), "pe")


def with_positions(layer: Any, x: Tensor, max_len: int, codes: dict[str, str], offset: int = 0) -> Any:
    """What the layer returns. Refusing a token that stands at the last row is a mistake of its own."""
    try:
        return layer(x, offset=offset) if offset else layer(x)
    except Raising as failure:
        at_the_end = offset + x.shape[1] == max_len
        if at_the_end and failure.raised is not None and failure.raised.type == "ValueError":
            failure.mistake = codes["last-row-refused"]
            failure.facts = {"seq": x.shape[1], "offset": offset, "max_len": max_len}
        raise


def expect_sum(
    returned: Any,
    x: Tensor,
    rows: Tensor,
    codes: dict[str, str],
    offset: int = 0,
    others: Mistakes | None = None,
) -> None:
    """What came back is x plus the rows of its positions; else the known mistake that it shows."""
    actual = expect(returned, "output").value()
    batch, seq, d_model = x.shape
    added = rows[offset : offset + seq].expand_as(x)
    wrong: Mistakes = {
        "not-added": lambda: x,
        "input-lost": lambda: added,
        "concatenated": lambda: torch.cat([x, added], dim=-1),
        "by-batch": lambda: x + rows[offset : offset + batch].unsqueeze(1),
        "one-row": lambda: x + (actual.view_as(x) - x)[:1, :1],  # whatever row it is that every token gets
        "off-by-one": lambda: nearest(
            actual, *(x + rows[first : first + seq] for first in (offset + 1, offset - 1) if first >= 0)
        ),
        "offset-ignored": lambda: x + rows[:seq],
        "scaled": lambda: math.sqrt(d_model) * x + added,
    }
    known = {codes[name]: wrong[name] for name in wrong if name in codes}
    expect(returned, "output", dims=PER_TOKEN).equals(
        x + added, mistakes={**known, **(others or {})}, facts={"offset": offset}
    )


def dropped(total: Tensor, p: float, actual: Tensor) -> Tensor:
    """`total` after dropout with probability p that hit the places where `actual` is 0."""
    return torch.where(actual == 0, 0.0, total / (1 - p))


def part_dropped(part: Tensor, rest: Tensor, p: float, actual: Tensor) -> Tensor:
    """The sum of `rest` and of `part` after dropout, which hit the places where `actual` is `rest` alone."""
    return rest + torch.where(torch.isclose(actual, rest, atol=1e-6), 0.0, part / (1 - p))


def expect_dropout(layer: Any, x: Tensor, rows: Tensor, p: float, codes: dict[str, str]) -> None:
    """Dropout acts on the sum in training, and on nothing in evaluation."""
    added = rows[: x.shape[1]].expand_as(x)
    layer.eval()
    returned = layer(x)
    at_rest = expect(returned, "output in eval mode").value()
    others: Mistakes = {
        codes["in-eval"]: lambda: dropped(x + added, p, at_rest),
        codes["part"]: lambda: part_dropped(added, x, p, at_rest),
    }
    expect_sum(returned, x, rows, codes, others=others)

    layer.train()
    returned = layer(x)
    in_training = expect(returned, "output in training").tensor(tuple(x.shape), dtype=x.dtype)
    if torch.allclose(in_training, x + added, atol=1e-5):
        mistake(codes["missing"], p=p)
    expect(returned, "output in training", dims=PER_TOKEN).equals(
        dropped(x + added, p, in_training),
        mistakes={codes["part"]: lambda: part_dropped(added, x, p, in_training)},
    )


# Rotation


def complex_turned(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair as a complex number, times e^(j * angle)."""
    product = torch.complex(first.contiguous(), second.contiguous()) * torch.complex(cos, sin)
    return product.real, product.imag


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The half-split layout: pair i is made of features i and i + d_k/2."""
    return torch.cat(complex_turned(*x.chunk(2, dim=-1), cos, sin), dim=-1)


def turned_neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The other layout: pair i is made of features 2i and 2i + 1."""
    return interleaved(*complex_turned(x[..., 0::2], x[..., 1::2], cos, sin))


def twice(table: Tensor) -> Tensor:
    """(length, d_k): both halves of the columns alike."""
    return torch.cat([table, table], dim=-1)


def rotated(submission: Any, x: Tensor, cos: Tensor, sin: Tensor, offset: int = 0) -> Any:
    """What `apply_rotary` returns. Where it raises, the check ends with the known mistake that makes it raise."""
    offsets = (offset,) if offset else ()
    try:
        return submission.apply_rotary(x, cos, sin, *offsets)
    except Raising as failure:
        kind = "" if failure.raised is None else failure.raised.type
        if kind == "ValueError" and offset + x.shape[2] == cos.shape[0]:
            failure.mistake = "rotary-last-row-refused"
            failure.facts = {"seq": x.shape[2], "offset": offset, "length": cos.shape[0]}
        elif kind == "RuntimeError" and _wants_wide_tables(submission, x, cos, sin):
            mistake("rotary-wants-wide-tables", d_k=x.shape[-1], pairs=cos.shape[-1])
        raise


def _wants_wide_tables(submission: Any, x: Tensor, cos: Tensor, sin: Tensor) -> bool:
    """Whether the rotation works with tables that have a column for each feature."""
    try:
        returned = submission.apply_rotary(x, twice(cos), twice(sin))
    except Raising:
        return False
    found = expect(returned, "rotated x").value()
    return isinstance(found, Tensor) and found.shape == x.shape


def wrong_turns(x: Tensor, cos: Tensor, sin: Tensor, offset: int = 0) -> Mistakes:
    """What known mistakes make of the rotation; `cos` and `sin` are the whole tables."""
    heads, seq = x.shape[1], x.shape[2]
    c, s = cos[offset : offset + seq], sin[offset : offset + seq]
    first, second = x.chunk(2, dim=-1)
    late = slice(offset + 1, offset + 1 + seq)
    by_head = slice(offset, offset + heads)

    def half_overwritten() -> Tensor:
        new = first * c - second * s
        return torch.cat([new, second * c + new * s], dim=-1)

    def neighbours_with_tiled_tables() -> Tensor:
        swapped = interleaved(-x[..., 1::2], x[..., 0::2])
        return x * twice(c) + swapped * twice(s)

    def halves_with_repeated_tables() -> Tensor:
        swapped = torch.cat([-second, first], dim=-1)
        return x * c.repeat_interleave(2, dim=-1) + swapped * s.repeat_interleave(2, dim=-1)

    return {
        "rotary-neighbours-paired": lambda: turned_neighbours(x, c, s),
        "rotary-backwards": lambda: turned(x, c, -s),
        "rotary-by-head": lambda: turned(x, cos[by_head].unsqueeze(1), sin[by_head].unsqueeze(1)),
        "rotary-minus-missing": lambda: x * twice(c) + torch.cat([second, first], dim=-1) * twice(s),
        "rotary-half-overwritten": half_overwritten,
        "rotary-tables-repeated": halves_with_repeated_tables,
        "rotary-tables-tiled": neighbours_with_tiled_tables,
        "rotary-cos-sin-exchanged": lambda: turned(x, s, c),
        "rotary-one-angle": lambda: turned(x, cos[offset], sin[offset]),
        "rotary-offset-ignored": lambda: turned(x, cos[:seq], sin[:seq]),
        "rotary-off-by-one": lambda: turned(x, cos[late], sin[late]),
    }


def wrong_rotary_tables(
    function: Callable[[Tensor], Tensor], length: int, d_k: int, base: float, actual: Tensor
) -> Mistakes:
    """What known mistakes make of the table of cosines or of sines, as `function` says; `actual` is looked at."""
    right = exponents(d_k)
    growing = angles(length, -right, base)
    wrong = {
        "rotary-exponent-halved": lambda: angles(length, right / 2, base),
        "rotary-exponent-doubled": lambda: angles(length, 2 * right, base),
        "rotary-base-ignored": lambda: angles(length, right),
        "rotary-positions-from-one": lambda: angles(length, right, base, first=1),
    }
    correct = function(angles(length, right, base))
    other = torch.sin if function is torch.cos else torch.cos
    return {
        **{code: lambda angles=angles: function(angles()) for code, angles in wrong.items()},
        "rotary-frequencies-grow": lambda: as_rounded(function(growing), growing, actual),
        "rotary-positions-in-half-precision": lambda: nearest(
            actual, *map(function, coarse_angles(length, right, base))
        ),
        "rotary-full-width": lambda: nearest(actual, twice(correct), correct.repeat_interleave(2, dim=-1)),
        "rotary-table-exchanged": lambda: other(angles(length, right, base)),
    }


def expect_rotary_table(returned: Any, length: int, d_k: int, base: float, atol: float) -> None:
    """A pair of cosines and sines of position * base^(-2i / d_k)."""
    right = angles(length, exponents(d_k), base)
    cos, sin = returned
    for part, function, what in ((cos, torch.cos, "cos"), (sin, torch.sin, "sin")):
        wrong = wrong_rotary_tables(function, length, d_k, base, expect(part, what).value())
        expect(part, what, dims="position pair").equals(function(right).float(), wrong, atol=atol, rtol=0)
