"""Hints: a question first, then the concept, then where to look. One step further each time somebody asks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from grader.errors import UsageError
from grader.report.page import Look, Page, look_of
from grader.report.story import first_unfinished, is_complete, next_step, short_name
from grader.result import ExerciseResult, StageResult

HINTS_FILE = "hints.toml"
PROGRESS_FILE = ".progress/hints.json"

Given = dict[str, dict[str, int]]
"""How many hints have been given, by stage and exercise."""


class HintsError(UsageError):
    """The hints of a stage cannot be read."""


class Ladder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hints of one exercise, each a step further than the one before."""

    hints: tuple[str, ...]


def next_hint(root: Path, result: StageResult, look: Look | None = None) -> str:
    """The next hint for the first exercise of the graded stage that is not done, as text to print.

    When all have been given, it shows all of them again. Raises `HintsError` when the stage has none.
    """
    page = Page(look or look_of(sys.stdout))
    exercise = first_unfinished(result)
    if exercise is None:
        page.paragraph(_nothing_to_hint(result))
    elif exercise.status == "waiting":
        page.paragraph((exercise.name, "bold"), " waits for another exercise. ", next_step(result))
    else:
        _lay_hint(page, root, result, exercise)
    return page.text().rstrip("\n")


def load_hints(root: Path, folder: str) -> dict[str, Ladder]:
    """The hints of the stage in `folder`, by exercise. Raises `HintsError` when they cannot be read."""
    path = root / "stages" / folder / HINTS_FILE
    shown = path.relative_to(root).as_posix()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Ladder])
    except FileNotFoundError:
        raise HintsError(
            f"{shown} is not there, so this stage has no hints. Its README.md explains the ideas."
        ) from None
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise HintsError(f"{shown} cannot be read: {error}. Correct that file.") from None


def _nothing_to_hint(result: StageResult) -> str:
    if is_complete(result):
        return f"Every exercise of {result.stage} is done. There is nothing to hint at."
    return "The grader itself failed on this stage, which is not your mistake. Please report it."


def _lay_hint(page: Page, root: Path, result: StageResult, exercise: ExerciseResult) -> None:
    ladders = load_hints(root, result.folder)
    hints = ladders[exercise.name].hints if exercise.name in ladders else ()
    if not hints:
        raise HintsError(
            f"stages/{result.folder}/{HINTS_FILE} has no hints for {exercise.name}: read its docstring."
        )
    given = _given_before(root)
    step = given.get(result.stage, {}).get(exercise.name, 0) + 1
    again = f"nox -s hint -- {short_name(result.stage)}"
    if step > len(hints):
        page.paragraph(
            (exercise.name, "bold"), f": you have had all {len(hints)} hints. Here they are again."
        )
        for number, hint in enumerate(hints, start=1):
            page.blank()
            page.paragraph((f"{number}. ", "bold"), _flowing(hint), indent=2, hang=3)
        page.blank()
        page.paragraph(f"The lesson, stages/{result.folder}/README.md, says the same at greater length.")
        return
    page.paragraph((exercise.name, "bold"), f", hint {step} of {len(hints)}:")
    page.blank()
    page.paragraph(_flowing(hints[step - 1]), indent=2)
    page.blank()
    more = (
        f"One step further: {again}"
        if step < len(hints)
        else f"That was the last one. All of them again: {again}"
    )
    page.paragraph((more, "dim"))
    _remember(root, given, result.stage, exercise.name, step)


def _flowing(hint: str) -> str:
    """The hint as one paragraph, however its lines are broken in the file."""
    return " ".join(hint.split())


def _given_before(root: Path) -> Given:
    """What was given so far. A file that is missing or cannot be read counts as nothing given."""
    try:
        return msgspec.json.decode((root / PROGRESS_FILE).read_bytes(), type=Given)
    except (OSError, msgspec.MsgspecError):
        return {}


def _remember(
    root: Path, given: Mapping[str, Mapping[str, int]], stage: str, exercise: str, step: int
) -> None:
    """Keep the step. Where nothing can be written the hint is shown all the same."""
    now = {**given, stage: {**given.get(stage, {}), exercise: step}}
    path = root / PROGRESS_FILE
    try:
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(now))
        partial.replace(path)
    except OSError:
        return
