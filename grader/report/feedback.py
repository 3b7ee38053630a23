"""What a learner gets to read, as Markdown: where each stage stands, and what to mend first."""

from __future__ import annotations

from grader.gradebook import Entry, Grade
from grader.report.markdown import code, escaped, exercise_table, fenced, prose
from grader.report.page import Look, Page
from grader.report.story import (
    Problem,
    Section,
    at,
    calm_remarks,
    count,
    is_complete,
    more_findings,
    near,
    next_step,
    of_points,
    place_of,
    sections,
    seen,
    stage_heading,
)
from grader.report.values import lay_values
from grader.result import CheckResult, StageResult

MOST_PRINTED = 12
MOST_FRAMES = 5


def render(entry: Entry) -> str:
    """The feedback on all stages of a submission."""
    course = next((grade.result.course for grade in entry.grades if grade.result), "Feedback")
    parts = [f"# {escaped(course)}\n", f"{escaped(entry.learner.called)}: {total(entry)}.\n"]
    for grade in entry.grades:
        parts.append(stage(grade))
    return "\n".join(parts)


def total(entry: Entry) -> str:
    """The points of a submission, and what is missing in them."""
    text = of_points(entry.score, entry.max_score)
    open_ones = [grade for grade in entry.grades if grade.score is None]
    return text if not open_ones else f"{text}, with {count(len(open_ones), 'stage')} not graded"


def stage(grade: Grade) -> str:
    """The feedback on one stage."""
    heading = f"## {escaped(stage_heading(grade.stage, grade.title))}"
    if grade.result is None:
        return f"{heading}\n\nNot graded. {escaped(grade.reason)}\n"
    if grade.score is None:
        heading += "\n\nNot graded: the grader itself failed. This is our fault and costs you nothing."
    else:
        heading += f": {of_points(grade.score, grade.max_score)}"
    return f"{heading}\n\n{told(grade.result)}"


def told(result: StageResult) -> str:
    """The exercises, and what is to mend in each."""
    result = near(result)
    parts = [exercise_table(result)]
    parts += [f"Note: {escaped(note)}\n" for note in result.notes]
    parts += [
        f"{', '.join(map(code, names))}: {prose(sentence)}\n" for names, sentence in calm_remarks(result)
    ]
    parts += [_section(section) for section in sections(result)]
    if not is_complete(result):
        parts.append(f"**Next:** {prose(next_step(result))}\n")
    return "\n".join(parts)


def _section(section: Section) -> str:
    first, *further = section.problems
    parts = [f"### {', '.join(code(exercise.name) for exercise in section.exercises)}\n"]
    parts += _check(first.check)
    if section.concerns_a_file:
        parts.append(f"{count(1 + len(first.same), 'check')} cannot run before that.\n")
        return "\n".join(parts)
    parts.append(f"What must hold: {prose(first.check.title)}\n")
    if first.same:
        parts.append("The same shows in:\n\n" + "".join(f"- {prose(check.title)}\n" for check in first.same))
    if further:
        parts.append("Also not yet:\n\n" + "".join(map(_briefly, further)))
    return "\n".join(parts)


def _check(check: CheckResult) -> list[str]:
    """What was seen, why it matters, where to look, and the values."""
    parts = [f"{prose(seen(check))}\n"]
    for sentence, lines in more_findings(check):
        parts.append(f"{prose(sentence)}\n" if sentence else "")
        parts.append(fenced(lines) if lines else "")
    if check.diagnosis is not None and check.diagnosis.why:
        parts.append(f"**Why it matters:** {prose(check.diagnosis.why)}\n")
    place = place_of(check)
    if place is not None:
        hint = f", {prose(check.diagnosis.look_at)}" if check.diagnosis and check.diagnosis.look_at else ""
        parts.append(f"**Look at** {code(at(place))}{hint}\n")
        parts.append(fenced(place.text, "python") if place.text else "")
    elif check.diagnosis is not None and check.diagnosis.look_at:
        parts.append(f"**Look at** {prose(check.diagnosis.look_at)}\n")
    if check.detail is not None:
        page = Page(Look())
        lay_values(page, check.detail, indent=0)
        parts.append(fenced(page.text()))
    if len(check.traceback) > 1:
        frames = [f"{at(frame)}  {frame.text}" for frame in check.traceback[-MOST_FRAMES:]]
        parts.append("Your lines that led there:\n\n" + fenced("\n".join(frames)))
    if check.output.strip():
        printed = check.output.strip("\n").split("\n")
        more = "" if len(printed) <= MOST_PRINTED else f"\n({len(printed) - MOST_PRINTED} further lines)"
        parts.append("It printed:\n\n" + fenced("\n".join(printed[:MOST_PRINTED]) + more))
    return [part for part in parts if part]


def _briefly(problem: Problem) -> str:
    place = place_of(problem.check)
    where = f" ({code(at(place))})" if place else ""
    return f"- {prose(problem.check.title)} {prose(seen(problem.check))}{where}\n"
