"""What a report tells of a result, and in which order, before any view lays it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import PurePath

import msgspec

from grader.report.visible import one_line
from grader.result import CheckResult, Diagnosis, ExerciseResult, Place, StageResult, Status

CALM = ("todo", "waiting", "missing")
"""Nothing is wrong with these: they are not there yet."""

WORDS: dict[Status, str] = {
    "passed": "done",
    "failed": "not yet",
    "error": "an error",
    "missing": "not found",
    "todo": "not started",
    "waiting": "waiting",
    "timeout": "too slow",
    "memory": "out of memory",
    "output": "printed a flood",
    "crashed": "ended early",
    "denied": "not allowed",
    "forbidden": "ready-made",
    "tampered": "not accepted",
    "rejected": "not taken in",
    "grader_error": "our fault",
}

SENTENCES: dict[Status, str] = {
    "passed": "This holds.",
    "failed": "This does not hold yet.",
    "error": "It raised an error.",
    "missing": "It is not in the file yet.",
    "todo": "It is not started yet.",
    "waiting": "It waits for an earlier exercise.",
    "timeout": "It was stopped because it took too long.",
    "memory": "It was stopped because it used too much memory.",
    "output": "It was stopped because it printed too much.",
    "crashed": "It ended Python before it had answered.",
    "denied": "It asked the system for something that a submission may not do.",
    "forbidden": "It uses a ready-made layer that this exercise is about writing.",
    "tampered": "Its reply is not one that plain code of a submission sends.",
    "rejected": "The file was not taken in.",
    "grader_error": "The grader itself failed here. This is our fault and costs you nothing.",
}


def standing(exercise: ExerciseResult) -> str:
    """A word or two for where an exercise stands; what has earned points has been started."""
    begun = exercise.status == "todo" and exercise.points > 0
    return "not finished" if begun else WORDS[exercise.status]


@dataclass
class Problem:
    """A check that does not hold, and others that show the same."""

    check: CheckResult
    same: list[CheckResult] = field(default_factory=list)

    @property
    def key(self) -> Hashable:
        return _key(self.check)


@dataclass
class Section:
    """What is wrong with an exercise: the first problem is told in full, the further ones briefly."""

    exercises: list[ExerciseResult]
    problems: list[Problem]

    @property
    def concerns_a_file(self) -> bool:
        """Whether several exercises have one and the same trouble, such as a file that is no Python."""
        first = self.problems[0].check
        alone = len(self.problems) == 1 and first.diagnosis is None and first.status != "failed"
        return alone and len(self.exercises) > 1

    @property
    def title(self) -> str:
        return ", ".join(exercise.name for exercise in self.exercises)


def sections(result: StageResult) -> list[Section]:
    """One section for each exercise with a problem; exercises that show only the same one share it."""
    found: list[Section] = []
    for exercise in result.exercises:
        problems = _problems(checks_of(result, exercise.name))
        if not problems:
            continue
        earlier = next((section for section in found if _told_alike(section.problems[0], problems[0])), None)
        if earlier is not None and len(problems) == 1:
            earlier.exercises.append(exercise)
            earlier.problems[0].same += [problems[0].check, *problems[0].same]
        else:
            found.append(Section([exercise], problems))
    return found


def near(result: StageResult) -> StageResult:
    """The result with the stage's own files called by name alone: `attention.py` without the folder."""
    if not result.folder:
        return result
    return msgspec.structs.replace(
        result, checks=[_near_check(check, result.folder) for check in result.checks]
    )


def _near_check(check: CheckResult, folder: str) -> CheckResult:
    diagnosis = check.diagnosis
    if diagnosis is not None and diagnosis.place is not None:
        diagnosis = msgspec.structs.replace(diagnosis, place=_near_place(diagnosis.place, folder))
    traceback = [_near_place(place, folder) for place in check.traceback]
    return msgspec.structs.replace(check, diagnosis=diagnosis, traceback=traceback)


def _near_place(place: Place, folder: str) -> Place:
    return msgspec.structs.replace(place, file=place.file.removeprefix(f"{folder}/"))


def calm_remarks(result: StageResult) -> list[tuple[list[str], str]]:
    """The exercises that wait or were not found, and the sentence that says why; equal sentences once."""
    remarks: dict[str, list[str]] = {}
    for exercise in result.exercises:
        if exercise.status not in ("waiting", "missing"):
            continue
        checks = [check for check in checks_of(result, exercise.name) if check.status == exercise.status]
        sentence = seen(checks[0]) if checks else SENTENCES[exercise.status]
        remarks.setdefault(sentence, []).append(exercise.name)
    return [(names, sentence) for sentence, names in remarks.items()]


def checks_of(result: StageResult, exercise: str) -> list[CheckResult]:
    return [check for check in result.checks if check.exercise == exercise]


def seen(check: CheckResult) -> str:
    """The first sentence about a check: what was seen and what was expected."""
    if _finding_comes_first(check):
        return one_line(_parted(check.findings[0])[0])
    if check.diagnosis is not None:
        return one_line(check.diagnosis.seen)
    if check.status == "error" and check.error:
        return f"{check.exercise} raised {one_line(_parted(check.error)[0])}"
    return SENTENCES[check.status]


