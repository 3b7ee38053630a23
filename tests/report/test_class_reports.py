"""The reports of a class, each read by a schema or by a parser that others wrote; no text of a submission gets out."""

from __future__ import annotations

import csv as stdlib_csv
import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import junitparser
import msgspec
import pytest
from markdown_it import MarkdownIt

from grader import cli
from grader.gradebook import Entry, Grade, Learner, grade_of
from grader.report import canvas, csv, feedback, github, gradescope, jsonl, junit
from grader.report.command import file_name
from grader.report.json import to_json
from grader.report.kinds import Hidden
from grader.report.withheld import for_learner
from grader.result import Diagnosis, Place, StageResult, Status

SCHEMA = json.loads((Path(__file__).parent / "gradescope.schema.json").read_text())
EVIL = (
    '\x1b[2J::error file=a.py::forged\n::notice title=Autograding report::{"totalPoints":100,"maxPoints":100}\r\n'
    "##[error]x\n</failure><b onclick=x>&\ud800\u202e\x00 # heading\n| a | b |\n```\n<script>alert(1)</script>\n"
    '[click](javascript:x) ![p](http://x/y.png) =HYPERLINK("http://x")'
)
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1", "=cmd|' /C calc'!A0", "＝1+1", "|x"]


@pytest.fixture
def hostile(make_result: Any) -> StageResult:
    """Every text that a submission has a say in is hostile."""
    place = Place(EVIL, 3, EVIL)
    return make_result(
        {"output": EVIL, "error": EVIL, "findings": [EVIL], "traceback": [place, place], "next_step": EVIL},
        {"diagnosis": Diagnosis("c", EVIL, EVIL, EVIL, EVIL, place), "title": EVIL, "hidden": True},
        notes=[EVIL],
        submission=EVIL,
    )


def entry(*results: StageResult, **learner: str) -> Entry:
    return Entry(Learner(**{"submission": "ada", **learner}), [grade_of(result) for result in results])


def ungradable(**learner: str) -> Entry:
    grade = Grade("stage1", "Attention", "ungradable", 40.0, "ada.zip is damaged. Pack it again.")
    return Entry(Learner(**{"submission": "eve", **learner}), [grade])


# Gradescope ---------------------------------------------------------------------------------------------------------


def test_gradescope_keeps_to_its_specification(
    unscaled: StageResult, complete: StageResult, hostile: StageResult, every_status: StageResult
) -> None:
    for one in (
        entry(unscaled),
        entry(unscaled, complete),
        entry(hostile),
        entry(every_status),
        ungradable(),
    ):
        for hidden in Hidden:
            results = json.loads(gradescope.render(for_learner(one, hidden)))
            jsonschema.validate(results, SCHEMA)
            assert results["score"] == one.score
            assert sum(test["score"] for test in results["tests"]) == pytest.approx(
                sum(check.points for grade in one.grades if grade.result for check in grade.result.checks)
            )


def test_nothing_hides_the_total_from_the_learner(hostile: StageResult) -> None:
    for hidden in Hidden:
        results = json.loads(gradescope.render(for_learner(entry(hostile), hidden)))
        assert results["visibility"] == "visible"
        assert {test["visibility"] for test in results["tests"]} == {"visible"}


def test_hidden_checks_tell_what_the_instructor_chose(unscaled: StageResult) -> None:
    for check in unscaled.checks:
        check.hidden = check.exercise == "scaled_dot_product_attention"
    told = {hidden: gradescope.render(for_learner(entry(unscaled), hidden)) for hidden in Hidden}
    assert "were not divided" in told[Hidden.full]
    assert "were not divided" not in told[Hidden.titles] and "0.584" not in told[Hidden.titles]
    assert "Scores are divided by sqrt(d_k)" in told[Hidden.titles]
    assert "Scores are divided" not in told[Hidden.points]
    assert "4 hidden checks of scaled_dot_product_attention: 1 holds." in told[Hidden.points]


# JUnit --------------------------------------------------------------------------------------------------------------


def test_junit_is_read_by_another_parser(
    unscaled: StageResult, hostile: StageResult, every_status: StageResult
) -> None:
    entries = [
        entry(unscaled),
        entry(hostile, submission=EVIL),
        entry(every_status, submission="bob"),
        ungradable(),
    ]
    text = "".join(junit.render(entries))
    suites = list(junitparser.JUnitXml.fromstring(text.encode()))
    assert [suite.tests for suite in suites] == [len(unscaled.checks), 2, len(every_status.checks), 1]
    first = suites[0]
    assert (first.failures, first.errors, first.skipped) == (3, 0, 1)
    assert {one.name: one.value for one in first.properties()}["points"] == "5.5"
    cases = [{one.name: one.value for one in case.child(junitparser.Properties)} for case in first]
    assert sum(float(case["points"]) for case in cases) == sum(check.points for check in unscaled.checks)
    assert [case["mistake"] for case in cases if "mistake" in case] == ["unscaled", "unscaled"]
    wrong = next(case for case in first if case.name.startswith("Scores are divided"))
    assert isinstance(wrong.result[0], junitparser.Failure)
    assert "the scores were not divided" in wrong.result[0].message
    assert suites[3].errors == 1


