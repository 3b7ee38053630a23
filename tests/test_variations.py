"""Unusual but right submissions get full marks: nothing is failed and nothing accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from bank import QUICK, STAGES, Variation, lay_submission, variations_of

from grader.course import Stage
from grader.driver import Engine, Options

BANK = [(stage, variation) for stage in STAGES for variation in variations_of(stage)]


@pytest.mark.parametrize(
    ("stage", "variation"),
    [pytest.param(stage, variation, id=f"{stage.name}-{variation.name}") for stage, variation in BANK],
)
def test_the_variation_gets_full_marks(
    stage: Stage, variation: Variation, engine: Engine, tmp_path: Path
) -> None:
    submission = lay_submission(tmp_path, stage, variation.files)
    selection = "" if "training.py" in variation.files else QUICK
    result = engine.grade(stage, submission, Options(seed=23, earlier="reference", selection=selection))
    assert [
        (check.id, check.status, check.findings) for check in result.checks if check.status != "passed"
    ] == []
    assert result.score == result.max_score
