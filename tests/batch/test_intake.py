"""What counts as a submission in a folder, what it is called, and where its stage folders are."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from little_course import COURSE, DOUBLE, hand_in

from grader.batch.archive import NotTaken
from grader.batch.intake import opened, submissions
from grader.course import Course, load_course
from grader.errors import UsageError


@pytest.fixture
def course(tmp_path: Path) -> Course:
    for folder in ("stage1_double", "stage2_triple"):
        (tmp_path / "course/stages" / folder).mkdir(parents=True)
    (tmp_path / "course/stages/course.toml").write_text(COURSE)
    return load_course(tmp_path / "course")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


def test_folders_and_archives_are_submissions_and_nothing_else_is(folder: Path, course: Course) -> None:
    hand_in(folder / "ada")
    hand_in(folder / ".hidden")
    hand_in(folder / "__MACOSX")
    (folder / "roster.csv").write_text("name\n")
    zipfile.ZipFile(folder / "bob.zip", "w").close()
    (folder / "carl.tar.gz").write_bytes(b"")
    (folder / "grades").mkdir()
    assert [one.name for one in submissions(folder, course, folder / "grades")] == ["ada", "bob", "carl"]


def test_names_of_any_bytes_are_printable(folder: Path, course: Course) -> None:
    os.mkdir(os.fsencode(folder) + b"/bad\xff\x1b[2Jname")
    (folder / "李明").mkdir()
    names = [one.name for one in submissions(folder, course)]
    assert all(name.isprintable() for name in names)
    assert "李明" in names and names[0].startswith("bad\\xff")


def test_two_of_one_name_are_refused(folder: Path, course: Course, tmp_path: Path) -> None:
    hand_in(folder / "ada")
    zipfile.ZipFile(folder / "Ada.zip", "w").close()
    (only,) = submissions(folder, course)
    with pytest.raises(NotTaken, match="There are Ada.zip and ada: two submissions of one name"):
        with opened(only, course, tmp_path):
            pass


@pytest.mark.parametrize("inner", ["", "stages", "ada-main", "ada-main/stages"])
def test_stage_folders_are_found(folder: Path, course: Course, tmp_path: Path, inner: str) -> None:
    hand_in(folder / "ada" / inner)
    (only,) = submissions(folder, course)
    with opened(only, course, tmp_path) as base:
        found = [path for path in (base / "stage1_double", base / "stages/stage1_double") if path.is_dir()]
        assert (found[0] / "double.py").read_text() == DOUBLE


def test_an_archive_in_a_folder_is_opened_and_laid_out_only_while_it_is_read(
    folder: Path, course: Course, tmp_path: Path
) -> None:
    (folder / "Ada_17_assignsubmission_file").mkdir()
    with zipfile.ZipFile(folder / "Ada_17_assignsubmission_file/work.zip", "w") as archive:
        archive.writestr("stage1_double/double.py", DOUBLE)
    work = tmp_path / "work"
    work.mkdir()
    (only,) = submissions(folder, course)
    with opened(only, course, work) as base:
        assert (base / "stage1_double/double.py").read_text() == DOUBLE
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("kind", ["nothing", "a link", "two archives", "an empty archive"])
def test_what_cannot_be_graded_has_a_reason(folder: Path, course: Course, tmp_path: Path, kind: str) -> None:
    said = "holds no stage folder, such as stage1_double"
    if kind == "a link":
        hand_in(tmp_path / "elsewhere")
        (folder / "ada").symlink_to(tmp_path / "elsewhere")
        said = "ada is a link"
    else:
        (folder / "ada").mkdir()
        for name in {"two archives": ["a.zip", "b.zip"], "an empty archive": ["a.zip"]}.get(kind, []):
            zipfile.ZipFile(folder / "ada" / name, "w").close()
        said = "holds 2 archives" if kind == "two archives" else said
    (only,) = submissions(folder, course)
    with pytest.raises(NotTaken, match=said), opened(only, course, tmp_path):
        pass


def test_a_single_submission_is_not_taken_for_a_class(folder: Path, course: Course) -> None:
    with pytest.raises(UsageError, match="is one submission"):
        submissions(hand_in(folder / "ada"), course)
