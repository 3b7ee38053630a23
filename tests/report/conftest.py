"""Results made by hand, as a learner would meet them: one beautiful failure, and one of every status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from grader.result import CheckResult, Comparison, Diagnosis, ExerciseResult, Place, StageResult, Status

ResultMaker = Callable[..., StageResult]


def stage_result(exercises: list[ExerciseResult], checks: list[CheckResult], **changes: Any) -> StageResult:
    """A result of stage 1 with the points added up."""
    fields: dict[str, Any] = {
        "course": "The Transformer by hand",
        "stage": "stage1",
        "title": "Attention",
        "folder": "stage1_attention",
        "submission": "stages",
        "device": "cpu",
        "seed": 42,
        "earlier": "own",
        "selection": "",
        "versions": {"torch": "2.13.0"},
        "sandbox": "none",
        "score": sum(exercise.points for exercise in exercises),
        "max_score": sum(exercise.max_points for exercise in exercises),
        "seconds": 1.84,
        "exercises": exercises,
        "checks": checks,
    }
    return StageResult(**{**fields, **changes})


def check_result(name: str, exercise: str, status: Status = "passed", **changes: Any) -> CheckResult:
    fields: dict[str, Any] = {
        "id": f"stage1/{name}",
        "exercise": exercise,
        "title": f"{name.replace('_', ' ').capitalize()}.",
        "status": status,
        "points": 1.0 if status == "passed" else 0.0,
        "max_points": 1.0,
        "hidden": False,
    }
    return CheckResult(**{**fields, **changes})


def exercise_result(
    name: str, status: Status, points: float, max_points: float, line: int | None = 12
) -> ExerciseResult:
    return ExerciseResult(name, "attention.py", line, status, points, max_points)


UNSCALED = Diagnosis(
    code="unscaled",
    name="Scores not divided by sqrt(d_k)",
    seen="Your attention weights are exactly softmax(q kᵀ): the scores were not divided by sqrt(d_k) = 2.83.",
    why="The dot product of two random vectors has variance d_k. "
    "Without the division the softmax saturates and its gradient vanishes.",
    look_at="the line that computes the scores",
    place=Place("stage1_attention/attention.py", 41, "scores = query @ key.mT"),
)

WEIGHTS = Comparison(
    what="attention weights",
    dims=["batch", "heads", "query", "key"],
    index=[0, 1],
    expected=[["0.103", "0.412", "0.485"], ["0.350", "0.316", "0.334"], ["0.091", "0.120", "0.789"]],
    actual=[["0.011", "0.405", "0.584"], ["0.350", "0.316", "0.334"], ["0.002", "0.017", "0.981"]],
    expected_shape=[2, 3, 5, 7],
    actual_shape=[2, 3, 5, 7],
    largest_difference=0.31234,
    rows=[0, 2, 4],
    columns=[0, 1, 6],
)


@pytest.fixture
def unscaled() -> StageResult:
    """Two exercises done, the third not scaled (with two further problems), the fourth not started."""
    attention = "scaled_dot_product_attention"
    return stage_result(
        [
            exercise_result("padding_mask", "passed", 2, 2),
            exercise_result("causal_mask", "passed", 1.5, 1.5),
            exercise_result(attention, "failed", 2, 6, line=30),
            exercise_result("SingleHeadAttention", "todo", 0, 2, line=60),
        ],
        [
            check_result("pads_are_hidden", "padding_mask"),
            check_result("future_is_hidden", "causal_mask"),
            check_result("shape_of_the_output", attention),
            check_result(
                "rows_that_see_nothing",
                attention,
                "failed",
                title="A query that may see nothing gets a finite output.",
                findings=["The output is NaN on the rows whose mask is False everywhere; it must be finite."],
            ),
            check_result(
                "scores_are_scaled",
                attention,
                "failed",
                title="Scores are divided by sqrt(d_k) before the softmax.",
                max_points=2.0,
                diagnosis=UNSCALED,
                detail=WEIGHTS,
                output="scores torch.Size([2, 3, 5, 7])\n",
                next_step="Divide the scores by the square root of the width of one key.",
            ),
            check_result(
                "half_precision",
                attention,
                "failed",
                title="Half precision works too.",
                diagnosis=UNSCALED,
            ),
            check_result("starts", "SingleHeadAttention", "todo"),
        ],
    )


RAISED: dict[str, Any] = {
    "error": "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "traceback": [
        Place("stage1_attention/attention.py", 71, "return self.attend(x)"),
        Place("stage1_attention/attention.py", 75, "scores = x @ self.w_q(x)"),
    ],
}


@pytest.fixture
def every_status() -> StageResult:
    """One exercise for each status, the long reports left to the engine's own words."""
    special: dict[str, dict[str, Any]] = {
        "error": RAISED,
        "missing": {
            "findings": ["attention.py has no `exercise_missing`: expected def exercise_missing(length)."]
        },
        "waiting": {"findings": ["Finish causal_mask (stage1) first: this exercise uses it."]},
        "timeout": {"findings": ["Stopped after 10 s in `exercise_timeout`."]},
    }
    exercises, checks = [], []
    for status in get_args(Status):
        name = f"exercise_{status}"
        exercises.append(exercise_result(name, status, 1 if status == "passed" else 0, 1))
        checks.append(check_result(f"holds_{status}", name, status, **special.get(status, {})))
    return stage_result(exercises, checks)


@pytest.fixture
def untouched() -> StageResult:
    """The skeleton as it comes."""
    names = ["padding_mask", "causal_mask", "scaled_dot_product_attention", "SingleHeadAttention"]
    return stage_result(
        [exercise_result(name, "todo", 0, 2) for name in names],
        [check_result(f"holds_{name}", name, "todo") for name in names],
    )


@pytest.fixture
def complete() -> StageResult:
    names = ["padding_mask", "causal_mask", "scaled_dot_product_attention", "SingleHeadAttention"]
    return stage_result(
        [exercise_result(name, "passed", 1, 1) for name in names],
        [check_result(f"holds_{name}", name) for name in names],
    )


@pytest.fixture
def make_result() -> ResultMaker:
    """Builds a result of one exercise with the checks given as keyword arguments of `CheckResult`."""

    def make(*checks: dict[str, Any], status: Status = "failed", **changes: Any) -> StageResult:
        built = [
            check_result(f"check_{i}", "causal_mask", **{"status": status, **each})
            for i, each in enumerate(checks)
        ]
        exercise = exercise_result(
            "causal_mask", status, sum(c.points for c in built), sum(c.max_points for c in built)
        )
        return stage_result([exercise], built, **changes)

    return make
