"""The report with one fact a line, in words, for screen readers and for `grep`."""

from __future__ import annotations

from typing import TextIO

from grader.report.story import (
    Problem,
    Section,
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
from grader.report.values import excerpt, pairs, place_in_tensor, shapes
from grader.report.visible import in_encoding, in_words, one_line, visible, without_commands
from grader.result import CheckResult, Comparison, Place, StageResult

MOST_VALUES = 4
MOST_FRAMES = 4
MOST_PRINTED = 12


class Facts:
    """Collects facts, one a line. What a submission wrote follows a label, so it cannot pass for a fact."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, fact: str, label: str = "") -> None:
        """A fact in the report's own words; mathematical signs are written out."""
        text = in_words(one_line(fact))
        if not text:
            return
        self._lines.append(f"{label}: {text}" if label else text)

    def quote(self, label: str, text: str) -> None:
        """Somebody else's text, as it is, line by line."""
        for line in visible(text).split("\n"):
            if line.strip():
                self._lines.append(f"{label}: {line.strip()}")

    def text(self, encoding: str = "utf-8") -> str:
        return in_encoding(without_commands("".join(f"{line}\n" for line in self._lines)), encoding)


def print_report(result: StageResult, file: TextIO, next_stage: str = "") -> None:
    """Write the report to `file`."""
    file.write(render(result, file.encoding or "ascii", next_stage))
    file.flush()


def render(result: StageResult, encoding: str = "utf-8", next_stage: str = "") -> str:
    """The whole report as text. `next_stage` is what comes after this stage, where something does."""
    result = near(result)
    facts = Facts()
    facts.add(f"{stage_heading(result.stage, result.title)}. {of_points(result.score, result.max_score)}.")
    for exercise in result.exercises:
        earned = of_points(exercise.points, exercise.max_points)
        facts.add(f"Exercise {exercise.name}: {standing(exercise)}, {earned}.")
    if result.selection:
        facts.add(f"Only the checks that match -k {result.selection} were run: the points are not a grade.")
    for note in result.notes:
        facts.quote("Note", note)
    for names, sentence in calm_remarks(result):
        facts.add(sentence, label=", ".join(names))
    for section in sections(result):
        _tell_section(facts, section)
    if is_complete(result):
        onward = f" Then go on with nox -s {next_stage}." if next_stage else ""
        facts.add(f"Complete. To see your code at work: nox -s demo{short_name(result.stage)}.{onward}")
    else:
        facts.add(next_step(result), label="Next")
        if is_untouched(result):
            facts.add(f"stages/{result.folder}/README.md", label="The lesson")
        if is_own(result):
            facts.add(f"nox -s {result.stage}", label="To grade again")
            facts.add(f"nox -s hint -- {short_name(result.stage)}", label="For a hint")
    facts.add(f"Graded in {result.seconds:.1f} seconds on {result.device} with seed {result.seed}.")
    return facts.text(encoding)


def _tell_section(facts: Facts, section: Section) -> None:
    first, *further = section.problems
    check = first.check
    facts.add(f"{section.title}.", label="Our fault" if check.status == "grader_error" else "To mend")
    facts.add(seen(check), label="Seen")
    for sentence, lines in more_findings(check):
        facts.add(sentence, label="Also seen")
        facts.quote("Listed", lines)
    if check.diagnosis is not None:
        facts.add(check.diagnosis.why, label="Why it matters")
        facts.add(check.diagnosis.look_at, label="Where to look")
    place = place_of(check)
    if place is not None:
        _tell_place(facts, "Line to look at", place)
    if check.detail is not None:
        _tell_values(facts, check.detail)
    _tell_frames(facts, check)
    _tell_printed(facts, check.output)
    if section.concerns_a_file:
        facts.add(f"{count(1 + len(first.same), 'check')} cannot run before that.")
        return
    facts.add(check.title, label="What must hold")
    facts.add(f"Check {check.id}: {of_points(check.points, check.max_points)}.")
    for other in first.same:
        facts.add(other.title, label="The same shows in")
    for problem in further:
        _tell_briefly(facts, problem)


def _tell_briefly(facts: Facts, problem: Problem) -> None:
    facts.add(seen(problem.check), label="Also not yet")
    for check in [problem.check, *problem.same]:
        facts.add(check.title, label="What must hold there")


def _tell_frames(facts: Facts, check: CheckResult) -> None:
    """The learner's own lines, outermost first; without a diagnosis the last one has been told already."""
    outer = check.traceback[:-1]
    if len(outer) > MOST_FRAMES:
        facts.add(f"{count(len(outer) - MOST_FRAMES, 'earlier line')}.", label="Not shown")
    for frame in outer[-MOST_FRAMES:]:
        _tell_place(facts, "Called from", frame)
    if check.traceback and check.diagnosis is not None:
        _tell_place(facts, "Raised in", check.traceback[-1])


def _tell_printed(facts: Facts, output: str) -> None:
    lines = visible(output).rstrip().split("\n")
    facts.quote("Printed", "\n".join(lines[:MOST_PRINTED]))
    if len(lines) > MOST_PRINTED:
        facts.add(f"{count(len(lines) - MOST_PRINTED, 'further printed line')}.", label="Not shown")


def _tell_place(facts: Facts, label: str, place: Place) -> None:
    where = f"{one_line(place.file)} line {place.line}"
    facts.quote(label, f"{where}: {one_line(place.text)}" if place.text else where)


def _tell_values(facts: Facts, detail: Comparison) -> None:
    described = ", ".join(part for part in (place_in_tensor(detail), shapes(detail)) if part)
    facts.add(f"{described}.", label="Values")
    if detail.largest_difference is not None:
        facts.add(f"{detail.largest_difference:.3g}.", label="Largest difference")
    for sentence in pairs(excerpt(detail))[:MOST_VALUES]:
        facts.add(f"{sentence}.", label="Value")
