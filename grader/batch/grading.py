"""A run over the submissions of a class: what is known is taken from the store, the rest is graded and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from grader.batch import fingerprint
from grader.batch.archive import NotTaken
from grader.batch.executor import Executor
from grader.batch.fingerprint import Fingerprint
from grader.batch.intake import Submitted, opened
from grader.batch.pool import Pool
from grader.batch.progress import Progress
from grader.batch.store import Store
from grader.batch.task import Task
from grader.course import Course, Stage
from grader.declared import Declared, declared_checks
from grader.driver import Engine, Options, Run
from grader.errors import UsageError
from grader.gradebook import Grade, Learner
from grader.job import Finished
from grader.result import CheckResult

NOTHING = "Nothing was handed in."


class Outcomes(Protocol):
    """Where the grades of a run go: into the gradebook, or beside it to be compared."""

    def take(self, submission: str, stage: Stage, grade: Grade, fingerprints: list[Fingerprint]) -> None: ...


class StageChecks:
    """The checks of a stage, read once for all submissions."""

    def __init__(self, root: Path, course: Course, stage: Stage) -> None:
        checks = root / "stages" / stage.folder / "checks"
        self.stage = stage
        self.declared: list[Declared] = declared_checks(checks, stage.name)
        self.hashes = fingerprint.of_checks(root, checks, self.declared, stage, course)
        self.max_score = sum(one.points for one in self.declared)
        self._given: str | None = None

    def fingerprints(self, run: Run, environment: str) -> dict[str, Fingerprint]:
        """What the result of each check of one submission depends on."""
        submission = fingerprint.of_submission(run.job)
        if self._given is None:
            self._given = fingerprint.of_reference(run.job)
        return {
            id: Fingerprint(submission, fingerprint.digest(hash, self._given), environment)
            for id, hash in self.hashes.items()
        }


class Batch:
    """Grades submissions into a store. `outcomes` gets every stage of every submission, graded or not."""

    def __init__(
        self,
        root: Path,
        course: Course,
        stages: list[Stage],
        options: Options,
        store: Store,
        progress: Progress,
    ) -> None:
        self._root = root
        self._course = course
        self._options = options
        self._store = store
        self._progress = progress
        self._checks = [StageChecks(root, course, stage) for stage in stages]
        parts = fingerprint.environment_parts(options)
        self._environment = fingerprint.of_environment(parts)
        store.add_environment(self._environment, parts)
        self._end = known_end(store, self._environment)

    def run(
        self, submitted: list[Submitted], outcomes: Outcomes, jobs: int, work: Path, scheduler: str = ""
    ) -> None:
        """Grades all that was handed in: here, `jobs` stages at a time, or on the cluster of a scheduler.

        Ends early, with everything finished kept, when it is interrupted.
        """
        self._outcomes = outcomes
        executor = self._executor(jobs, scheduler)
        self._progress.started(len(submitted), len(self._checks))
        try:
            executor.run(self._tasks(submitted, work))
        finally:
            executor.close()
            self._progress.done()

    def _executor(self, jobs: int, scheduler: str) -> Executor:
        told = (self._keep, self._finish, self._progress.tick)
        if scheduler:
            from grader.batch.cluster import Cluster

            return Cluster(scheduler, *told)
        return Pool(Engine(self._root, self._course), self._options, jobs, *told)

    def leave_blank(self, learner: Learner, outcomes: Outcomes) -> None:
        """A learner of the roster who handed in nothing: not gradable, and no grade that was there is touched."""
        for checks in self._checks:
            if self._store.published(learner.submission, checks.stage.name) is None:
                outcomes.take(learner.submission, checks.stage, self._ungradable(checks, NOTHING), [])

    def _tasks(self, submitted: list[Submitted], work: Path) -> Iterator[Task]:
        """The stages that a judge is needed for, one after the other; a submission is read when its turn comes."""
        for one in submitted:
            for task in self._read(one, work):
                found = self._store.known(task.keys)
                for id, print in task.fingerprints.items():
                    if print.key in found:
                        task.results[id] = msgspec.structs.replace(found[print.key], id=id)
                self._progress.known(len(task.results))
                if task.open or self._end is None:
                    yield task
                else:
                    self._finish(task)

    def _read(self, submitted: Submitted, work: Path) -> list[Task]:
        """The stages of one submission that can be graded; the others are told to be ungradable."""
        tasks = []
        try:
            with opened(submitted, self._course, work) as base:
                for checks in self._checks:
                    try:
                        run = Run(
                            self._root, self._course, checks.stage, base, self._options, checks.declared
                        )
                    except UsageError as error:
                        self._refuse(submitted.name, checks, str(error).replace(str(base), submitted.name))
                        continue
                    prints = checks.fingerprints(run, self._environment)
                    tasks.append(Task(submitted.name, checks.stage, run, prints))
        except NotTaken as error:
            for checks in self._checks:
                self._refuse(submitted.name, checks, str(error))
        return tasks

    def _keep(self, task: Task, result: CheckResult) -> None:
        """A check is finished: from here on no kill can take it away."""
        print = task.fingerprints[result.id]
        self._store.add_check(print.key, print, result)
        self._progress.checked(result)

    def _finish(self, task: Task) -> None:
        if task.end is not None and task.end != self._end:
            self._end = task.end
            self._store.set_meta(end_name(self._environment), msgspec.json.encode(task.end).decode())
        grade = task.grade(self._end or Finished({}, ""))
        self._outcomes.take(
            task.submission, task.stage, grade, [task.fingerprints[check.id] for check in task.checks()]
        )
        self._progress.graded(task.submission, grade)

    def _refuse(self, submission: str, checks: StageChecks, reason: str) -> None:
        grade = self._ungradable(checks, reason)
        self._outcomes.take(submission, checks.stage, grade, [])
        self._progress.graded(submission, grade)

    def _ungradable(self, checks: StageChecks, reason: str) -> Grade:
        return Grade(checks.stage.name, checks.stage.title, "ungradable", checks.max_score, reason)


class Publishing:
    """Makes every grade count as soon as it is known."""

    def __init__(self, store: Store, course: Course) -> None:
        self._store = store
        self._positions = {stage.name: index for index, stage in enumerate(course.stages)}

    def take(self, submission: str, stage: Stage, grade: Grade, fingerprints: list[Fingerprint]) -> None:
        keys = [print.key for print in fingerprints]
        before = self._store.published(submission, stage.name)
        if before is not None:
            same = (before[0].state, before[0].reason, before[0].score) == (
                grade.state,
                grade.reason,
                grade.score,
            )
            if same and before[1] == keys:
                return
        self._store.publish(submission, self._positions[stage.name], grade, keys)


def end_name(environment: str) -> str:
    """Under which name the store keeps what a judge said last in an environment: versions and the sandbox."""
    return f"judge of {environment}"


def known_end(store: Store, environment: str) -> Finished | None:
    """What a judge said last in this environment."""
    text = store.meta(end_name(environment))
    return msgspec.json.decode(text, type=Finished) if text else None
