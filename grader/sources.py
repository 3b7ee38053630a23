"""Takes a submission in: which files, read once as bytes, and what is said of those that are not taken."""

from __future__ import annotations

import codecs
import os
import re
import stat
from pathlib import Path
from typing import Literal

import msgspec

from grader.course import Course, Stage
from grader.errors import UsageError

LARGEST_FILE = 1 << 20
LARGEST_STAGE = 4 << 20
MOST_FILES = 60
CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
ENCODINGS = {"utf-8", "iso8859-1", "cp1252", "ascii", "iso8859-15"}
NEVER_TAKEN = {
    "__init__.py",
    "demo.py",
    "conftest.py",
    "setup.py",
    "sitecustomize.py",
    "usercustomize.py",
    "noxfile.py",
}

Earlier = Literal["own", "reference"]


class Taken(msgspec.Struct):
    """A submission as it is graded."""

    name: str
    sources: dict[str, str]
    """Text by path, as 'stage1_attention/attention.py': every stage up to the graded one."""
    display: dict[str, str]
    """Where each file lies on disk."""
    notes: list[str]


class NotReadable(Exception):
    """A file that cannot be taken; the text says why and what to do."""


def take(root: Path, course: Course, stage: Stage, submission: Path, earlier: Earlier) -> Taken:
    """Reads what a stage needs. Raises UsageError for a submission that cannot be graded at all."""
    base = submission_base(submission, course)
    taken = Taken(submission.name or str(submission), {}, {}, [])
    for one in course.stages:
        is_graded = one.name == stage.name
        folder = (base if is_graded or earlier == "own" else root / "solutions") / one.folder
        take_stage(taken, one, folder, is_graded)
        if is_graded:
            return taken
    return taken


def submission_base(submission: Path, course: Course) -> Path:
    """The folder that holds the stage folders: the submission itself or its `stages`."""
    if not submission.exists():
        raise UsageError(
            f"There is no folder {submission}. Name the folder that holds the stage folders: --submission DIR."
        )
    if not submission.is_dir():
        raise UsageError(
            f"{submission} is not a folder. Name the folder that holds the stage folders: --submission DIR."
        )
    for base in (submission, submission / "stages"):
        folders = [base / stage.folder for stage in course.stages]
        if any(folder.is_dir() for folder in folders):
            # A link could lead to the solutions, or to another's submission.
            for path in [base] * (base is not submission) + folders:
                if path.is_symlink():
                    raise UsageError(f"{path} is a link. Put the folder itself there.")
            return base
    raise UsageError(
        f"{submission} holds no stage folder (such as {course.stages[0].folder}), nor does {submission / 'stages'}."
        " Name the folder that holds them: --submission DIR."
    )


def take_stage(taken: Taken, stage: Stage, folder: Path, is_graded: bool) -> None:
    """Reads the modules of one stage folder into `taken`."""
    named = list(stage.files)
    further, room = further_modules(folder, named), LARGEST_STAGE
    if len(further) > MOST_FILES:
        taken.notes.append(f"{stage.folder} holds {len(further)} further modules; {MOST_FILES} were taken.")
    for name in named + further[:MOST_FILES]:
        path = folder / name
        key = f"{stage.folder}/{name}"
        try:
            text = read_source(path, key)
        except FileNotFoundError:
            continue
        except NotReadable as error:
            if is_graded and name in named:
                raise UsageError(str(error)) from None
            taken.notes.append(str(error))
            continue
        room -= len(text)
        if room < 0:
            taken.notes.append(f"{key} was not taken: a stage may have {LARGEST_STAGE:,} characters.")
            continue
        taken.sources[key] = text
        taken.display[key] = str(path)


def further_modules(folder: Path, named: list[str]) -> list[str]:
    """Modules beside the named ones; pytest's, Python's and nox's own files are left where they are."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".py"))
    except OSError:
        return []
    further = [
        name
        for name in names
        if name not in named
        and name not in NEVER_TAKEN
        and not name.startswith("test_")
        and name[:-3].isidentifier()
    ]
    return further


def read_source(path: Path, shown: str) -> str:
    """The text of a Python file; raises NotReadable with one line that says what to do."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise NotReadable(f"{shown} is a link. Put the file itself there.") from None
        raise NotReadable(f"{shown} cannot be read ({error.strerror}). Check its permissions.") from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotReadable(f"{shown} is not an ordinary file. Put a Python file there.")
        if state.st_size > LARGEST_FILE:
            raise NotReadable(
                f"{shown} has {state.st_size:,} bytes; a file may have {LARGEST_FILE:,}. Make it smaller."
            )
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise NotReadable(f"{shown} cannot be read ({error.strerror}). Check its permissions.") from None
    finally:
        os.close(descriptor)
    return decode_source(data, shown)


def decode_source(data: bytes, shown: str) -> str:
    """Python source text of any accepted encoding and line ending, as Python itself would read it."""
    if not data.strip():
        raise NotReadable(
            f"{shown} is empty. Put the skeleton back: nox -s reset -- {shown.partition('_')[0]}."
        )
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise NotReadable(f"{shown} is saved as UTF-16. Save it as UTF-8.")
    if b"\0" in data:
        raise NotReadable(f"{shown} is not text: it holds NUL bytes. Save it as UTF-8 text.")
    encoding = "utf-8"
    if not data.startswith(codecs.BOM_UTF8):
        for line in data.splitlines()[:2]:
            if match := CODING.match(line):
                encoding = match[1].decode("ascii", "replace")
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        name = ""
    if name not in ENCODINGS:
        raise NotReadable(f"{shown} declares the encoding {encoding[:40]!r}. Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig" if name == "utf-8" else name)
    except UnicodeDecodeError as error:
        raise NotReadable(
            f"{shown} is not {encoding[:40]}: byte {error.start} does not fit. Save it as UTF-8."
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"
