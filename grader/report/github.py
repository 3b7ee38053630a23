"""A submission for GitHub: annotations on the learner's lines, a step summary, and the notices of Classroom.

Every line that is printed begins with a command of ours, and what a submission wrote stands within it, escaped: it can
neither begin a line nor end a value.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from grader.gradebook import Entry, Grade
from grader.report.feedback import told, total
from grader.report.markdown import escaped
from grader.report.story import of_points, place_of, sections, seen, stage_heading
from grader.report.visible import one_line, visible
from grader.result import Place, StageResult

MOST_SUMMARY = 900_000
"""Characters of a step summary; GitHub takes a mebibyte."""


def workflow_commands(entry: Entry) -> str:
    """The lines to print: what is wrong at which line, and the points."""
    lines = []
    for grade in entry.grades:
        heading = stage_heading(grade.stage, grade.title)
        if grade.state != "graded":
            lines.append(command("error", f"{one_line(grade.reason)}", title=f"{heading}: {grade.state}"))
        if grade.result is not None:
            lines += _problems(grade, grade.result)
    if entry.state == "graded":
        earned, possible = round(entry.score, 2), round(entry.max_score, 2)
        lines.append(command("notice", f"Points {earned:g}/{possible:g}", title="Autograding complete"))
        report = msgspec.json.encode({"totalPoints": number(earned), "maxPoints": number(possible)}).decode()
        lines.append(command("notice", report, title="Autograding report"))
    return "".join(line + "\n" for line in lines)


def summary(entry: Entry) -> str:
    """The step summary, in Markdown."""
    parts = [f"# {escaped(entry.learner.called)}: {total(entry)}\n"]
    for grade in entry.grades:
        heading = f"## {escaped(stage_heading(grade.stage, grade.title))}"
        if grade.score is None:
            parts.append(f"{heading}: {grade.state}\n\n{escaped(grade.reason)}\n")
        else:
            parts.append(f"{heading}: {of_points(grade.score, grade.max_score)}\n")
        if grade.result is not None:
            parts.append(told(grade.result))
    text = "\n".join(parts)
    return text if len(text) <= MOST_SUMMARY else text[:MOST_SUMMARY] + "\n\n(cut)\n"


def _problems(grade: Grade, result: StageResult) -> list[str]:
    """One annotation for each problem of each exercise, on the line to look at where that is known."""
    lines = []
    for section in sections(result):
        for problem in section.problems:
            check = problem.check
            title = check.diagnosis.name if check.diagnosis else check.title
            place = place_of(check)
            where = {} if place is None else {"file": file_of(result, place), "line": str(place.line)}
            text = seen(check)
            if check.diagnosis is not None and check.diagnosis.why:
                text += f"\n{one_line(check.diagnosis.why)}"
            level = "warning" if check.status == "grader_error" else "error"
            lines.append(command(level, text, **where, title=f"{check.exercise}: {one_line(title)}"))
    return lines


def file_of(result: StageResult, place: Place) -> str:
    """Where a file lies in the repository that is graded, so that GitHub finds the line."""
    submission = Path(result.submission)
    base = next(
        (base for base in (submission, submission / "stages") if (base / place.file).is_file()), submission
    )
    path = base / place.file
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def command(name: str, message: str, **properties: str) -> str:
    """A workflow command on one line. Values are escaped as GitHub's own toolkit does."""
    values = ",".join(f"{key}={property_value(value)}" for key, value in properties.items())
    return f"::{name} {values}::{data(visible(message))}"


def data(text: str) -> str:
    """A message: percent signs and line ends cannot be told from the end of the command otherwise."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_value(text: str) -> str:
    """The value of a property, which ends at a comma or colon."""
    return data(visible(text)).replace(":", "%3A").replace(",", "%2C")


def number(value: float) -> float | int:
    """A whole number where it is one."""
    return int(value) if value == int(value) else value
