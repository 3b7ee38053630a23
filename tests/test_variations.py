"""Unusual but right submissions get full marks: nothing is failed and nothing accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from bank import QUICK, STAGES, lay_submission, variations_of

from grader.course import Stage
from grader.driver import Engine, Options

BANK = [(stage, folder) for stage in STAGES for folder in variations_of(stage)]


@pytest.mark.parametrize(
    ("stage", "folder"),
    [pytest.param(stage, folder, id=f"{stage.name}-{folder.name}") for stage, folder in BANK],
)
def test_the_variation_gets_full_marks(stage: Stage, folder: Path, engine: Engine, tmp_path: Path) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    submission = lay_submission(tmp_path, stage, files)
    selection = "" if "training.py" in files else QUICK
    result = engine.grade(stage, submission, Options(seed=23, earlier="reference", selection=selection))
    assert [
        (check.id, check.status, check.findings) for check in result.checks if check.status != "passed"
    ] == []
    assert result.score == result.max_score
