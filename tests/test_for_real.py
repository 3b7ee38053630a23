"""The checks that train a model for real notice when it has learnt nothing: a falling loss does not satisfy them."""

from __future__ import annotations

from pathlib import Path

import pytest
from bank import STAGES, lay_submission, mutants_of, mutated

from grader.driver import Engine, Options

STAGE = next(stage for stage in STAGES if stage.name == "stage6")


@pytest.mark.parametrize("mistake", ["train-no-shift", "train-schedule-each-epoch"])
def test_what_has_learnt_nothing_fails(mistake: str, engine: Engine, tmp_path: Path) -> None:
    mutant = next(mutant for mutant in mutants_of(STAGE) if mutant.mistake == mistake)
    submission = lay_submission(tmp_path, STAGE, mutated(STAGE, mutant))
    result = engine.grade(STAGE, submission, Options(earlier="reference", selection="reverses_fresh"))
    assert [check.status for check in result.checks] == ["failed"]
