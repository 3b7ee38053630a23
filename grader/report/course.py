"""The course at a glance: a line for each stage, and the next step in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from grader.report.page import Look, Page, look_of
from grader.report.plain import Facts
from grader.report.rows import Row, lay_rows
from grader.report.story import first_unfinished, is_complete, of_points, short_name, stage_heading
from grader.report.visible import one_line
from grader.result import StageResult

FAREWELL = "Every stage is done: the Transformer is yours."
NOT_BEGUN = ("todo", "missing", "waiting")


@dataclass(frozen=True)
class Ungraded:
    """A stage that could not be graded, and the reason in one sentence."""

    stage: str
    title: str
    reason: str
    max_score: float = 0.0


Entry = StageResult | Ungraded


def print_course(title: str, entries: Sequence[Entry], file: TextIO, plain: bool = False) -> None:
    """Write the table of all stages to `file` in the look that suits it, or one fact a line."""
    look = look_of(file)
    file.write(render_plain(title, entries, look.encoding) if plain else render(title, entries, look))
    file.flush()


def render(title: str, entries: Sequence[Entry], look: Look) -> str:
    """The table of all stages, in the order of the course."""
    page = Page(look)
    page.heading(title, _total(entries))
    page.blank()
    rows = []
    for entry in entries:
        earned = 0.0 if isinstance(entry, Ungraded) else entry.score
        number = short_name(entry.stage)
        rows.append(Row(number, one_line(entry.title), earned, entry.max_score, state(entry), _style(entry)))
    lay_rows(page, rows)
    for entry in entries:
        if isinstance(entry, Ungraded):
            page.blank()
            page.paragraph(
                f"{one_line(entry.stage)} was not graded: {one_line(entry.reason)}", indent=2, hang=2
            )
    page.blank()
    upcoming = next_sentence(entries)
    if upcoming:
        page.paragraph(("Next: ", "bold"), upcoming, hang=2)
    else:
        page.paragraph(("Complete. ", "bold green"), FAREWELL)
    return page.text()


def render_plain(title: str, entries: Sequence[Entry], encoding: str = "utf-8") -> str:
    """The same, one fact a line."""
    facts = Facts()
    facts.add(f"{title}. {_total(entries)}.")
    for entry in entries:
        heading = stage_heading(entry.stage, entry.title)
        if isinstance(entry, Ungraded):
            facts.add(f"{heading}. Not graded. {entry.reason}")
        else:
            facts.add(f"{heading}. {of_points(entry.score, entry.max_score)}, {state(entry)}.")
    upcoming = next_sentence(entries)
    facts.add(upcoming or FAREWELL, label="Next" if upcoming else "Complete")
    return facts.text(encoding)


def state(entry: Entry) -> str:
    """Where a stage stands, in two or three words."""
    if isinstance(entry, Ungraded):
        return "not graded"
    if is_complete(entry):
        return "complete"
    if all(exercise.status in NOT_BEGUN for exercise in entry.exercises):
        return "not started"
    done = sum(exercise.status == "passed" for exercise in entry.exercises)
    return f"{done} of {len(entry.exercises)} done"


def next_sentence(entries: Sequence[Entry]) -> str:
    """The one thing to do next in the course; empty when everything is done."""
    for entry in entries:
        if isinstance(entry, Ungraded):
            return f"{one_line(entry.reason)} Then run nox -s {entry.stage}."
        if not is_complete(entry):
            return _next_in(entry)
    return ""


def _next_in(entry: StageResult) -> str:
    exercise = first_unfinished(entry)
    if exercise is None:
        return f"run nox -s {entry.stage} again, because the grader itself failed there."
    folder = f"stages/{entry.folder}/" if entry.folder else ""
    line = "" if exercise.line is None else f":{exercise.line}"
    work = f"write {exercise.name} in {folder}{exercise.file}{line}, then run nox -s {entry.stage}."
    if state(entry) == "not started":
        return f"read {folder}README.md, {work}" if folder else work
    verb = "write" if exercise.status in NOT_BEGUN else "mend"
    return work.replace("write", verb, 1)


def _total(entries: Sequence[Entry]) -> str:
    earned = sum(entry.score for entry in entries if isinstance(entry, StageResult))
    return of_points(earned, sum(entry.max_score for entry in entries))


def _style(entry: Entry) -> str:
    if isinstance(entry, Ungraded):
        return "yellow"
    return "green" if is_complete(entry) else "dim" if state(entry) == "not started" else ""
