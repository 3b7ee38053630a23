"""Puts the gradebooks of shards together. Rows are keyed by what they depend on, so equal keys are equal results."""

from __future__ import annotations

from pathlib import Path

from grader.batch.store import Store
from grader.errors import UsageError
from grader.report.visible import one_line

SHARED = ("course", "seed", "device", "earlier")
"""What must be the same for all submissions of a class."""


def merge(target: Store, sources: list[Path]) -> int:
    """Takes over everything from other gradebooks; gives the number of submissions there now.

    Raises UsageError, and changes nothing, when they were not graded alike or disagree about a submission.
    """
    with_grades = {
        name: target.folder for name in target.submissions() if target.entry(name).state != "ungradable"
    }
    shared = {name: target.meta(name) for name in SHARED}
    for folder in sources:
        with Store.reading(folder) as source:
            for name in SHARED:
                value = source.meta(name)
                if shared[name] and value != shared[name]:
                    raise UsageError(
                        f"{folder} was graded with {name} {value!r}, the others with {shared[name]!r}. "
                        "Grade all shards alike: pass the same --seed to each."
                    )
                shared[name] = value
            for name in source.submissions():
                other = with_grades.get(name)
                if other is not None and not agree(other, folder, name):
                    raise UsageError(
                        f"{one_line(name)} has other grades in {other} than in {folder}. "
                        "Grade it anew into one of them."
                    )
                if source.entry(name).state != "ungradable":
                    with_grades[name] = folder
    for folder in sources:
        target.take_over(folder)
    return len(target.submissions())


def agree(one: Path, other: Path, submission: str) -> bool:
    """Whether two gradebooks say the same of a submission."""
    with Store.reading(one) as first, Store.reading(other) as second:
        left, right = first.entry(submission), second.entry(submission)
        stages = {grade.stage for grade in left.grades} & {grade.stage for grade in right.grades}
        if right.state == "ungradable":
            return True
        return all(
            first.published_keys(submission, name) == second.published_keys(submission, name)
            for name in stages
        )
