"""Takes in a folder of submissions: what is there, what each is called, and each one's modules, one at a time."""

from __future__ import annotations

import os
import stat
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from grader.batch.archive import JUNK, NotTaken, bare_name, is_archive, lay_out, read_archive
from grader.course import Course
from grader.errors import UsageError
from grader.report.visible import one_line

LONGEST_NAME = 120


class Submitted(msgspec.Struct, frozen=True):
    """Something that was handed in."""

    name: str
    """What it is called: the folder's name, or the archive's without its ending."""
    path: Path
    refused: str = ""
    """Why it is not even opened."""


def submissions(folder: Path, course: Course, grades: Path | None = None) -> list[Submitted]:
    """What lies in a folder, by name, but for the gradebook. Raises UsageError when it is no folder of submissions."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the folder that holds the submissions.")
    if has_stages(folder, course):
        raise UsageError(
            f"{folder} is one submission. Name the folder that holds all of them, or use: "
            f"python -m grader grade {course.stages[0].name} --submission {folder}"
        )
    found: dict[str, list[Path]] = {}
    spelled: dict[str, str] = {}
    for path in sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name)):
        if path.name.startswith(".") or path.name.casefold() in JUNK:
            continue
        if grades is not None and path.resolve() == grades.resolve():
            continue
        if not is_archive(path) and not path.is_dir() and not path.is_symlink():
            continue  # a list, a note: not a submission
        name = printable(bare_name(path) if is_archive(path) else path.name)
        folded = unicodedata.normalize("NFC", name).casefold()
        found.setdefault(folded, []).append(path)
        spelled.setdefault(folded, name)
    if not found:
        raise UsageError(
            f"{folder} holds no submission: neither a folder nor a zip or tar file. Name the folder that holds them."
        )
    return [named(spelled[folded], paths) for folded, paths in found.items()]


def named(name: str, paths: list[Path]) -> Submitted:
    """A submission; two of one name are not guessed between."""
    if len(paths) == 1:
        return Submitted(name, paths[0])
    both = " and ".join(printable(path.name) for path in paths)
    return Submitted(
        name, paths[0], f"There are {both}: two submissions of one name. Leave the one that counts."
    )


def printable(name: str) -> str:
    """A file name as text that any file and any report can hold."""
    return one_line(os.fsencode(name).decode("utf-8", "backslashreplace"))[:LONGEST_NAME]


@contextmanager
def opened(submitted: Submitted, course: Course, work: Path) -> Iterator[Path]:
    """The folder that holds a submission's stage folders, for as long as it is read.

    An archive's modules are laid out in `work` for that time. Raises NotTaken with the reason for one that is refused.
    """
    if submitted.refused:
        raise NotTaken(submitted.refused)
    path = submitted.path
    if is_archive(path) and not path.is_dir():
        with unpacked(path, course, work) as folder:
            yield folder
        return
    if path.is_symlink():
        raise NotTaken(f"{submitted.name} is a link. Put the folder itself there.")
    base = stage_base(path, course)
    if base is not None:
        yield base
        return
    archives = [inner for inner in listed(path) if is_archive(inner)]
    if len(archives) == 1:  # as Moodle delivers it: a folder for each learner, with what was uploaded in it
        with unpacked(archives[0], course, work) as folder:
            yield folder
        return
    more = f" It holds {len(archives)} archives: leave the one that counts." if archives else ""
    raise NotTaken(f"{submitted.name} holds no stage folder, such as {course.stages[0].folder}.{more}")


@contextmanager
def unpacked(path: Path, course: Course, work: Path) -> Iterator[Path]:
    """An archive's modules in a folder of their own."""
    files = read_archive(path, [stage.folder for stage in course.stages])
    if not files:
        raise NotTaken(
            f"{path.name} holds no stage folder, such as {course.stages[0].folder}. Pack the stage folders."
        )
    with tempfile.TemporaryDirectory(dir=work) as folder:
        lay_out(files, Path(folder))
        yield Path(folder)


def stage_base(path: Path, course: Course) -> Path | None:
    """The folder itself when it or its `stages` holds a stage folder, or the one inner folder that does."""
    if has_stages(path, course):
        return path
    inner = [one for one in listed(path) if is_real_folder(one) and has_stages(one, course)]
    return inner[0] if len(inner) == 1 else None


def has_stages(path: Path, course: Course) -> bool:
    """Whether stage folders lie here, or in `stages`."""
    return any((base / stage.folder).is_dir() for base in (path, path / "stages") for stage in course.stages)


def listed(path: Path) -> list[Path]:
    """The first hundred things in a folder that are not junk."""
    found = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.name.casefold() not in JUNK:
                    found.append(path / entry.name)
                if len(found) == 100:
                    break
    except OSError as error:
        raise NotTaken(
            f"{printable(path.name)} cannot be read ({error.strerror}). Check its permissions."
        ) from None
    return sorted(found)


def is_real_folder(path: Path) -> bool:
    """Whether it is a folder and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
