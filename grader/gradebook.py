"""What a class has come to: each submission, whose it is, and what became of each stage of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from grader.errors import UsageError
from grader.result import StageResult

State = Literal["graded", "ungradable", "grader error"]
"""Graded; not gradable, for a reason that lies with the submission; or not graded, for a reason that lies with us."""


class Learner(msgspec.Struct, frozen=True):
    """Whose submission it is, as far as the roster says."""

    submission: str
    """What it is called in the folder of submissions."""
    name: str = ""
    id: str = ""
    login: str = ""
    email: str = ""
    section: str = ""
    sis_id: str = ""
    """The number that the university's own system gives the learner, where a roster has two."""

    @property
    def called(self) -> str:
        """The learner's name, or what the submission is called."""
        return self.name or self.submission


class Grade(msgspec.Struct):
    """One stage of one submission. Only a graded stage has a score: the others are never a silent 0."""

    stage: str
    title: str
    state: State
    max_score: float
    reason: str = ""
    """Why it is not graded."""
    result: StageResult | None = None
    """There when checks were run, also where the grader failed at some of them."""

    @property
    def score(self) -> float | None:
        return self.result.score if self.state == "graded" and self.result is not None else None


class Entry(msgspec.Struct):
    """One submission with all its stages, in the order of the course."""

    learner: Learner
    grades: list[Grade]

    @property
    def state(self) -> State:
        """What the submission counts as."""
        return worst(grade.state for grade in self.grades)

    @property
    def score(self) -> float:
        return sum(grade.score or 0.0 for grade in self.grades)

    @property
    def max_score(self) -> float:
        return sum(grade.max_score for grade in self.grades)

    @property
    def reason(self) -> str:
        """Why something is not graded, each reason once."""
        return " ".join(dict.fromkeys(grade.reason for grade in self.grades if grade.reason))

    def grade(self, stage: str) -> Grade | None:
        """The grade of a stage, or None."""
        return next((grade for grade in self.grades if grade.stage == stage), None)


def worst(states: Iterable[State]) -> State:
    """What a submission counts as: ungradable only when none of its stages could be graded."""
    found = set(states)
    if "grader error" in found:
        return "grader error"
    return "graded" if "graded" in found else "ungradable"


class Book(msgspec.Struct):
    """What a report is made of: the entries, which can be read once, and title and points of each stage in them."""

    entries: Iterator[Entry]
    stages: dict[str, tuple[str, float]]
    is_class: bool
    """Whether it is a GRADES folder and not the results of one submission."""


@contextmanager
def opened(sources: list[Path]) -> Iterator[Book]:
    """A GRADES folder, or the files that `grade --json` wrote for one submission.

    Raises UsageError when there is nothing to read.
    """
    folders = [path for path in sources if path.is_dir()]
    if not folders:
        entry = entry_of_files(sources)
        stages = {grade.stage: (grade.title, grade.max_score) for grade in entry.grades}
        yield Book(iter([entry]), stages, False)
        return
    from grader.batch.store import Store

    if len(sources) > 1:
        raise UsageError("Name one GRADES folder, or several files that `grade --json` wrote.")
    with Store.reading(folders[0]) as store:
        yield Book(store.entries(), store.stages(), True)


def entry_of_files(files: Iterable[Path]) -> Entry:
    """The results of one submission as an entry."""
    results = []
    for path in files:
        try:
            results.append(msgspec.json.decode(path.read_bytes(), type=StageResult))
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read ({error.strerror}). Name a GRADES folder or a result of `grade --json`."
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not a result of `grade --json`: {error}.") from None
    named = {result.submission for result in results}
    if len(named) != 1:
        raise UsageError("The files are results of several submissions. Name those of one.")
    name = Path(named.pop()).name
    return Entry(Learner(name), [grade_of(result) for result in results])


def grade_of(result: StageResult) -> Grade:
    """A result as a grade: a fault of ours in any check leaves the stage without a score."""
    faults = [check for check in result.checks if check.status == "grader_error"]
    reason = ""
    if faults:
        first = faults[0].findings[0] if faults[0].findings else "The grader failed."
        reason = f"{len(faults)} of {len(result.checks)} checks could not be graded. {first}"
    return Grade(
        result.stage,
        result.title,
        "grader error" if faults else "graded",
        result.max_score,
        reason,
        result,
    )
