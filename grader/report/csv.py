"""The class as a spreadsheet: one line a submission, a column for each stage."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from grader.gradebook import Entry
from grader.report.visible import one_line

LEARNER = ("submission", "name", "id", "login", "email", "section")
BYTE_ORDER_MARK = "\ufeff"
"""Without it Excel takes the file for one in the system's old encoding."""

FORMULA = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet compute a cell instead of showing it."""


def render(entries: Iterable[Entry], stages: list[str]) -> Iterator[str]:
    """The lines of the file. What is not graded has an empty cell, never a 0; `state` and `reason` say why."""
    yield BYTE_ORDER_MARK + line([*LEARNER, "state", *stages, "score", "max_score", "reason"])
    for entry in entries:
        scores = [None if (grade := entry.grade(stage)) is None else grade.score for stage in stages]
        graded = any(score is not None for score in scores)
        yield line(
            [
                *(getattr(entry.learner, field) for field in LEARNER),
                entry.state,
                *scores,
                entry.score if graded and entry.state == "graded" else None,
                entry.max_score,
                entry.reason,
            ]
        )


def line(cells: Iterable[str | float | None]) -> str:
    """One line: numbers as they are, nothing as an empty cell, text quoted where needed and never a formula."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerow([cell(value) for value in cells])
    return stream.getvalue()


def cell(value: str | float | None) -> str:
    """The text of a cell."""
    if value is None:
        return ""
    if isinstance(value, str):
        return defused(value)
    return f"{value:.4f}".rstrip("0").rstrip(".")


def defused(text: str) -> str:
    """Text that a spreadsheet shows and does not compute: an apostrophe before it where it could be a formula."""
    shown = one_line(text)
    return f"'{shown}" if shown.startswith(FORMULA) else shown