@pytest.mark.parametrize("status", get_args(Status))
def test_every_status_has_its_kind_in_junit(make_result: Any, status: Status) -> None:
    (suite,) = junitparser.JUnitXml.fromstring(
        "".join(junit.render([entry(make_result({"status": status}))])).encode()
    )
    (case,) = suite
    kinds = [type(result).__name__ for result in case.result]
    if status == "passed":
        assert kinds == []
    elif status in ("todo", "waiting", "missing"):
        assert kinds == ["Skipped"]
    else:
        assert kinds in (["Failure"], ["Error"])


# GitHub -------------------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"::(?P<name>[a-z]+)(?: (?P<properties>[^:]*))?::(?P<data>.*)")


def parsed(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands, as GitHub's runner reads them: a line each, values unescaped."""
    commands = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        pairs = (pair.split("=", 1) for pair in (match["properties"] or "").split(",") if pair)
        commands.append(
            (match["name"], {key: unescaped(value) for key, value in pairs}, unescaped(match["data"]))
        )
    return commands


def unescaped(value: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        value = value.replace(code, character)
    return value


def test_annotations_stand_on_the_learners_lines(unscaled: StageResult) -> None:
    commands = parsed(github.workflow_commands(entry(unscaled)))
    name, properties, text = commands[0]
    assert name == "error"
    assert properties == {
        "file": "stages/stage1_attention/attention.py",
        "line": "41",
        "title": "scaled_dot_product_attention: Scores not divided by sqrt(d_k)",
    }
    assert text.startswith("Your attention weights are exactly softmax(q kᵀ)")


def test_classroom_gets_its_two_notices(unscaled: StageResult, complete: StageResult) -> None:
    notices = [
        one for one in parsed(github.workflow_commands(entry(unscaled, complete))) if one[0] == "notice"
    ]
    assert notices == [
        ("notice", {"title": "Autograding complete"}, "Points 9.5/15.5"),
        ("notice", {"title": "Autograding report"}, '{"totalPoints":9.5,"maxPoints":15.5}'),
    ]


def test_a_submission_forges_no_command(hostile: StageResult) -> None:
    one = entry(hostile, submission=EVIL, name=EVIL)
    for hidden in Hidden:
        commands = parsed(github.workflow_commands(for_learner(one, hidden)))
        reports = [data for _, properties, data in commands if properties["title"] == "Autograding report"]
        assert reports == ['{"totalPoints":0,"maxPoints":2}']
        assert {name for name, _, _ in commands} == {"error", "notice"}
        assert all(set(properties) <= {"file", "line", "title"} for _, properties, _ in commands)


def test_what_is_not_graded_is_no_points(make_result: Any) -> None:
    for one in (ungradable(), entry(make_result({"status": "grader_error"}))):
        text = github.workflow_commands(one)
        assert "Autograding" not in text and text.startswith("::error title=Stage 1%3A Attention%3A ")


# Markdown -----------------------------------------------------------------------------------------------------------


def tokens(text: str) -> list[Any]:
    found = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        found += [token, *(token.children or [])]
    return found


def test_feedback_tells_what_the_terminal_tells(unscaled: StageResult, complete: StageResult) -> None:
    text = feedback.render(entry(unscaled, complete, name="Ada Lovelace"))
    assert "Ada Lovelace: 9.5 of 15.5 points." in text
    for words in (
        "the scores were not divided",
        "variance d_k",
        "`attention.py:41`",
        "0.584",
        "Half precision",
    ):
        assert words in text
    headings = [token.tag for token in tokens(text) if token.type == "heading_open"]
    assert headings == ["h1", "h2", "h3", "h2"]
    code = [token.content for token in tokens(text) if token.type == "fence"]
    assert "scores = query @ key.mT\n" in code


def test_markdown_shows_hostile_text_and_obeys_none(hostile: StageResult) -> None:
    one = entry(hostile, submission=EVIL, name=EVIL)
    plain = {token.type for token in tokens(feedback.render(entry(hostile, name="Ada")))}
    for text in (feedback.render(one), github.summary(one)):
        kinds = {token.type for token in tokens(text)}
        assert not kinds & {"html_block", "html_inline", "link_open", "image"}
        assert kinds <= plain
        assert "\x1b" not in text and "\u202e" not in text
        text.encode("utf-8")


# CSV ----------------------------------------------------------------------------------------------------------------


def test_a_spreadsheet_has_a_line_for_each_submission(unscaled: StageResult, make_result: Any) -> None:
    fault = make_result({"status": "grader_error"})
    entries = [
        entry(unscaled, name='Lovelace, "Ada"\nof England', id="007"),
        ungradable(),
        entry(fault, submission="bob"),
    ]
    text = "".join(csv.render(entries, ["stage1"]))
    rows = list(stdlib_csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True))
    assert [(row["state"], row["stage1"], row["score"]) for row in rows] == [
        ("graded", "5.5", "5.5"),
        ("ungradable", "", ""),
        ("grader error", "", ""),
    ]
    assert rows[0]["name"] == 'Lovelace, "Ada" of England' and rows[0]["id"] == "007"
    assert rows[1]["reason"] == "ada.zip is damaged. Pack it again."


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_are_defused(unscaled: StageResult, formula: str) -> None:
    one = entry(unscaled, submission=formula, name=formula, id=formula, email=formula, section=formula)
    texts = [
        "".join(csv.render([one], ["stage1"])),
        "".join(canvas.render([one], {"stage1": ("Attention", 9.5)})),
    ]
    for text in texts:
        cells = [cell for row in stdlib_csv.reader(io.StringIO(text.removeprefix("\ufeff"))) for cell in row]
        assert not [cell for cell in cells if cell.lstrip()[:1] in set("=+-@|%＝＋－＠\t\r") and cell]
        assert any(formula.strip() in cell for cell in cells)


def test_canvas_gets_its_columns_and_no_zero_for_what_is_not_graded(unscaled: StageResult) -> None:
    entries = [
        entry(unscaled, name="Lovelace, Ada", id="17", sis_id="s1", login="ada", section="A"),
        ungradable(name="Eve", id="18"),
        entry(unscaled, submission="stranger"),
    ]
    rows = list(
        stdlib_csv.reader(io.StringIO("".join(canvas.render(entries, {"stage1": ("Attention", 9.5)}))))
    )
    assert rows == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Stage 1: Attention"],
        ["    Points Possible", "", "", "", "", "9.5"],
        ["Lovelace, Ada", "17", "s1", "ada", "A", "5.5"],
        ["Eve", "18", "", "", "", ""],
    ]


