"""The report in a terminal: where each exercise stands, then what to mend, the diagnosis first."""

from __future__ import annotations

import textwrap
from typing import Literal, TextIO

from grader.report.page import Look, Page, look_of
from grader.report.rows import Row, lay_rows
from grader.report.story import (
    CALM,
    Problem,
    Section,
    at,
    calm_remarks,
    count,
    is_complete,
    is_own,
    is_untouched,
    more_findings,
    near,
    next_step,
    of_points,
    place_of,
    sections,
    seen,
    short_name,
    stage_heading,
    standing,
)
from grader.report.values import lay_values
from grader.report.visible import one_line
from grader.result import CheckResult, Diagnosis, ExerciseResult, StageResult, Status

Details = Literal["all", "first"]
"""Whether every exercise with a problem is told in full, or only the one that is worked on."""

MOST_FRAMES = 5
MOST_PRINTED = 12
MOST_BRIEF = 6

MARKS = {"passed": ("✓", "green"), "todo": ("·", "dim"), "waiting": ("·", "dim"), "missing": ("·", "dim")}
OTHER_MARK = ("✗", "red")


def prepare() -> None:
    """Import what a report needs, while something slower goes on. Calling it changes nothing else."""
    Page(Look()).line("")


def print_report(result: StageResult, file: TextIO, details: Details = "all", next_stage: str = "") -> None:
    """Write the report to `file` in the look that suits it."""
    file.write(render(result, look_of(file), details, next_stage))
    file.flush()


def render(result: StageResult, look: Look, details: Details = "all", next_stage: str = "") -> str:
    """The whole report as text. `next_stage` is what comes after this stage, where something does."""
    result = near(result)
    page = Page(look)
    page.heading(stage_heading(result.stage, result.title), of_points(result.score, result.max_score))
    page.blank()
    _lay_exercises(page, result.exercises)
    _lay_notes(page, result)
    told = sections(result)
    for section in told if details == "all" else told[:1]:
        _lay_section(page, section)
    if details == "first" and len(told) > 1:
        names = ", ".join(section.title for section in told[1:])
        page.blank()
        page.paragraph(f"After that: {names}.", indent=2)
    _lay_ending(page, result, next_stage)
    return page.text()


def tell(check: CheckResult, look: Look = Look()) -> str:  # noqa: B008 - it is frozen
    """One check that does not hold, for a report that shows each check by itself."""
    page = Page(look)
    _lay_diagnosis(page, check)
    if check.detail is not None:
        page.blank()
        lay_values(page, check.detail, indent=2)
    _lay_frames(page, check)
    _lay_printed(page, check)
    if check.next_step:
        page.blank()
        page.paragraph(("Next: ", "bold"), one_line(check.next_step), indent=2, hang=2)
    return textwrap.dedent(page.text()).strip("\n") + "\n"


def _lay_exercises(page: Page, exercises: list[ExerciseResult]) -> None:
    rows = []
    for exercise in exercises:
        mark, style = MARKS.get(exercise.status, OTHER_MARK)
        shown = mark if page.look.shapes else ""
        rows.append(
            Row(shown, exercise.name, exercise.points, exercise.max_points, standing(exercise), style)
        )
    lay_rows(page, rows)


def _lay_notes(page: Page, result: StageResult) -> None:
    if result.selection:
        selection = one_line(result.selection)
        page.blank()
        page.paragraph(
            f"Only the checks that match -k {selection} were run: the points are not a grade.", indent=2
        )
    for note in result.notes:
        page.blank()
        page.paragraph("Note: ", one_line(note.partition("\n")[0]), indent=2, hang=2)
        if note.partition("\n")[2].strip():
            page.quote(note.partition("\n")[2].strip("\n"), indent=4)
    remarks = calm_remarks(result)
    if remarks:
        page.blank()
    for names, sentence in remarks:
        page.paragraph((", ".join(names), "bold"), f": {sentence}", indent=2, hang=2)


def _lay_section(page: Page, section: Section) -> None:
    first, *further = section.problems
    page.blank()
    page.paragraph((section.title, "bold"))
    page.blank()
    _lay_diagnosis(page, first.check)
    if first.check.detail is not None:
        page.blank()
        lay_values(page, first.check.detail, indent=2)
    _lay_frames(page, first.check)
    _lay_printed(page, first.check)
    page.blank()
    if section.concerns_a_file:
        number = count(1 + len(first.same), "check")
        page.paragraph(
            f"{number} of {count(len(section.exercises), 'exercise')} cannot run before that.", indent=2
        )
        return
    page.paragraph(("What must hold: ", "dim"), one_line(first.check.title), indent=2)
    page.paragraph((_price(first.check), "dim"), indent=2)
    _lay_further(page, first, further)


