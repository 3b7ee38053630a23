"""The solutions get full marks with every seed; the skeletons get nothing, and say what is to do."""

from __future__ import annotations

import os

import pytest
from bank import ROOT, STAGES, functions_of

from grader.course import Course, Stage
from grader.declared import declared_checks
from grader.driver import Engine, Options, Run
from grader.local import LocalWorkers
from grader.runner import Runner

SEEDS = 200
FEWER_SEEDS = {"stage4": 30, "stage5": 20, "stage6": 8, "stage7": 15, "stage8": 6}
"""Where one pass over the checks takes seconds. EVERY_SEED=1 in the environment tries all."""

SEEDS_FOR_REAL = 3
"""For the checks that train a model for seconds. Their own comment says how it went with ten."""


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_solution_passes_with_every_seed(stage: Stage, course: Course) -> None:
    """In this process, where a check costs milliseconds: it is the checks that are tried here, not the isolation."""
    functions = functions_of(stage)
    seeds = SEEDS if os.environ.get("EVERY_SEED") else FEWER_SEEDS.get(stage.name, SEEDS)
    for seed in range(seeds):
        run = Run(ROOT, course, stage, ROOT / "solutions", Options(seed=seed, debug=True))
        runner = Runner(run.job, LocalWorkers())
        for declared in run.declared:
            if "for_real" in declared.function and seed >= SEEDS_FOR_REAL:
                continue
            result = runner.run(declared, functions[declared.id])
            assert result.status == "passed", (
                seed,
                result.id,
                result.findings,
                result.error,
                result.diagnosis,
            )


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_solution_gets_full_marks(stage: Stage, engine: Engine) -> None:
    result = engine.grade(stage, ROOT / "solutions", Options())
    assert [
        (check.id, check.status, check.findings) for check in result.checks if check.status != "passed"
    ] == []
    assert result.score == result.max_score == sum(exercise.points for exercise in stage.exercises)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_skeleton_gets_nothing_and_says_todo(stage: Stage, engine: Engine, course: Course) -> None:
    from grader import skeleton

    assert skeleton.differences(ROOT) == [], "the skeletons here are not those that the solutions generate"
    result = engine.grade(stage, ROOT / "stages", Options())
    assert result.score == 0
    assert {exercise.status for exercise in result.exercises} == {"todo"}
    assert {check.status for check in result.checks} == {"todo"}


def test_points_of_the_course_are_those_of_the_checks() -> None:
    for stage in STAGES:
        declared = declared_checks(ROOT / "stages" / stage.folder / "checks", stage.name)
        for exercise in stage.exercises:
            points = sum(check.points for check in declared if check.exercise == exercise.name)
            assert points == exercise.points, (stage.name, exercise.name)
