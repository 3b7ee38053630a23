"""The page of a class: learners and stages, what each stage shows of the class, and everybody's feedback."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from grader.gradebook import Book, Entry, Grade
from grader.report.html import feedback
from grader.report.html.figures import Figures, duration, percent
from grader.report.kinds import Hidden
from grader.report.story import count, share, short_name, stage_heading
from grader.report.visible import one_line
from grader.report.withheld import for_learner

HERE = Path(__file__).parent
MOST_FREQUENT = 8
"""So many mistakes of a stage are shown at once; the others open on demand."""


@dataclass(frozen=True)
class Cell:
    """A learner's score in a stage; where there is none, the state and why."""

    score: float | None
    share: float
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A learner, a cell for each stage of the class, and the feedback."""

    number: int
    name: str
    details: str
    """Submission and login where they say more than the name."""
    section: str
    found_by: str
    """What a search looks through."""
    state: str
    cells: list[Cell]
    total: Cell
    feedback: Markup


def render(book: Book, hidden: Hidden) -> Iterator[str]:
    """The page in pieces. The feedback tells of hidden checks what `hidden` lets learners see; the figures tell all."""
    figures = {name: Figures(name, one_line(title), points) for name, (title, points) in book.stages.items()}
    rows = []
    course = ""
    for number, entry in enumerate(book.entries, start=1):
        for grade in entry.grades:
            if (
                grade.stage in figures
            ):  # one that a batch is grading just now may come later than the list of stages
                figures[grade.stage].add(number, grade)
            course = course or (one_line(grade.result.course) if grade.result else "")
        rows.append(row_of(number, entry, list(figures), hidden))
    script = (HERE / "script.js").read_text(encoding="utf-8")
    yield from (
        environment()
        .get_template("page.html.j2")
        .generate(
            course=course,
            rows=rows,
            figures=list(figures.values()),
            possible=sum(one.max_score for one in figures.values()),
            states=[
                (state, number)
                for state in ("graded", "ungradable", "grader error")
                if (number := sum(row.state == state for row in rows))
            ],
            has_sections=any(row.section for row in rows),
            names={row.number: row.name for row in rows},
            hidden=hidden.value,
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
            most_frequent=MOST_FREQUENT,
        )
    )


def row_of(number: int, entry: Entry, stages: list[str], hidden: Hidden) -> Row:
    """A learner as the page shows them."""
    learner = entry.learner
    name, submission, login, identity, email, section = (
        one_line(text)
        for text in (
            learner.called,
            learner.submission,
            learner.login,
            learner.id,
            learner.email,
            learner.section,
        )
    )
    return Row(
        number,
        name,
        ", ".join(dict.fromkeys(text for text in (submission, login) if text and text != name)),
        section,
        " ".join(text for text in (name, submission, login, identity, email, section, entry.state) if text),
        entry.state,
        [cell_of(entry.grade(stage)) for stage in stages],
        total_of(entry),
        feedback.render(for_learner(entry, hidden)),
    )


def cell_of(grade: Grade | None) -> Cell:
    if grade is None:
        return Cell(None, 0.0, "not handed in")
    return Cell(grade.score, share(grade.score or 0.0, grade.max_score), grade.state, one_line(grade.reason))


def total_of(entry: Entry) -> Cell:
    """The points of all stages; none where one of them could not be graded through a fault of ours."""
    graded = entry.state == "graded"
    return Cell(entry.score if graded else None, share(entry.score, entry.max_score), entry.state)


def environment() -> jinja2.Environment:
    """Every text is escaped, whatever the template forgets."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number_text, "duration": duration, "prose": prose}
    made.globals |= {
        "percent": percent,
        "count": count,
        "heading": stage_heading,
        "short_name": short_name,
    }
    return made


def number_text(value: float) -> str:
    """'12.5': two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def prose(text: str) -> Markup:
    """A sentence of the grader: what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts)
    )
