"""Every known mistake is caught and named: grading its mutants yields that diagnosis and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from bank import (
    QUICK,
    STAGES,
    Mutant,
    graded_here,
    lay_submission,
    mistakes_of,
    mutants_of,
    mutated,
    reached_by,
)

from grader.course import Stage
from grader.driver import Engine, Options

ISOLATED = 8
"""Every eighth is graded as learners are, in processes of its own; the others in this one, which gives the same."""

BANK = [(stage, number, mutant) for stage in STAGES for number, mutant in enumerate(mutants_of(stage), 1)]


@pytest.mark.filterwarnings("ignore")  # what torch thinks of the mistakes
@pytest.mark.parametrize(
    ("stage", "mutant", "isolated"),
    [
        pytest.param(stage, mutant, number % ISOLATED == 0, id=f"{stage.name}-{number}-{mutant.mistake}")
        for stage, number, mutant in BANK
    ],
)
def test_the_mistake_is_named(
    stage: Stage, mutant: Mutant, isolated: bool, engine: Engine, tmp_path: Path
) -> None:
    submission = lay_submission(tmp_path, stage, mutated(stage, mutant))
    exercises = reached_by(stage, mutant)
    options = Options(seed=17, earlier="reference", selection=f"({' or '.join(exercises)}) and {QUICK}")
    if isolated:
        checks = engine.grade(stage, submission, options).checks
    else:
        checks = graded_here(stage, submission, options, exercises)
    failing = [check for check in checks if check.status != "passed"]
    named = {
        check.diagnosis.code
        for check in failing
        if check.diagnosis and not check.diagnosis.code.startswith("general/")
    }
    story = "\n".join(
        f"{check.id}: {check.status}, {check.diagnosis.code if check.diagnosis else 'no diagnosis'}; {check.findings}"
        for check in failing
    )
    assert named == {mutant.mistake}, story
    assert failing
    assert not [check for check in failing if check.status == "grader_error"], story
    places = [
        check.diagnosis.place
        for check in failing
        if check.diagnosis and check.diagnosis.code == mutant.mistake
    ]
    assert all(place is not None and place.file == f"{stage.folder}/{mutant.file}" for place in places), (
        places
    )


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_mistake_has_a_mutant(stage: Stage) -> None:
    assert {mutant.mistake for mutant in mutants_of(stage)} == set(mistakes_of(stage))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("stage1", 18),
        ("stage2", 12),
        ("stage3", 14),
        ("stage4", 16),
        ("stage5", 18),
        ("stage6", 24),
        ("stage7", 22),
        ("stage8", 20),
    ],
)
def test_there_are_enough_mistakes(name: str, least: int) -> None:
    stage = next(stage for stage in STAGES if stage.name == name)
    assert len(mistakes_of(stage)) >= least


def test_codes_are_unique_in_the_course() -> None:
    codes = [code for stage in STAGES for code in mistakes_of(stage)]
    assert len(codes) == len(set(codes)), sorted(code for code in codes if codes.count(code) > 1)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_mistakes_belong_to_exercises(stage: Stage) -> None:
    exercises = {exercise.name for exercise in stage.exercises}
    for code, mistake in mistakes_of(stage).items():
        # A mistake that several exercises can make names none: the line shown is in the exercise that was checked.
        assert not mistake.exercise or mistake.exercise in exercises, code
