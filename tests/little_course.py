"""A course of two small stages with a grader of its own, for tests that grade whole classes or change checks."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from bank import ROOT

COURSE = """
title = "A little course"

[[stage]]
name = "stage1"
folder = "stage1_double"
title = "Doubling"

[[stage.exercise]]
name = "double"
file = "double.py"
points = 5

[[stage.exercise]]
name = "negative"
file = "double.py"
points = 1

[[stage]]
name = "stage2"
folder = "stage2_triple"
title = "Tripling"

[[stage.exercise]]
name = "triple"
file = "triple.py"
points = 3
"""

PUBLIC = '''
from grader.checks import check, expect


@check("double", points=2)
def test_a_number_is_doubled(submission, draw):
    """Every number is doubled."""
    x = draw.normal(2, 3)
    expect(submission.double(x), "the doubles").equals(2 * x, mistakes={"squared": x * x})


@check("negative", points=1)
def test_the_sign_is_turned(submission, draw):
    """Every sign is turned."""
    x = draw.normal(3)
    expect(submission.negative(x), "the negatives").equals(-x)
'''

HIDDEN = '''
from grader.checks import check, expect


@check("double", points=2)
def test_zero_stays_zero(submission, draw):
    """Zero stays zero."""
    x = draw.normal(4) * 0
    expect(submission.double(x), "the doubles").equals(x)


@check("double", points=1)
def test_a_matrix_is_doubled(submission, draw):
    """A matrix is doubled as well."""
    x = draw.normal(4, 5)
    expect(submission.double(x), "the doubles").equals(x + x)
'''

MISTAKES = """
[squared]
exercise = "double"
name = "Squared"
seen = "Your doubles are squares."
why = "Twice a number is not its square."
look_at = "the operator"
"""

TRIPLE = '''
from grader.checks import check, expect


@check("triple", points=3)
def test_a_number_is_tripled(submission, draw):
    """Every number is tripled."""
    x = draw.normal(2, 3)
    expect(submission.triple(x), "the triples").equals(3 * x)
'''

DOUBLE = """def double(x):
    return 2 * x


def negative(x):
    return -x
"""
SQUARED = DOUBLE.replace("2 * x", "x * x")
RIGHT_TRIPLE = "from ..stage1_double.double import double\n\n\ndef triple(x):\n    return double(x) + x\n"

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_STEP_SUMMARY")},
    "OMP_NUM_THREADS": "1",
}


class LittleCourse:
    """The course on disk, and its commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "grader", root / "grader", ignore=shutil.ignore_patterns("__pycache__"))
        self.write("stages/course.toml", COURSE)
        self.write("stages/stage1_double/checks/test_public.py", PUBLIC)
        self.write("stages/stage1_double/checks/test_hidden.py", HIDDEN)
        self.write("stages/stage1_double/checks/mistakes.toml", MISTAKES)
        self.write("stages/stage2_triple/checks/test_public.py", TRIPLE)
        self.write("stages/stage2_triple/checks/mistakes.toml", "")
        self.write("solutions/stage1_double/double.py", DOUBLE)
        self.write("solutions/stage2_triple/triple.py", RIGHT_TRIPLE)

    def write(self, path: str, text: str) -> Path:
        """A file of the course."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        """`python -m grader ...` in the course."""
        return subprocess.Popen(
            [sys.executable, "-m", "grader", *map(str, arguments)],
            cwd=self.root,
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str | Path, code: int = 0, **environment: str) -> str:
        """What a command prints; it must end with this code."""
        process = self.start(*arguments, **environment)
        printed, complaint = process.communicate(timeout=300)
        assert process.returncode == code, (process.returncode, printed, complaint)
        return printed + complaint


def hand_in(folder: Path, double: str | None = DOUBLE, triple: str | None = RIGHT_TRIPLE) -> Path:
    """A submission as a folder."""
    for name, text in (("stage1_double/double.py", double), ("stage2_triple/triple.py", triple)):
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def query(grades: Path, statement: str, values: Iterable[object] = ()) -> list[tuple[object, ...]]:
    """Rows of a gradebook."""
    connection = sqlite3.connect(f"{(grades / 'grades.sqlite').as_uri()}?mode=rw", uri=True, timeout=30)
    try:
        return connection.execute(statement, tuple(values)).fetchall()
    finally:
        connection.close()


def finished(grades: Path) -> int:
    """How many checks are kept so far."""
    try:
        return int(str(query(grades, "SELECT COUNT(*) FROM checks")[0][0]))
    except Exception:  # the gradebook is not there yet
        return 0


def scores(grades: Path) -> dict[tuple[object, object], object]:
    """Score, or state where there is none, by submission and stage."""
    rows = query(grades, "SELECT submission, stage, score, state FROM grades ORDER BY 1, 2")
    return {(name, stage): state if score is None else score for name, stage, score, state in rows}


def contents(grades: Path) -> list[tuple[object, ...]]:
    """Everything that a gradebook says, without times."""
    found = query(
        grades, "SELECT submission, stage, state, reason, score, max_score FROM grades ORDER BY 1, 2"
    )
    for row in query(
        grades,
        "SELECT g.submission, g.stage, g.position, c.key, c.result FROM grade_checks g JOIN checks c ON c.key = g.key "
        "ORDER BY 1, 2, 3",
    ):
        result = msgspec.json.decode(str(row[4]))
        del result["seconds"]
        found.append((*row[:4], repr(result)))
    return found
