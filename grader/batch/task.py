"""One stage of one submission, and how much of it is graded."""

from __future__ import annotations

import msgspec

from grader.batch.fingerprint import Fingerprint
from grader.course import Stage
from grader.declared import Declared
from grader.driver import Run
from grader.gradebook import Grade, grade_of
from grader.job import Finished, Job
from grader.result import CheckResult


class Task:
    """A stage of a submission. `results` holds what is known, at first what an earlier run had finished."""

    def __init__(self, submission: str, stage: Stage, run: Run, fingerprints: dict[str, Fingerprint]) -> None:
        self.submission = submission
        self.stage = stage
        self.fingerprints = fingerprints
        self.results: dict[str, CheckResult] = {}
        self.end: Finished | None = None
        self.failures = 0
        self._run = run
        self._doubted: set[tuple[str, str]] = set()

    @property
    def keys(self) -> list[str]:
        """The keys of its checks' rows, in the order of the checks."""
        return [self.fingerprints[one.id].key for one in self._run.declared]

    @property
    def open(self) -> list[str]:
        """The ids of the checks that have no result that counts."""
        return [one.id for one in self.open_checks()]

    def checks(self) -> list[Declared]:
        """All its checks, in order."""
        return self._run.declared

    def open_checks(self) -> list[Declared]:
        return [one for one in self._run.declared if one.id not in self.results]

    def job(self) -> Job:
        """What a judge is asked for: the checks that are open."""
        return msgspec.structs.replace(self._run.job, only=self.open)

    def takes(self, result: CheckResult, unsure: tuple[str, ...]) -> bool:
        """Keeps a result and says that it counts. Of the `unsure` statuses that counts which comes a second time."""
        if result.status in unsure and (result.id, result.status) not in self._doubted:
            self._doubted.add((result.id, result.status))
            return False
        self.results[result.id] = result
        return True

    def grade(self, end: Finished) -> Grade:
        """The stage as it counts, once no check is open."""
        result = self._run.result(self.results, set(), end)
        result.submission = self.submission
        result.seconds = round(sum(check.seconds for check in result.checks), 3)
        return grade_of(result)