def _lay_diagnosis(page: Page, check: CheckResult) -> None:
    """What was seen, why it matters, where to look; then further findings."""
    page.paragraph((seen(check), _style(check.status)), indent=2)
    for sentence, lines in more_findings(check):
        if sentence:
            page.paragraph(one_line(sentence), indent=2, hang=2)
        if lines:
            page.quote(lines, indent=4)
    if check.diagnosis is not None:
        _lay_reason(page, check.diagnosis)
    place = place_of(check)
    if place is not None and (check.diagnosis is not None or len(check.traceback) == 1):
        hint = f", {one_line(check.diagnosis.look_at)}" if check.diagnosis and check.diagnosis.look_at else ""
        page.blank()
        end = "" if hint.endswith("?") else ":" if place.text else "."
        page.paragraph("Look at ", (at(place), "bold cyan"), hint, end, indent=2)
        if place.text:
            page.blank()
            page.quote(place.text, indent=4, bar=f"{place.line} | ")
    elif check.diagnosis is not None and check.diagnosis.look_at:
        page.blank()
        end = "" if check.diagnosis.look_at.endswith("?") else "."
        page.paragraph(f"Look at {one_line(check.diagnosis.look_at)}{end}", indent=2)


def _lay_reason(page: Page, diagnosis: Diagnosis) -> None:
    if diagnosis.why:
        page.blank()
        page.paragraph(("Why it matters: ", "dim"), one_line(diagnosis.why), indent=2)


def _lay_frames(page: Page, check: CheckResult) -> None:
    """The learner's own lines that led to the error, innermost last. A single one was told already."""
    if not check.traceback or (len(check.traceback) == 1 and check.diagnosis is None):
        return
    page.blank()
    page.paragraph("Your lines that led there, the last one is where it happened:", indent=2)
    left_out = len(check.traceback) - MOST_FRAMES
    if left_out > 0:
        page.paragraph(f"({count(left_out, 'earlier line')} left out)", indent=4)
    for place in check.traceback[-MOST_FRAMES:]:
        page.paragraph((at(place), "bold cyan"), indent=4)
        page.quote(place.text, indent=6)


def _lay_printed(page: Page, check: CheckResult) -> None:
    lines = check.output.rstrip().split("\n") if check.output.strip() else []
    if not lines:
        return
    page.blank()
    page.paragraph("It printed:", indent=2)
    page.quote("\n".join(lines[:MOST_PRINTED]), indent=4)
    if len(lines) > MOST_PRINTED:
        page.paragraph(f"({count(len(lines) - MOST_PRINTED, 'further line')} not shown)", indent=4)


def _lay_further(page: Page, first: Problem, further: list[Problem]) -> None:
    if first.same:
        page.blank()
        page.paragraph(
            f"{count(len(first.same), 'further check')} {_show(len(first.same))} the same:", indent=2
        )
        _lay_titles(page, first.same)
    if further:
        page.blank()
        page.paragraph("Also not yet:", indent=2)
    for problem in further[:MOST_BRIEF]:
        check = problem.check
        place = place_of(check)
        page.paragraph("- ", seen(check), f" ({at(place)})" if place else "", indent=2, hang=2)
        _lay_titles(page, [check, *problem.same])
    if len(further) > MOST_BRIEF:
        page.paragraph(f"- and {len(further) - MOST_BRIEF} more", indent=2)


def _lay_titles(page: Page, checks: list[CheckResult]) -> None:
    for check in checks[:MOST_BRIEF]:
        page.paragraph(("- " + one_line(check.title), "dim"), indent=4, hang=2)
    if len(checks) > MOST_BRIEF:
        page.paragraph((f"- and {len(checks) - MOST_BRIEF} more", "dim"), indent=4)


def _lay_ending(page: Page, result: StageResult, next_stage: str) -> None:
    page.blank()
    if is_complete(result):
        demo = f"nox -s demo{short_name(result.stage)} shows your code at work"
        onward = f", nox -s {next_stage} goes on" if next_stage else ""
        page.paragraph(("Complete. ", "bold green"), f"Next: {demo}{onward}.")
    else:
        page.paragraph(("Next: ", "bold"), next_step(result), hang=2)
        if is_untouched(result):
            page.paragraph((f"The lesson: stages/{result.folder}/README.md", "dim"))
        if is_own(result):
            again = f"Grade again: nox -s {result.stage}. Stuck? nox -s hint -- {short_name(result.stage)}"
            page.paragraph((again, "dim"))
    seconds = f"{result.seconds:.1f} s on {one_line(result.device)}, seed {result.seed}"
    page.paragraph((f"Graded in {seconds}.", "dim"))


def _price(check: CheckResult) -> str:
    return f"Check {check.id}, {of_points(check.points, check.max_points)}."


def _style(status: Status) -> str:
    return "" if status in CALM else "yellow" if status == "grader_error" else "bold red"


def _show(number: int) -> str:
    return "shows" if number == 1 else "show"
