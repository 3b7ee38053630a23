"""The class as JSON Lines: one line for each stage of each submission, with the whole result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from grader.gradebook import Entry
from grader.report.json import without_surrogates


def render(entries: Iterable[Entry]) -> Iterator[str]:
    """The lines of the file."""
    for entry in entries:
        learner = msgspec.to_builtins(entry.learner)
        for grade in entry.grades:
            described = {
                "learner": learner,
                "stage": grade.stage,
                "state": grade.state,
                "reason": grade.reason,
                "score": grade.score,
                "max_score": grade.max_score,
                "result": msgspec.to_builtins(grade.result),
            }
            yield msgspec.json.encode(without_surrogates(described)).decode() + "\n"
