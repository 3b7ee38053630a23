"""The points of `stages/course.toml` are the sums over the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import Stage, load_course
from grader.declared import declared_checks

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("stage", load_course(ROOT).stages, ids=lambda stage: stage.name)
def test_points_are_the_sum_over_the_checks(stage: Stage) -> None:
    declared: dict[str, float] = dict.fromkeys((exercise.name for exercise in stage.exercises), 0.0)
    for check in declared_checks(ROOT / "stages" / stage.folder / "checks", stage.name):
        declared[check.exercise] = declared.get(check.exercise, 0.0) + check.points
    assert {exercise.name: exercise.points for exercise in stage.exercises} == declared
