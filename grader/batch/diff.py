"""What publishing would change: grades as they would be, beside those that count."""

from __future__ import annotations

from grader.batch.fingerprint import Fingerprint
from grader.batch.store import Row, Store
from grader.course import Stage
from grader.gradebook import Grade
from grader.report.story import points
from grader.report.visible import one_line

MOST_CHECKS = 8
"""Checks that are named for one stage of one submission."""


class Comparing:
    """Collects the grades of a run and publishes none of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lines: list[str] = []
        self.changed: set[str] = set()
        self.new: set[str] = set()

    def take(self, submission: str, stage: Stage, grade: Grade, fingerprints: list[Fingerprint]) -> None:
        before = self._store.published(submission, stage.name)
        if before is None:
            self.new.add(submission)
            return
        old, keys = before
        if (old.state, old.score, old.max_score) == (grade.state, grade.score, grade.max_score):
            return
        self.changed.add(submission)
        self.lines.append(f"{one_line(submission)}, {stage.name}: {shown(old)} -> {shown(grade)}")
        self.lines += [f"  {line}" for line in self._why(old, keys, grade, fingerprints)]

    def _why(self, old: Grade, keys: list[str], grade: Grade, fingerprints: list[Fingerprint]) -> list[str]:
        """The checks whose result is another, each with the reason."""
        if grade.result is None or old.result is None:
            return [one_line(reason) for reason in (grade.reason or old.reason,) if reason]
        rows = self._store.rows(keys)
        lines = []
        for check, print in zip(grade.result.checks, fingerprints):
            row = rows.pop(check.id, None)
            if row is None:
                lines.append(f"{check.id}: {check.status}. The check is new.")
            elif (row.status, row.points) != (check.status, check.points):
                lines.append(f"{check.id}: {row.status} -> {check.status}. {self._cause(row, print)}")
            elif row.check_hash != print.check:
                lines.append(f"{check.id}: its points changed.")
        lines += [f"{id}: {row.status}. The check is gone." for id, row in rows.items()]
        hidden = len(lines) - MOST_CHECKS
        return lines if hidden <= 0 else [*lines[:MOST_CHECKS], f"and {hidden} checks more"]

    def _cause(self, row: Row, print: Fingerprint) -> str:
        """What changed between two results of one check."""
        causes = []
        if row.submission_hash != print.submission:
            causes.append("the submission changed")
        if row.check_hash != print.check:
            causes.append("the check changed")
        if row.environment != print.environment:
            causes.append(self._environments(row.environment, print.environment))
        text = ", and ".join(causes) or "it was tried again"
        return text[0].upper() + text[1:] + "."

    def _environments(self, old: str, new: str) -> str:
        before, after = self._store.environment(old), self._store.environment(new)
        parts = [
            f"{name} {before.get(name, '?')} -> {after.get(name, '?')}"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]
        return f"the environment changed ({', '.join(parts)})"

    def report(self) -> str:
        """The whole comparison, and how it is published."""
        lines = list(self.lines)
        if self.lines:
            lines.append("")
        lines.append(
            f"{len(self.changed)} {'submission' if len(self.changed) == 1 else 'submissions'} would change, "
            f"{len(self.new)} would be new. Nothing was published: the same command without --diff does that."
        )
        return "\n".join(lines) + "\n"


def shown(grade: Grade) -> str:
    """A grade in a word or two."""
    return grade.state if grade.score is None else points(grade.score, grade.max_score)
