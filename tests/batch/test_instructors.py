"""Every command of docs/instructors.md, run one after the other on a little course."""

from __future__ import annotations

import csv
import re
import sqlite3
from pathlib import Path

from bank import ROOT
from html_tree import parsed
from little_course import SQUARED, LittleCourse, hand_in

PAGE = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
MAY_FAIL = "python -m grader grade "
"""Exits with 1 when the submission has a mistake."""

ELSEWHERE = "python -m grader release ../transformer-class"
"""Run by tests/release/test_release.py, on the whole course."""


def test_the_commands_do_what_the_page_says(tmp_path: Path) -> None:
    course = LittleCourse(tmp_path / "course")
    hand_in(course.root / "submissions" / "ada", SQUARED)
    hand_in(course.root / "submissions" / "bob")
    (course.root / "class.csv").write_text("name,login,id\nAda,ada,17\nBob,bob,18\nZoe,zoe,19\n")
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) >= 14
    said = {}
    for command in commands:
        if command == ELSEWHERE or command.startswith("python -m pip "):
            continue
        assert command.startswith("python -m grader ")
        arguments = command.removeprefix("python -m grader ").split()
        said[command] = course.run(*arguments, code=1 if command.startswith(MAY_FAIL) else 0)
    assert (
        "::notice title=Autograding complete::Points 3/6" in said["python -m grader report github ada.json"]
    )
    made = {path.relative_to(course.root).as_posix() for path in course.root.rglob("*") if path.is_file()}
    assert made >= {
        "grades.csv", "canvas.csv", "junit.xml", "results.jsonl", "results.json", "class.html",
        "feedback/ada.md", "gradescope/bob/results.json", "all/grades.sqlite",
    }  # fmt: skip
    rows = list(csv.DictReader((course.root / "grades.csv").read_text("utf-8-sig").splitlines()))
    assert [(row["name"], row["stage1"], row["score"]) for row in rows] == [
        ("Ada", "3", "6"), ("Bob", "6", "9"), ("Zoe", "", ""),
    ]  # fmt: skip

    shown = parsed((course.root / "class.html").read_text("utf-8")).one("table", id="class").one("tbody")
    assert [row.text for row in shown.all("tr")] == [
        "Ada ada 3 3 6 graded", "Bob bob 6 3 9 graded", "Zoe zoe ungradable ungradable – ungradable",
    ]  # fmt: skip

    (statement,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    connection = sqlite3.connect(course.root / "grades" / "grades.sqlite")
    assert connection.execute(statement).fetchall() == [("stage1", "squared", 1)]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables == set(
        re.findall(r"^\| `(\w+)` \|", PAGE.partition("The gradebook itself")[2], re.MULTILINE)
    )
