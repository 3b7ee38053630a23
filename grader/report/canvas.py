"""The class as a file that Canvas imports into its gradebook (Instructure's "Import grades in the Gradebook")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grader.gradebook import Entry
from grader.report.csv import line
from grader.report.story import stage_heading

LEARNER = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POINTS_POSSIBLE = "    Points Possible"
"""Canvas knows the second line by these words, which its own export indents so."""


def render(entries: Iterable[Entry], stages: dict[str, tuple[str, float]]) -> Iterator[str]:
    """The lines of the file; `stages` gives title and points of each stage.

    Canvas knows a learner by one of the three ids, so who has none is left out. An empty cell changes nothing there.
    """
    names = [stage_heading(stage, title) for stage, (title, _) in stages.items()]
    yield line([*LEARNER, *names])
    yield POINTS_POSSIBLE + line(["", "", "", "", "", *(points for _, points in stages.values())])
    for entry in entries:
        learner = entry.learner
        if not (learner.id or learner.sis_id or learner.login):
            continue
        scores = [None if (grade := entry.grade(stage)) is None else grade.score for stage in stages]
        yield line([learner.called, learner.id, learner.sis_id, learner.login, learner.section, *scores])
