"""Puts a skeleton back, for a file or for one exercise. What stood there is kept in a copy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import libcst as cst

from grader.course import Stage
from grader.errors import UsageError
from grader.skeleton import Definition, generate

BACKUPS = ".progress/backup"


class ResetError(UsageError):
    """There is nothing to put back, or no place for it."""


def reset(root: Path, stage: Stage, exercise: str | None = None) -> str:
    """Put the skeleton of the stage back, or that of one exercise or one file; returns what to tell.

    A copy of what stood there lies below `.progress/backup` before anything is written.
    Raises `ResetError` when the stage has no such exercise, or when no skeleton can be had.
    """
    chosen = next((each for each in stage.exercises if each.name == exercise), None)
    if exercise is not None and chosen is None and exercise not in stage.files:
        known = ", ".join([*(each.name for each in stage.exercises), *stage.files])
        raise ResetError(f"{stage.name} has no exercise {exercise!r}: choose one of {known}.")
    if chosen is not None:
        texts = {chosen.file: _with_one_reset(root, stage, chosen.file, chosen.name)}
    else:
        texts = {file: _skeleton(root, stage, file) for file in ([exercise] if exercise else stage.files)}
    return _put_back(root, stage, texts, chosen.name if chosen else "")


def _put_back(root: Path, stage: Stage, texts: dict[str, bytes], exercise: str) -> str:
    """Write the files that differ, each after its copy; says what was done."""
    backup = _backup_folder(root) / stage.folder
    told = []
    for name, text in texts.items():
        target = root / "stages" / stage.folder / name
        before = _content(target)
        subject = f"{exercise} in {name}" if exercise else name
        if before == text:
            told.append(f"{subject} is the skeleton already. Nothing was changed.")
            continue
        kept = ""
        if before is not None:
            _write(backup / name, before)
            kept = f"\nWhat stood there lies in {(backup / name).relative_to(root).as_posix()}"
        _write(target, text)
        told.append(f"{subject} is the skeleton again.{kept}")
    return "\n".join(told)


def _with_one_reset(root: Path, stage: Stage, file: str, exercise: str) -> bytes:
    """The learner's file in which one exercise is the skeleton's, and all else stays."""
    skeleton = _skeleton(root, stage, file)
    own = _content(root / "stages" / stage.folder / file)
    if own is None or not own.strip():
        return skeleton
    try:
        module = cst.parse_module(own)
    except (cst.ParserSyntaxError, UnicodeDecodeError) as error:
        where = f", line {error.raw_line}" if isinstance(error, cst.ParserSyntaxError) else ""
        raise ResetError(
            f"{file}{where} is not Python, so {exercise} cannot be found in it. Correct that, or put the"
            f" whole file back: python -m grader reset {stage.name} {file}"
        ) from None
    fresh = _definitions(cst.parse_module(skeleton).body, exercise)
    if not fresh:
        raise ResetError(f"The skeleton of {file} has no {exercise}. Please report it.")
    return module.with_changes(body=_replaced(module.body, exercise, fresh[0])).bytes


def _replaced(body: Sequence[cst.BaseStatement], name: str, fresh: Definition) -> list[cst.BaseStatement]:
    """The statements with `fresh` in place of the definition of `name`, or at the end."""
    old = _definitions(body, name)
    if not old:
        blank = cst.EmptyLine(indent=False)
        return [*body, fresh.with_changes(leading_lines=[blank, blank])]
    renewed = fresh.with_changes(leading_lines=old[0].leading_lines)
    return [renewed if each is old[0] else each for each in body if each not in old[1:]]


def _definitions(body: Sequence[cst.BaseStatement], name: str) -> list[Definition]:
    return [each for each in body if isinstance(each, Definition) and each.name.value == name]


def _skeleton(root: Path, stage: Stage, file: str) -> bytes:
    """The skeleton of a file: from the solution, or, where a class has none, the first version in git."""
    solution = _content(root / "solutions" / stage.folder / file)
    if solution is not None:
        exercises = [each.name for each in stage.exercises if each.file == file]
        return generate(solution.decode("utf-8"), exercises).encode("utf-8")
    path = f"stages/{stage.folder}/{file}"
    first = _git(root, "log", "--diff-filter=A", "--format=%H", "--", path).decode().split()
    text = _git(root, "show", f"{first[-1]}:./{path}") if first else b""
    if not text:
        raise ResetError(f"There is no skeleton of {path}: no solution is here, and git does not know it.")
    return text


def _git(root: Path, *arguments: str) -> bytes:
    """What git prints; nothing where it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    except OSError:
        return b""
    return done.stdout if done.returncode == 0 else b""


def _backup_folder(root: Path) -> Path:
    """A folder that is not there yet, named after the time."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = root / BACKUPS / name
    number = 1
    while folder.exists():
        number += 1
        folder = root / BACKUPS / f"{name}_{number}"
    return folder


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResetError(f"{path} cannot be read ({error.strerror}). Check its permissions.") from None


def _write(path: Path, content: bytes) -> None:
    """Write a file whole, or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise ResetError(f"{path} cannot be written ({error.strerror}). Nothing of it was changed.") from None
