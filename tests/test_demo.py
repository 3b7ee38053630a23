"""A demo that stops early says calmly what it misses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from grader.course import Stage, load_course
from grader.demo import run_demo
from grader.errors import UsageError

COURSE = """\
title = "Course"
[[stage]]
name = "stage1"
folder = "stage1_counting"
title = "Counting"
[[stage.exercise]]
name = "double"
file = "counting.py"
points = 1
[[stage]]
name = "stage2"
folder = "stage2_adding"
title = "Adding"
[[stage.exercise]]
name = "Adder"
file = "adding.py"
points = 1
"""

COUNTING = 'def double(x):\n    """Twice x."""\n    return 2 * x\n'
ADDING = """\
from ..stage1_counting.counting import double


class Adder:
    def __call__(self, x):
        return double(x) + 1
"""
DEMO = """\
import sys

from .adding import Adder

print("arguments", sys.argv[1:])
print("a remark", file=sys.stderr)
print("result", Adder()(int(sys.argv[1]) if sys.argv[1:] else 1))
"""
TODO = "raise NotImplementedError"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for tree in ("stages", "solutions"):
        for folder in ("stage1_counting", "stage2_adding"):
            (tmp_path / tree / folder).mkdir(parents=True)
        (tmp_path / tree / "stage1_counting" / "counting.py").write_text(COUNTING)
        (tmp_path / tree / "stage2_adding" / "adding.py").write_text(ADDING)
        (tmp_path / tree / "stage2_adding" / "demo.py").write_text(DEMO)
    (tmp_path / "stages" / "course.toml").write_text(COURSE)
    return tmp_path


def change(root: Path, file: str, before: str, after: str) -> None:
    path = root / "stages" / file
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


def second_stage(root: Path) -> Stage:
    return load_course(root).stage("stage2")


def said(root: Path, solutions: bool = False) -> tuple[int, str]:
    """The exit code, and what is said about an early end, on one line."""
    report = io.StringIO()
    code = run_demo(root, second_stage(root), solutions, [], report)
    return code, " ".join(report.getvalue().split())


def test_the_demo_runs_with_its_arguments(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = io.StringIO()
    assert run_demo(root, second_stage(root), False, ["--", "20"], report) == 0
    assert capfd.readouterr().out == "arguments ['20']\nresult 41\n"
    assert report.getvalue() == "a remark\n"


def test_the_learners_own_code_runs_or_the_reference(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    change(root, "stage1_counting/counting.py", "2 * x", "100 * x")
    assert said(root)[0] == 0
    assert "result 101" in capfd.readouterr().out
    assert said(root, solutions=True)[0] == 0
    assert "result 3" in capfd.readouterr().out


def test_an_unfinished_exercise_of_an_earlier_stage_is_named(root: Path) -> None:
    change(root, "stage1_counting/counting.py", "return 2 * x", TODO)
    assert said(root) == (
        1,
        "a remark double is not written yet (stages/stage1_counting/counting.py:3), and this demo uses it. "
        "Next: write it. When nox -s stage1 shows it as done, run nox -s demo2 again. "
        "To see it on the reference: nox -s demo2 -- --solutions",
    )


def test_an_unfinished_method_is_told_by_its_class(root: Path) -> None:
    change(root, "stage2_adding/adding.py", "return double(x) + 1", TODO)
    _, text = said(root)
    assert "Adder is not written yet (stages/stage2_adding/adding.py:6)" in text
    assert "When nox -s stage2 shows it as done" in text
    assert "Traceback" not in text


def test_the_reference_is_offered_only_where_there_is_one(root: Path) -> None:
    change(root, "stage1_counting/counting.py", "return 2 * x", TODO)
    (root / "solutions" / "stage2_adding" / "demo.py").unlink()
    assert "--solutions" not in said(root)[1]
    with pytest.raises(
        UsageError, match=r"solutions/stage2_adding/demo.py is not there\. A class has no solutions"
    ):
        said(root, solutions=True)


@pytest.mark.parametrize(
    ("file", "before", "after", "place"),
    [
        (
            "stage1_counting/counting.py",
            "def double(x):",
            "def double(x:",
            "stages/stage1_counting/counting.py:1",
        ),
        ("stage2_adding/adding.py", "        return", "      return", "stages/stage2_adding/adding.py:6"),
        ("stage2_adding/demo.py", "import sys", "import sys sys", "stages/stage2_adding/demo.py:1"),
    ],
)
def test_a_syntax_error_is_one_calm_sentence(
    root: Path, file: str, before: str, after: str, place: str
) -> None:
    if "adding.py" in file:
        before, after = (
            "    def __call__(self, x):\n        return",
            "    def __call__(self, x):\n     y = 1\n      return",
        )
        place = "stages/stage2_adding/adding.py:7"
    change(root, file, before, after)
    code, text = said(root)
    assert code == 1
    assert f"{place} is not Python yet: " in text
    assert "Next: correct that line, then run nox -s demo2 again." in text
    assert "Traceback" not in text


def test_a_name_that_is_gone_is_named(root: Path) -> None:
    change(root, "stage1_counting/counting.py", "def double", "def doubled")
    _, text = said(root)
    assert "double is not in stages/stage1_counting/counting.py, and this demo uses it." in text
    assert "When nox -s stage1 shows it as done" in text


def test_a_missing_package_is_not_the_learners_fault(root: Path) -> None:
    change(root, "stage2_adding/demo.py", "import sys", "import sys\nimport no_such_package.part")
    _, text = said(root)
    assert text.startswith("The package no_such_package is not installed here.")


def test_any_other_error_keeps_its_traceback(root: Path) -> None:
    change(root, "stage1_counting/counting.py", "return 2 * x", "return [][x]")
    report = io.StringIO()
    assert run_demo(root, second_stage(root), False, [], report) == 1
    text = report.getvalue()
    assert "Traceback (most recent call last):" in text
    assert "counting.py" in text
    assert "IndexError: list index out of range" in text
    assert "Next: nox -s stage2 looks at your code step by step." in text


def test_a_deliberate_not_implemented_error_keeps_its_message(root: Path) -> None:
    change(root, "stage1_counting/counting.py", "return 2 * x", f"{TODO}('only even numbers')")
    assert "NotImplementedError: only even numbers" in said(root)[1]


def test_a_traceback_that_was_dealt_with_is_shown_too(root: Path) -> None:
    change(
        root,
        "stage2_adding/demo.py",
        "import sys",
        "import sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.excepthook(*sys.exc_info())",
    )
    code, text = said(root)
    assert code == 0
    assert "ZeroDivisionError: division by zero a remark" in text


def test_a_demo_that_refuses_its_input_has_the_last_word(root: Path) -> None:
    change(
        root,
        "stage2_adding/demo.py",
        "import sys",
        "import sys\nprint('line 3 has one column', file=sys.stderr)\nsys.exit(2)",
    )
    assert said(root) == (2, "line 3 has one column")


def test_a_stage_without_a_demo_is_refused(root: Path) -> None:
    (root / "stages" / "stage2_adding" / "demo.py").unlink()
    with pytest.raises(UsageError, match=r"stages/stage2_adding/demo.py is not there\."):
        said(root)
