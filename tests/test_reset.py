"""The skeleton can be put back, and nothing that a learner wrote is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grader.course import Exercise, Stage
from grader.reset import BACKUPS, ResetError, reset

STAGE = Stage(
    name="stage1",
    folder="stage1_counting",
    title="Counting",
    exercises=(Exercise("double", "a.py", 1), Exercise("Counter", "a.py", 1), Exercise("other", "b.py", 1)),
)

SOLUTION = '''"""Counting."""

import math


def double(x: int) -> int:
    """Twice x."""
    return math.prod([2, x])


class Counter:
    """Counts."""

    def step(self) -> int:
        """The next number."""
        return 1
'''

SKELETON_OF_DOUBLE = '''def double(x: int) -> int:
    """Twice x."""
    raise NotImplementedError
'''

OWN = '''"""My file."""

import math
from torch import nn


# I think this is it.
def double(x):
    return x + x


def my_own(x):
    return double(x)


class Counter:
    def step(self):
        return 3
'''

OTHER = "def other() -> int:\n    return 1\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for tree, a in (("solutions", SOLUTION), ("stages", OWN)):
        folder = tmp_path / tree / STAGE.folder
        folder.mkdir(parents=True)
        (folder / "a.py").write_bytes(a.encode())
        (folder / "b.py").write_bytes(OTHER.encode())
    return tmp_path


def own(root: Path, name: str = "a.py") -> str:
    return (root / "stages" / STAGE.folder / name).read_bytes().decode()


def kept(root: Path) -> list[Path]:
    return sorted(path for path in (root / BACKUPS).rglob("*") if path.is_file())


def test_one_exercise_is_put_back_and_the_rest_stays(root: Path) -> None:
    told = reset(root, STAGE, "double")
    assert own(root) == OWN.replace("def double(x):\n    return x + x\n", SKELETON_OF_DOUBLE)
    (copy,) = kept(root)
    assert copy.read_text() == OWN
    where = copy.relative_to(root).as_posix()
    assert told == f"double in a.py is the skeleton again.\nWhat stood there lies in {where}"
    assert where.startswith(".progress/backup/")
    assert where.endswith("/stage1_counting/a.py")


def test_a_class_is_put_back_whole(root: Path) -> None:
    reset(root, STAGE, "Counter")
    assert own(root).endswith(
        '    def step(self) -> int:\n        """The next number."""\n        raise NotImplementedError\n'
    )
    assert "return x + x" in own(root)


def test_an_exercise_that_is_gone_comes_back_at_the_end(root: Path) -> None:
    path = root / "stages" / STAGE.folder / "a.py"
    path.write_text("x = 1\n")
    reset(root, STAGE, "double")
    assert own(root) == f"x = 1\n\n\n{SKELETON_OF_DOUBLE}"


def test_of_two_definitions_one_remains(root: Path) -> None:
    path = root / "stages" / STAGE.folder / "a.py"
    path.write_text("def double(x):\n    return 1\n\n\ndef double(x):\n    return 2\n")
    reset(root, STAGE, "double")
    assert own(root) == SKELETON_OF_DOUBLE


def test_a_whole_stage_is_put_back(root: Path) -> None:
    told = reset(root, STAGE)
    assert own(root).count("raise NotImplementedError") == 2
    assert "raise NotImplementedError" in own(root, "b.py")
    assert [path.name for path in kept(root)] == ["a.py", "b.py"]
    assert len(told.split("\n")) == 4


def test_a_file_can_be_named(root: Path) -> None:
    reset(root, STAGE, "b.py")
    assert own(root) == OWN
    assert "raise NotImplementedError" in own(root, "b.py")


def test_a_second_reset_changes_nothing_and_a_third_copy_loses_none(root: Path) -> None:
    reset(root, STAGE, "double")
    assert reset(root, STAGE, "double") == "double in a.py is the skeleton already. Nothing was changed."
    path = root / "stages" / STAGE.folder / "a.py"
    for number in range(3):
        path.write_text(f"mine = {number}\n")
        reset(root, STAGE, "a.py")
    assert [copy.read_text() for copy in kept(root)][1:] == ["mine = 0\n", "mine = 1\n", "mine = 2\n"]


def test_a_missing_or_empty_file_becomes_the_skeleton(root: Path) -> None:
    path = root / "stages" / STAGE.folder / "a.py"
    path.unlink()
    assert reset(root, STAGE, "double") == "double in a.py is the skeleton again."
    assert own(root).count("raise NotImplementedError") == 2
    path.write_text("\n")
    reset(root, STAGE, "double")
    assert own(root).count("raise NotImplementedError") == 2


def test_line_ends_and_a_byte_order_mark_stay(root: Path) -> None:
    path = root / "stages" / STAGE.folder / "a.py"
    path.write_bytes(b"\xef\xbb\xbf" + OWN.replace("\n", "\r\n").encode())
    reset(root, STAGE, "double")
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    assert b"    raise NotImplementedError\r\n" in content
    assert "# I think this is it." in content.decode()
    compile(content, "a.py", "exec")


def test_a_file_that_is_no_python_can_only_be_put_back_whole(root: Path) -> None:
    path = root / "stages" / STAGE.folder / "a.py"
    path.write_text("def double(x:\n    return 1\n")
    with pytest.raises(
        ResetError, match=r"a\.py, line \d is not Python.*python -m grader reset stage1 a\.py"
    ):
        reset(root, STAGE, "double")
    assert own(root) == "def double(x:\n    return 1\n"
    assert not kept(root)
    reset(root, STAGE, "a.py")
    assert "raise NotImplementedError" in own(root)


def test_an_unknown_exercise_is_refused_with_the_names(root: Path) -> None:
    with pytest.raises(
        ResetError, match=r"no exercise 'treble': choose one of double, Counter, other, a\.py, b\.py\."
    ):
        reset(root, STAGE, "treble")


def test_a_class_without_solutions_gets_the_first_version_in_git(root: Path) -> None:
    for name in ("a.py", "b.py"):
        (root / "solutions" / STAGE.folder / name).unlink()
    with pytest.raises(ResetError, match="no solution is here, and git does not know it"):
        reset(root, STAGE)
    path = root / "stages" / STAGE.folder / "a.py"
    path.write_text(SKELETON_OF_DOUBLE)
    git(root, "init", "-q")
    git(root, "add", "stages")
    git(root, "commit", "-qm", "as it was handed out")
    path.write_text(OWN)
    git(root, "commit", "-qam", "mine")
    reset(root, STAGE, "a.py")
    assert own(root) == SKELETON_OF_DOUBLE
    path.write_text(OWN)
    reset(root, STAGE, "double")
    assert own(root) == OWN.replace("def double(x):\n    return x + x\n", SKELETON_OF_DOUBLE)


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)
