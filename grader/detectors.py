"""Detectors that know no stage: what do the returned values look like, beside the expected ones?

Each gives a sentence or None. They run when no known mistake explains what was returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from grader.tolerance import close


def findings(
    actual: torch.Tensor,
    expected: torch.Tensor,
    dims: list[str],
    counts: torch.Tensor,
    tolerances: tuple[float, float],
    inputs: list[torch.Tensor],
) -> list[str]:
    """Sentences about how two tensors of one shape differ; `counts` says which positions are compared."""
    atol, rtol = tolerances
    right = close(actual, expected, atol, rtol) | ~counts
    found = [
        *nan_rows(actual, dims, counts),
        *(complement(actual, expected, counts) if actual.dtype == torch.bool else ()),
        *constant_ratio(actual, expected, counts, atol, rtol),
        *constant_difference(actual, expected, counts, atol, rtol),
        *transposed(actual, expected, dims, counts, atol, rtol),
        *shifted(actual, expected, dims, counts, atol, rtol),
        *an_input(actual, inputs),
        *only_some(right, counts, dims),
        *no_variation(actual, expected, dims, atol, rtol),
    ]
    return found[:3]


def axis_name(dims: list[str], axis: int) -> str:
    """'query axis' where the axes have names, else 'axis 2'."""
    return f"{dims[axis]} axis" if dims else f"axis {axis}"


def nan_rows(actual: torch.Tensor, dims: list[str], counts: torch.Tensor) -> Iterator[str]:
    if not actual.is_floating_point():
        return
    bad = actual.isnan() & counts
    if not bad.any() or actual.dim() == 0:
        return
    rows = bad.flatten(0, -2).any(-1) if actual.dim() > 1 else bad
    if not rows.all():
        yield f"NaN stands in {int(rows.sum())} of {rows.numel()} rows only; the other rows have numbers."


def complement(actual: torch.Tensor, expected: torch.Tensor, counts: torch.Tensor) -> Iterator[str]:
    if bool(((actual == ~expected) | ~counts).all()):
        yield "It is the exact opposite: True stands where False is expected and the other way round."


def constant_ratio(
    actual: torch.Tensor, expected: torch.Tensor, counts: torch.Tensor, atol: float, rtol: float
) -> Iterator[str]:
    if not actual.is_floating_point() or not expected.is_floating_point():
        return
    a, e = actual.double()[counts], expected.double()[counts]
    if a.numel() < 3 or not a.isfinite().all() or not e.isfinite().all():
        return
    power = float((e * e).sum())
    if power == 0:
        return
    ratio = float((a * e).sum()) / power
    if (
        abs(ratio) < 1e-6
        or not torch.isclose(a, ratio * e, atol=atol * max(1.0, abs(ratio)), rtol=rtol).all()
    ):
        return
    yield f"Every value is {number_name(ratio, [*actual.shape, *expected.shape])} times the expected one."


def number_name(ratio: float, sizes: list[int]) -> str:
    """A factor as a person would write it: 'sqrt(8) = 2.828', '1/4', '-1'."""
    if math.isclose(ratio, -1, rel_tol=1e-4):
        return "-1"
    for size in sorted({*sizes, 2, 3, 4, 8, 16, 32, 64} - {0, 1}):
        for value, text in (
            (float(size), f"{size}"),
            (1 / size, f"1/{size}"),
            (math.sqrt(size), f"sqrt({size}) = {math.sqrt(size):.4g}"),
            (1 / math.sqrt(size), f"1/sqrt({size}) = {1 / math.sqrt(size):.4g}"),
        ):
            if math.isclose(ratio, value, rel_tol=1e-4):
                return text
    return f"{ratio:.4g}"


def constant_difference(
    actual: torch.Tensor, expected: torch.Tensor, counts: torch.Tensor, atol: float, rtol: float
) -> Iterator[str]:
    if not actual.is_floating_point():
        return
    difference = (actual.double() - expected.double())[counts]
    if difference.numel() < 3 or not difference.isfinite().all():
        return
    mean = float(difference.mean())
    if abs(mean) > 10 * atol and bool((difference - mean).abs().max() <= atol + rtol * abs(mean)):
        yield f"Every value is {mean:+.4g} away from the expected one."


def transposed(
    actual: torch.Tensor,
    expected: torch.Tensor,
    dims: list[str],
    counts: torch.Tensor,
    atol: float,
    rtol: float,
) -> Iterator[str]:
    for first in range(actual.dim()):
        for second in range(first + 1, actual.dim()):
            if actual.shape[first] != actual.shape[second] or actual.shape[first] < 2:
                continue
            turned = actual.transpose(first, second)
            if bool((close(turned, expected, atol, rtol) | ~counts).all()):
                yield f"It is right after swapping the {axis_name(dims, first)} and the {axis_name(dims, second)}."


def shifted(
    actual: torch.Tensor,
    expected: torch.Tensor,
    dims: list[str],
    counts: torch.Tensor,
    atol: float,
    rtol: float,
) -> Iterator[str]:
    for axis in range(actual.dim()):
        length = actual.shape[axis]
        if length < 3:
            continue
        for by, word in ((1, "late"), (-1, "early")):
            moved = actual.roll(-by, axis)
            inside = torch.ones_like(counts)
            inside.select(axis, length - 1 if by > 0 else 0).fill_(False)
            matching = close(moved, expected, atol, rtol) | ~(inside & counts)
            still = close(actual, expected, atol, rtol) | ~counts
            if bool(matching.all()) and not bool(still.all()) and bool((inside & counts).any()):
                if not bool(close(expected.roll(-1, axis), expected, atol, rtol).all()):
                    yield f"It is right, but one step too {word} along the {axis_name(dims, axis)}."
                return


def an_input(actual: torch.Tensor, inputs: list[torch.Tensor]) -> Iterator[str]:
    for index, item in enumerate(inputs):
        if item.shape == actual.shape and item.dtype == actual.dtype and torch.equal(item, actual):
            yield f"It is argument {index + 1} itself, unchanged."
            return


def only_some(right: torch.Tensor, counts: torch.Tensor, dims: list[str]) -> Iterator[str]:
    """The wrong values are confined to a few indices of one axis."""
    for axis in range(right.dim()):
        size = right.shape[axis]
        if size < 2:
            continue
        others = [other for other in range(right.dim()) if other != axis]
        good = right.all(dim=others) if others else right
        compared = counts.any(dim=others) if others else counts
        wrong = [index for index in range(size) if not good[index]]
        fine = [index for index in range(size) if good[index] and compared[index]]
        if wrong and fine and len(wrong) <= max(1, size // 2):
            name = dims[axis] if dims else f"axis {axis}, index"
            listed = ", ".join(str(index) for index in wrong[:8]) + (" ..." if len(wrong) > 8 else "")
            yield f"It is right except at {name} {listed} (of {size})."
            return


def no_variation(
    actual: torch.Tensor, expected: torch.Tensor, dims: list[str], atol: float, rtol: float
) -> Iterator[str]:
    for axis in range(actual.dim()):
        if actual.shape[axis] < 2:
            continue
        same = close(actual, actual.narrow(axis, 0, 1).expand_as(actual), atol, rtol)
        differs = ~close(expected, expected.narrow(axis, 0, 1).expand_as(expected), atol, rtol)
        if bool(same.all()) and bool(differs.any()):
            yield f"It is the same at every index of the {axis_name(dims, axis)}; it should differ."
            return


def shape_finding(actual: tuple[int, ...], expected: tuple[int, ...], dims: list[str]) -> str:
    """What is wrong with a shape: a swapped, missing, added or wrongly sized axis."""
    named = f" ({', '.join(dims)})" if dims and len(dims) == len(expected) else ""
    head = f"its shape is {actual}, expected {expected}{named}"
    if len(actual) == len(expected):
        if sorted(actual) == sorted(expected):
            moved = [axis for axis in range(len(actual)) if actual[axis] != expected[axis]]
            if len(moved) == 2:
                first, second = (axis_name(dims, axis) for axis in moved)
                return f"{head}: the {first} and the {second} are swapped"
            return f"{head}: the axes stand in another order"
        wrong = [axis for axis in range(len(actual)) if actual[axis] != expected[axis]]
        sizes = "; ".join(
            f"the {axis_name(dims, axis)} has {actual[axis]} instead of {expected[axis]}" for axis in wrong
        )
        return f"{head}: {sizes}"
    if len(actual) < len(expected):
        for axis in range(len(expected)):
            if expected[:axis] + expected[axis + 1 :] == actual:
                return f"{head}: the {axis_name(dims, axis)} is missing"
        return f"{head}: it has {len(actual)} axes instead of {len(expected)}"
    for axis in range(len(actual)):
        if actual[:axis] + actual[axis + 1 :] == expected:
            return f"{head}: axis {axis} is one too many"
    return f"{head}: it has {len(actual)} axes instead of {len(expected)}"