def more_findings(check: CheckResult) -> list[tuple[str, str]]:
    """What `seen` has not told: pairs of a sentence (empty where it was told) and its further lines."""
    findings = [_parted(finding) for finding in check.findings]
    if _finding_comes_first(check):
        findings[0] = ("", findings[0][1])
    headline, lines = _parted(check.error)
    mentioned = any(one_line(headline) in one_line(text) for text in [*check.findings, seen(check)])
    if check.error and not (mentioned and check.findings):
        findings.append(("" if mentioned else f"It raised {headline}", lines))
    return [(sentence, lines) for sentence, lines in findings if sentence or lines]


def _finding_comes_first(check: CheckResult) -> bool:
    """Whether the first finding says best what was seen: a general mistake does not know the values."""
    if not check.findings:
        return False
    return check.diagnosis is None or (check.status == "failed" and _is_general(check.diagnosis))


def _is_general(diagnosis: Diagnosis) -> bool:
    return diagnosis.code.startswith("general/")


def _parted(text: str) -> tuple[str, str]:
    """The first line, and the others."""
    headline, _, lines = text.strip("\n").partition("\n")
    return headline, lines if lines.strip() else ""


def place_of(check: CheckResult) -> Place | None:
    """The line to look at: the diagnosis's, else the innermost line of the learner's own traceback."""
    if check.diagnosis is not None and check.diagnosis.place is not None:
        return check.diagnosis.place
    return check.traceback[-1] if check.traceback else None


def first_unfinished(result: StageResult) -> ExerciseResult | None:
    """The exercise to work on: the first that is neither passed nor held up by a fault of ours."""
    return next((each for each in result.exercises if each.status not in ("passed", "grader_error")), None)


def is_complete(result: StageResult) -> bool:
    return all(exercise.status == "passed" for exercise in result.exercises)


def is_untouched(result: StageResult) -> bool:
    """Whether nothing of the learner's own stage has been begun, so that the lesson comes first."""
    begun = any(exercise.status not in CALM for exercise in result.exercises)
    return is_own(result) and bool(result.folder) and not begun


def is_own(result: StageResult) -> bool:
    """Whether the learner's own `stages` were graded, as the bare commands do, and not another folder."""
    return PurePath(result.submission).name == "stages"


def next_step(result: StageResult) -> str:
    """The one thing to do next, as a sentence without the command that grades again."""
    exercise = first_unfinished(result)
    if exercise is None:
        return (
            "" if is_complete(result) else "Grade again; if the fault stays, please report it to the course."
        )
    checks = [check for check in checks_of(result, exercise.name) if check.status != "passed"]
    lead = next((p.check for p in _problems(checks)), checks[0] if checks else None)
    if lead is not None and lead.next_step:
        return one_line(lead.next_step)
    if exercise.status in ("todo", "missing"):
        return f"{'Finish' if exercise.points else 'Write'} {exercise.name} in {where(exercise)}."
    place = place_of(lead) if lead is not None else None
    return f"Correct {exercise.name} in {at(place) if place is not None else where(exercise)}."


def where(exercise: ExerciseResult) -> str:
    return exercise.file if exercise.line is None else f"{exercise.file}:{exercise.line}"


def at(place: Place) -> str:
    return f"{one_line(place.file)}:{place.line}"


def stage_heading(stage: str, title: str) -> str:
    """'Stage 1: Attention' for the stage called `stage1`."""
    number = re.fullmatch(r"stage(\d+)", stage)
    return f"{f'Stage {number[1]}' if number else stage}: {title}"


def short_name(stage: str) -> str:
    """'1' for `stage1`: what the sessions `hint` and `demo` are called with."""
    return re.sub(r"^stage(?=\d+$)", "", stage)


def of_points(score: float, max_score: float) -> str:
    return f"{round(score, 2):g} of {round(max_score, 2):g} points"


def points(score: float, max_score: float) -> str:
    return f"{round(score, 2):g}/{round(max_score, 2):g}"


def share(score: float, max_score: float) -> float:
    return min(1.0, max(0.0, score / max_score)) if max_score > 0 else 0.0


def count(number: int, noun: str, plural: Callable[[str], str] = "{}s".format) -> str:
    return f"{number} {noun if number == 1 else plural(noun)}"


def _problems(checks: list[CheckResult]) -> list[Problem]:
    """The checks with a problem, grouped; the first that a known mistake explains comes first."""
    grouped: dict[Hashable, Problem] = {}
    for check in checks:
        if check.status == "passed" or check.status in CALM:
            continue
        known = grouped.get(_key(check))
        if known is None:
            grouped[_key(check)] = Problem(check)
        else:
            known.same.append(check)
    return sorted(grouped.values(), key=lambda problem: problem.check.diagnosis is None)


def _told_alike(one: Problem, other: Problem) -> bool:
    """Whether two exercises have the same trouble, at the same line."""
    return one.key == other.key and place_of(one.check) == place_of(other.check)


def _key(check: CheckResult) -> Hashable:
    """Equal for checks that show the same. A general mistake (a wrong shape ...) is one for each value."""
    if check.diagnosis is not None:
        code = check.diagnosis.code
        return (code, check.diagnosis.seen) if _is_general(check.diagnosis) else code
    if check.status == "error" and check.traceback:
        # The numbers in the message are those of the check; the line and the kind of error are the problem.
        return (check.status, check.error.partition(":")[0], check.traceback[-1])
    if not check.error and not check.findings:
        return (check.status, check.id if check.status == "failed" else "")
    return (check.status, check.error, *check.findings)
