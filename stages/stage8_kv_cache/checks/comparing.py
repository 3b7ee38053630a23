"""Gives `compare_with_torch` attentions whose difference and slowness are known."""

from __future__ import annotations

import math
from typing import Any

from grader.checks import expect, fail, mistake


def compared(submission: Any, *arguments: Any, **options: Any) -> tuple[float, float]:
    """The two numbers of a comparison, as plain floats."""
    returned = submission.compare_with_torch(*arguments, **options)
    numbers = []
    for part, what in zip(returned, ("the largest difference", "the time ratio")):
        value = expect(part, what).value()
        if type(value) not in (int, float) or not math.isfinite(value):
            fail(
                f"{what[:1].upper()}{what[1:]} is {value!r:.60}, expected a plain float.",
                "Convert with .item().",
            )
        numbers.append(float(value))
    if len(numbers) != 2:
        fail("compare_with_torch returned one number, expected (largest difference, time ratio).")
    return numbers[0], numbers[1]


def finds_the_difference(submission: Any, draw: Any) -> None:
    """A check: the known difference comes out, whatever its sign and place; without one, almost 0."""
    query, key, value = inputs(draw)
    count = query.shape[0] * query.shape[1] * query.shape[2] * value.shape[3]
    for below in (0.25, -0.5):
        attention = submission.probes.Attention(below=below)
        difference, _ = compared(submission, query, key, value, attention=attention, repeats=2)
        if abs(difference - abs(below)) > 1e-4:
            for wrong in (-below, 0.0, abs(below) / count):
                if abs(difference - wrong) < 1e-6:
                    mistake("difference-not-absolute-largest", seen=difference, expected=abs(below))
            fail(f"The largest difference is {difference:.3g}, expected {abs(below)}.")
    difference, _ = compared(submission, query, key, value, repeats=1)
    if not 0 <= difference < 1e-4:
        fail(
            f"Your own attention differs from PyTorch's by {difference:.3g}; expected at most rounding, 1e-4."
        )


def hands_on_the_mask(submission: Any, draw: Any) -> None:
    """A check: both attentions get the mask."""
    query, key, value = inputs(draw)
    mask = draw.mask(1, 1, query.shape[2], key.shape[2])
    difference, _ = compared(
        submission, query, key, value, mask, attention=submission.probes.Attention(), repeats=1
    )
    if difference > 1e-4:
        fail(
            f"With a mask, two right attentions differed by {difference:.3g}: one of them did not get it.",
            "Hand on the mask to both: mask, and attn_mask=mask.",
        )


def has_the_ratio_the_right_way_round(submission: Any, draw: Any) -> None:
    """A check: an attention that does everything 200 times takes longer than PyTorch's."""
    query, key, value = inputs(draw)
    slow = submission.probes.Attention(times=200)
    _, ratio = compared(submission, query, key, value, attention=slow, repeats=5)
    if ratio <= 1:
        mistake("ratio-upside-down", seen=ratio)


def inputs(draw: Any) -> tuple[Any, Any, Any]:
    """Query, key and value, all sizes different."""
    return draw.normal(2, 3, 5, 8), draw.normal(2, 3, 7, 8), draw.normal(2, 3, 7, 4)
