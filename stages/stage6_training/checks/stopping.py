"""What early stopping says to a row of losses: the right answers, and those of known mistakes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect

from .objects import an_object

WAYS = {
    "stopping-patience-off-by-one": "one more",
    "stopping-nan-is-a-gain": "nan",
    "stopping-min-delta-ignored": "no min_delta",
    "stopping-min-delta-relative": "relative",
    "stopping-compares-with-the-last": "last",
}


def answers(values: list[float], patience: int, min_delta: float, way: str = "right") -> list[bool]:
    """What `step` says to each loss."""
    best, without_gain, said = math.inf, 0, []
    for value in values:
        wanted = best - (0.0 if way == "no min_delta" else min_delta)
        if way == "relative" and best < math.inf:
            wanted = best - min_delta * abs(best)
        gain = value < wanted
        if way == "nan":
            gain = not value >= wanted
        if gain:
            best = value
            without_gain = 0
        else:
            without_gain += 1
            best = value if way == "last" else best
        said.append(without_gain > patience if way == "one more" else without_gain >= patience)
    return said


def expect_answers(
    submission: Any,
    values: list[float],
    patience: int,
    min_delta: float = 0.0,
    known: dict[str, str] = WAYS,
) -> Any:
    """The submission says the right thing to each loss; gives its object.

    The rows of losses are such that each known mistake gives other answers than the others: a plateau at the
    beginning shows the patience, what follows shows what counts as a gain.
    """
    stopping = an_object(submission.EarlyStopping(patience, min_delta), "an EarlyStopping")
    found = [expect(stopping.step(value), f"the answer to the loss {value}").value() for value in values]
    shown = ", ".join(f"{value:g}" for value in values)
    expect(found, f"what step() says to the losses {shown} with patience {patience}").equals(
        answers(values, patience, min_delta),
        mistakes={code: answers(values, patience, min_delta, way) for code, way in known.items()},
        facts={"values": shown, "patience": patience, "min_delta": min_delta},
    )
    return stopping


def state_of(stopping: Any) -> dict[str, Any]:
    """`best_state` as a plain dict."""
    state = expect(stopping.best_state, "best_state").value()
    return state if isinstance(state, dict) else {}


def same_state(stopping: Any, weights: dict[str, Tensor]) -> bool:
    """Whether `best_state` holds these weights."""
    state = state_of(stopping)
    return state.keys() == weights.keys() and all(
        isinstance(state[name], Tensor) and torch.equal(state[name], value) for name, value in weights.items()
    )
