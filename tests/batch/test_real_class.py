"""A class of the real course: mistakes, an unusual but right submission, and hostile ones, through to every report."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import msgspec
import pytest
from bank import ROOT, STAGES, lay_submission, mutants_of, mutated, variations_of
from html_tree import parsed
from little_course import query, scores

from grader import cli
from grader.declared import declared_checks

STAGE = STAGES[0]
CHECKS = ROOT / "stages" / STAGE.folder / "checks"
SLOW = {"timeout", "memory", "output"}
WHOLE = bool(os.environ.get("WHOLE_CLASS"))
MISTAKES = mutants_of(STAGE)[:: 1 if WHOLE else 5]
"""WHOLE_CLASS=1 takes all mistakes, and all hostile submissions, also those that wait for a limit."""

SCHEMA = json.loads((ROOT / "tests/report/gradescope.schema.json").read_text())


class Expected(msgspec.Struct, frozen=True):
    """What a hostile submission is worth, by exercise, as its verdict.toml says."""

    causal_mask: list[str] = []
    padding_mask: list[str] = []
    refused: str = ""


def hostile() -> dict[str, Expected]:
    found = {
        path.parent.name: msgspec.toml.decode(path.read_bytes(), type=Expected)
        for path in sorted((ROOT / "tests" / "hostile").glob("*/verdict.toml"))
    }
    quick = {
        name: one for name, one in found.items() if WHOLE or not SLOW & {*one.causal_mask, *one.padding_mask}
    }
    return dict(list(quick.items())[:: 1 if WHOLE else 8])


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mistakes, the variations of a stage, and hostile submissions, graded as one class."""
    folder = tmp_path_factory.mktemp("class")
    for number, mutant in enumerate(MISTAKES):
        lay_submission(folder / f"mistake {number}", STAGE, mutated(STAGE, mutant))
    for variation in variations_of(STAGE):
        lay_submission(folder / f"variation {variation.name}", STAGE, variation.files)
    for name in hostile():
        target = folder / name / STAGE.folder
        target.mkdir(parents=True)
        shutil.copy(ROOT / "tests/hostile" / name / "attention.py", target)
    out = tmp_path_factory.mktemp("grades")
    assert cli.run(["batch", str(folder), "--out", str(out), "--stages", "1", "-j", "2"]) == 0
    return out


def totals(grades: Path) -> dict[str, object]:
    """Score or state by submission."""
    return {str(name): score for (name, _), score in scores(grades).items()}


def test_each_has_its_expected_grade(grades: Path) -> None:
    possible = sum(exercise.points for exercise in STAGE.exercises)
    found = totals(grades)
    named: dict[str, set[str]] = {}
    for name, code in query(
        grades, "SELECT submission, mistake FROM published_checks WHERE mistake NOT NULL"
    ):
        named.setdefault(str(name), set()).add(str(code))
    for number, mutant in enumerate(MISTAKES):
        assert float(str(found[f"mistake {number}"])) < possible
        codes = {code for code in named[f"mistake {number}"] if not code.startswith("general/")}
        assert codes == {mutant.mistake}
    for variation in variations_of(STAGE):
        assert found[f"variation {variation.name}"] == possible
        assert f"variation {variation.name}" not in named
    for name, expected in hostile().items():
        if expected.refused:
            assert found[name] == "ungradable"
            continue
        rows = query(grades, "SELECT check_id, points FROM published_checks WHERE submission = ?", [name])
        gained = {str(check): float(str(score)) for check, score in rows}
        for exercise, wanted in (
            ("causal_mask", expected.causal_mask),
            ("padding_mask", expected.padding_mask),
        ):
            checks = [one for one in declared_checks(CHECKS, STAGE.name) if one.exercise == exercise]
            worth = sum(one.points for one in checks) if wanted == ["passed"] else 0
            assert sum(gained[one.id] for one in checks) == worth, name


def test_each_is_in_every_report(grades: Path, tmp_path: Path, capsys: Any) -> None:
    kinds = ("csv", "canvas", "junit", "jsonl", "feedback", "gradescope", "html")
    for kind in kinds:
        assert cli.run(["report", kind, str(grades), "--to", str(tmp_path / kind), "--hidden", "full"]) == 0
    found = totals(grades)
    points = {name: score for name, score in found.items() if score != "ungradable"}
    assert len(list((tmp_path / "feedback").glob("*.md"))) == len(found)
    for path in (tmp_path / "gradescope").glob("*/results.json"):
        results = json.loads(path.read_text())
        jsonschema.validate(results, SCHEMA)
        submission = results["extra_data"]["submission"]
        assert results["score"] == points.get(submission, results["score"])
    suites = list(junitparser.JUnitXml.fromfile(str(tmp_path / "junit")))
    assert len(suites) == len(found)
    states = Counter(one.value for suite in suites for one in suite.properties() if one.name == "state")
    assert states == Counter("ungradable" if score == "ungradable" else "graded" for score in found.values())
    lines = [json.loads(line) for line in (tmp_path / "jsonl").read_text().splitlines()]
    assert {
        line["learner"]["submission"]: line["score"] for line in lines if line["state"] == "graded"
    } == points
    rows = list(csv.DictReader((tmp_path / "csv").read_text("utf-8-sig").splitlines()))
    assert {row["submission"]: float(row["stage1"]) for row in rows if row["stage1"]} == points
    table = parsed((tmp_path / "html").read_text("utf-8")).one("table", id="class").one("tbody")
    assert len(table.all("tr")) == len(found)
