"""A class of the real course: mistakes, an unusual but right submission, and hostile ones, through to every report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest
from bank import ROOT, STAGES, lay_submission, mutants_of, mutated, variations_of
from little_course import query, scores

from grader import cli

STAGE = STAGES[0]
HOSTILE = ("exits_on_import", "forges_a_report", "kills_itself")
SCHEMA = json.loads((ROOT / "tests/report/gradescope.schema.json").read_text())


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    for mutant in mutants_of(STAGE)[:2]:
        lay_submission(folder / f"mistake {mutant.mistake}", STAGE, mutated(STAGE, mutant))
    variation = variations_of(STAGE)[0]
    shutil.copytree(variation, folder / "variation" / STAGE.folder)
    for name in HOSTILE:
        target = folder / name / STAGE.folder
        target.mkdir(parents=True)
        shutil.copy(ROOT / "tests/hostile" / name / "attention.py", target)
    out = tmp_path_factory.mktemp("grades")
    assert cli.run(["batch", str(folder), "--out", str(out), "--stages", "1", "-j", "2"]) == 0
    return out


def test_each_has_its_expected_grade(grades: Path) -> None:
    found = {name: score for (name, _), score in scores(grades).items()}
    possible = sum(exercise.points for exercise in STAGE.exercises)
    assert found.pop("variation") == possible
    named = query(grades, "SELECT submission, mistake FROM published_checks WHERE mistake NOT NULL")
    for mutant in mutants_of(STAGE)[:2]:
        name = f"mistake {mutant.mistake}"
        assert 0 < float(str(found.pop(name))) < possible
        assert (name, mutant.mistake) in named
    assert set(found) == set(HOSTILE)
    assert all(float(str(score)) < possible for score in found.values())


def test_each_is_in_every_report(grades: Path, tmp_path: Path, capsys: Any) -> None:
    for kind in ("csv", "canvas", "junit", "jsonl", "feedback", "gradescope"):
        assert cli.run(["report", kind, str(grades), "--to", str(tmp_path / kind), "--hidden", "full"]) == 0
    totals = {name: score for (name, _), score in scores(grades).items()}
    assert len(list((tmp_path / "feedback").glob("*.md"))) == len(totals)
    for path in (tmp_path / "gradescope").glob("*/results.json"):
        results = json.loads(path.read_text())
        jsonschema.validate(results, SCHEMA)
        assert results["score"] == totals[results["extra_data"]["submission"]]
    suites = list(junitparser.JUnitXml.fromfile(str(tmp_path / "junit")))
    points = {one.name: one.value for suite in suites for one in suite.properties()}
    assert len(suites) == len(totals) and points["state"] == "graded"
    lines = [json.loads(line) for line in (tmp_path / "jsonl").read_text().splitlines()]
    assert {line["learner"]["submission"]: line["score"] for line in lines} == totals