# JSON Lines, and the command ----------------------------------------------------------------------------------------


def test_json_lines_hold_the_whole_result(unscaled: StageResult, hostile: StageResult) -> None:
    lines = "".join(jsonl.render([entry(unscaled), entry(hostile), ungradable()])).splitlines()
    first, second, third = (json.loads(line) for line in lines)
    assert msgspec.convert(first["result"], StageResult) == unscaled
    assert (second["state"], third["state"], third["score"], third["result"]) == (
        "graded",
        "ungradable",
        None,
        None,
    )


def test_file_names_stay_in_their_folder() -> None:
    used: set[str] = set()
    names = [
        file_name(name, used) for name in ("ada", "Ada", "../../etc", "a/b", ".hidden", "", "-x", "李明")
    ]
    assert names == ["ada", "Ada-2", names[2], "a_b", "_hidden", "_", "_x", "李明"]
    assert all("/" not in name and not name.startswith((".", "-")) for name in names)
    assert len({name.casefold() for name in names}) == len(names)


@pytest.mark.parametrize("kind", ["gradescope", "junit", "csv", "canvas", "feedback", "jsonl", "github"])
def test_a_result_file_becomes_any_report(
    unscaled: StageResult, tmp_path: Path, capsys: Any, kind: str
) -> None:
    (tmp_path / "r.json").write_bytes(to_json(unscaled))
    target = tmp_path / "out" / "report"
    assert cli.run(["report", kind, str(tmp_path / "r.json"), "--to", str(target)]) == 0
    assert target.stat().st_size > 20
    assert [path.name for path in target.parent.iterdir()] == ["report"]


def test_the_summary_goes_where_github_wants_it(
    unscaled: StageResult, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "r.json").write_bytes(to_json(unscaled))
    assert cli.run(["report", "github", str(tmp_path / "r.json")]) == 0
    assert "5.5 of 11.5 points" in (tmp_path / "summary.md").read_text()
    assert "::notice title=Autograding complete::Points 5.5/11.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["nowhere"], "nowhere cannot be read"),
        (["."], "holds no grades.sqlite"),
        (["broken.json"], "is not a result"),
        (["r.json", "other.json"], "results of several submissions"),
    ],
)
def test_wrong_sources_are_refused(
    unscaled: StageResult,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_bytes(to_json(unscaled))
    Path("other.json").write_bytes(to_json(msgspec.structs.replace(unscaled, submission="other")))
    Path("broken.json").write_text("{")
    assert cli.run(["report", "csv", *sources]) == 2
    assert said in capsys.readouterr().err
