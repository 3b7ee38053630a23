"""Stages 1 to 5 build on each other: whose earlier stages are used, and what a learner reads of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest
from bank import ROOT, STAGES

from grader.course import Stage
from grader.driver import Engine, Options
from grader.report.plain import render
from grader.result import StageResult

FIVE = {
    stage.name: stage for stage in STAGES if stage.name in ("stage1", "stage2", "stage3", "stage4", "stage5")
}
BUILDING = ("stage2", "stage4", "stage5")
"""The stages that stand on stage 1; stage 3 stands by itself."""


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """Five solved stages."""
    for stage in FIVE.values():
        solved = ROOT / "solutions" / stage.folder
        shutil.copytree(
            solved, tmp_path / stage.folder, ignore=shutil.ignore_patterns("__pycache__", "demo.py")
        )
    return tmp_path


def edit_stage_1(submission: Path, right: str, wrong: str) -> None:
    path = submission / "stage1_attention" / "attention.py"
    source = path.read_text(encoding="utf-8")
    assert source.count(right) == 1
    path.write_text(source.replace(right, wrong), encoding="utf-8")


def break_stage_1(submission: Path) -> None:
    edit_stage_1(submission, "query @ key.mT / math.sqrt(d_k)", "query @ key.mT")


def graded(
    engine: Engine, submission: Path, stage: Stage, earlier: Literal["own", "reference"] = "own"
) -> StageResult:
    return engine.grade(stage, submission, Options(seed=5, earlier=earlier))


@pytest.mark.parametrize("name", FIVE)
def test_five_own_stages_get_full_marks(name: str, submission: Path, engine: Engine) -> None:
    result = graded(engine, submission, FIVE[name])
    assert [check.id for check in result.checks if check.status != "passed"] == []
    assert result.score == result.max_score


@pytest.mark.parametrize("name", BUILDING)
def test_a_broken_stage_1_is_felt_and_pointed_at(name: str, submission: Path, engine: Engine) -> None:
    break_stage_1(submission)
    result = graded(engine, submission, FIVE[name])
    failing = [check for check in result.checks if check.status != "passed"]
    assert 0 < result.score < result.max_score
    assert {check.status for check in failing} == {"failed"}
    report = render(result)
    assert "stage 1" in report, report
    assert report.count("Also not yet") <= 1, report


@pytest.mark.parametrize("name", [*BUILDING, "stage3"])
def test_a_broken_stage_1_is_not_felt_with_the_reference(name: str, submission: Path, engine: Engine) -> None:
    break_stage_1(submission)
    result = graded(engine, submission, FIVE[name], earlier="reference")
    assert [check.id for check in result.checks if check.status != "passed"] == []


def test_a_broken_stage_1_is_charged_in_stage_1(submission: Path, engine: Engine) -> None:
    break_stage_1(submission)
    for earlier in ("own", "reference"):
        result = graded(engine, submission, FIVE["stage1"], earlier)
        assert {check.diagnosis.code for check in result.checks if check.diagnosis} == {"unscaled"}


@pytest.mark.parametrize("name", BUILDING)
def test_an_unfinished_stage_1_makes_later_checks_wait(name: str, submission: Path, engine: Engine) -> None:
    stage1 = FIVE["stage1"]
    shutil.copy(ROOT / "stages" / stage1.folder / "attention.py", submission / stage1.folder / "attention.py")
    result = graded(engine, submission, FIVE[name])
    # What needs no attention may pass, the rest waits; nothing is failed, and nothing accused.
    assert {check.status for check in result.checks} <= {"passed", "waiting"}
    waiting = [exercise for exercise in result.exercises if exercise.status == "waiting"]
    assert waiting
    assert all(check.diagnosis is None for check in result.checks)
    report = render(result)
    first = next(line for line in report.splitlines() if line.startswith("Next: "))
    assert first == "Next: Write scaled_dot_product_attention in stage1_attention/attention.py first."
    for exercise in waiting:
        assert f"{exercise.name}: {exercise.name} needs " in report


def test_an_unfinished_stage_1_leaves_stage_3_alone(submission: Path, engine: Engine) -> None:
    stage1 = FIVE["stage1"]
    shutil.copy(ROOT / "stages" / stage1.folder / "attention.py", submission / stage1.folder / "attention.py")
    result = graded(engine, submission, FIVE["stage3"])
    assert result.score == result.max_score


@pytest.mark.parametrize("name", BUILDING)
def test_an_unfinished_stage_1_costs_nothing_with_the_reference(
    name: str, submission: Path, engine: Engine
) -> None:
    (submission / "stage1_attention" / "attention.py").unlink()
    result = graded(engine, submission, FIVE[name], earlier="reference")
    assert result.score == result.max_score


@pytest.mark.parametrize("part", ["LayerNorm", "FeedForward"])
def test_a_broken_part_of_stage_4_is_pointed_at_in_stage_5(
    part: str, submission: Path, engine: Engine
) -> None:
    path = submission / "stage4_encoder" / "encoder.py"
    source = path.read_text(encoding="utf-8")
    right, wrong = {
        "LayerNorm": ("return normed * self.weight + self.bias", "return normed + self.bias"),
        "FeedForward": (
            "return self.linear2(self.dropout(hidden))",
            "return self.linear2(self.dropout(hidden)).relu()",
        ),
    }[part]
    assert source.count(right) == 1
    path.write_text(source.replace(right, wrong), encoding="utf-8")
    report = render(graded(engine, submission, FIVE["stage5"]))
    assert "stage 4" in report, report
