"""The driver: prepares a job, lets a judge run it, and makes the result from what the judge reports.

It imports no torch: the zygote does that meanwhile.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from grader.conversation import MessageStream
from grader.course import Course, Stage
from grader.declared import Declared, declared_checks
from grader.errors import GraderFailed as GraderFailed
from grader.errors import UsageError
from grader.job import CheckDone, Deselected, Fault, Finished, Job, Message, PassedSoFar, Refused
from grader.outline import outline
from grader.result import CheckResult, ExerciseResult, StageResult, Status
from grader.sources import Earlier, Taken, take

if TYPE_CHECKING:
    from grader.forked import ZygoteProcess

WORST_FIRST: tuple[Status, ...] = (
    "grader_error",
    "tampered",
    "forbidden",
    "rejected",
    "denied",
    "crashed",
    "timeout",
    "memory",
    "output",
    "error",
    "failed",
    "missing",
    "todo",
    "waiting",
)


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def started(self, total: int) -> None: ...

    def finished(self, result: CheckResult) -> None: ...

    def done(self) -> None: ...


class Silent:
    """Nobody wants to know."""

    def started(self, total: int) -> None:
        pass

    def finished(self, result: CheckResult) -> None:
        pass

    def done(self) -> None:
        pass


class Options(msgspec.Struct, frozen=True):
    """How to grade."""

    device: str = "cpu"
    seed: int = 0
    earlier: Earlier = "own"
    selection: str = ""
    debug: bool = False
    require_sandbox: bool = False


class Run:
    """One stage of one submission: the job it makes, and the result from what is reported."""

    def __init__(
        self,
        root: Path,
        course: Course,
        stage: Stage,
        submission: Path,
        options: Options,
        declared: list[Declared] | None = None,
    ) -> None:
        """`declared` spares reading the checks again where many submissions are graded."""
        self._began = time.perf_counter()
        self._course, self._stage, self._submission, self._options = course, stage, submission, options
        self._taken = take(root, course, stage, submission, options.earlier)
        checks = root / "stages" / stage.folder / "checks"
        self.declared = declared_checks(checks, stage.name) if declared is None else declared
        check_declarations(stage, self.declared)
        self.job = self._job(checks)

    def _job(self, checks: Path) -> Job:
        exercises: dict[str, str] = {}
        for one in self._course.stages:
            exercises.update({exercise.name: f"{one.folder}/{exercise.file}" for exercise in one.exercises})
            if one.name == self._stage.name:
                break
        stage, options, taken = self._stage, self._options, self._taken
        return Job(
            stage=stage.name,
            folder=stage.folder,
            checks=str(checks),
            sources=taken.sources | probes_of(checks, stage.folder),
            display=taken.display if options.debug else {},
            exercises=exercises,
            own=[exercise.name for exercise in stage.exercises],
            declared=self.declared,
            earlier=options.earlier,
            device=options.device,
            seed=options.seed,
            seconds_per_check=stage.seconds_per_check,
            selection=options.selection,
            forbidden={
                exercise.name: [
                    name
                    for name in (*self._course.forbidden, *exercise.forbidden)
                    if name not in exercise.allowed
                ]
                for exercise in stage.exercises
            },
            optimizers=stage.optimizers,
            require_sandbox=options.require_sandbox,
        )

    def result(self, results: dict[str, CheckResult], left_out: set[str], end: Finished) -> StageResult:
        """Every declared check counts, also one that nobody reported; raises UsageError when -k left none."""
        stage, options = self._stage, self._options
        kept = [one for one in self.declared if one.id not in left_out]
        if options.selection and not kept:
            raise UsageError(
                f"-k {options.selection!r} matches no check of {stage.name}. Names: {listed(self.declared)}."
            )
        checks = [results.get(one.id) or lost(one) for one in kept]
        return StageResult(
            course=self._course.title,
            stage=stage.name,
            title=stage.title,
            submission=str(self._submission),
            device=options.device,
            seed=options.seed,
            earlier=options.earlier,
            selection=options.selection,
            versions=end.versions,
            sandbox=end.sandbox,
            score=sum(check.points for check in checks),
            max_score=sum(one.points for one in kept),
            seconds=round(time.perf_counter() - self._began, 3),
            exercises=exercise_results(stage, checks, self._taken),
            checks=checks,
            notes=self._taken.notes,
            folder=stage.folder,
        )


class Engine:
    """Grades stages of submissions; keeps one zygote warm between them."""

    def __init__(self, root: Path, course: Course, zygote: ZygoteProcess | None = None) -> None:
        self.root = root
        self.course = course
        self._zygote = zygote

    def zygote(self, device: str = "cpu") -> ZygoteProcess:
        """The zygote, started if there is none; only where workers can be forked."""
        self.warm_up(device)
        assert self._zygote is not None
        return self._zygote

    def warm_up(self, device: str = "cpu") -> None:
        """Starts importing torch in the background, where workers can be forked."""
        from grader.forked import ZygoteProcess, can_fork
        from grader.zygote import Settings

        for_gpu = device != "cpu"
        if self._zygote is not None and (self._zygote.settings.for_gpu != for_gpu or self._zygote.ended()):
            self.close()
        if self._zygote is None and can_fork():
            self._zygote = ZygoteProcess(Settings(for_gpu))

    def grade(
        self, stage: Stage, submission: Path, options: Options, progress: Progress | None = None
    ) -> StageResult:
        """The result of one stage. Raises UsageError (exit 2) and GraderFailed (exit 3)."""
        progress = progress or Silent()
        run = Run(self.root, self.course, stage, submission, options)
        progress.started(len(run.declared))
        try:
            results, left_out, end = self._collect(run.job, options, progress)
        except GraderFailed:
            self.close()  # the next stage gets a fresh zygote
            raise
        finally:
            progress.done()
        return run.result(results, left_out, end)

    def close(self) -> None:
        """Ends the zygote and everything it forked."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _collect(
        self, job: Job, options: Options, progress: Progress
    ) -> tuple[dict[str, CheckResult], set[str], Finished]:
        results: dict[str, CheckResult] = {}
        left_out: set[str] = set()
        shown: set[str] = set()
        for message in self._messages(job, options):
            if isinstance(message, CheckDone):
                results[message.result.id] = message.result
                if message.result.id not in shown:
                    progress.finished(message.result)
            elif isinstance(message, PassedSoFar):
                shown.add(message.result.id)
                progress.finished(message.result)
            elif isinstance(message, Deselected):
                left_out.update(message.ids)
            elif isinstance(message, Refused):
                raise UsageError(message.reason)
            elif isinstance(message, Fault):
                raise GraderFailed(message.reason)
            else:
                return results, left_out, message
        raise GraderFailed("the judge ended without a word")

    def _messages(self, job: Job, options: Options) -> list[Message] | MessageStream:
        from grader.forked import can_fork

        if options.debug or not can_fork():
            return in_this_process(job, options.debug)
        return MessageStream(self.zygote(options.device), job)


def in_this_process(job: Job, debug: bool) -> list[Message]:
    """Runs the judge here: for --debug with the submission in this process too, else with spawned workers."""
    from grader.judge import judge
    from grader.links import Workers
    from grader.local import LocalWorkers
    from grader.spawned import SpawnedWorkers

    messages: list[Message] = []
    workers: Workers = LocalWorkers() if debug else SpawnedWorkers(job.device != "cpu")
    try:
        judge(job, workers, messages.append)
    finally:
        workers.close()
    return messages


def probes_of(checks: Path, folder: str) -> dict[str, str]:
    """The stage's probes.py: tools that checks put beside a submission, such as a toy model. They hold no answer."""
    path = checks / "probes.py"
    return {f"{folder}/probes.py": path.read_text(encoding="utf-8")} if path.is_file() else {}


def check_declarations(stage: Stage, declared: list[Declared]) -> None:
    """Every check belongs to an exercise of the stage; raises GraderFailed otherwise."""
    names = {exercise.name for exercise in stage.exercises}
    for one in declared:
        if one.exercise not in names:
            raise GraderFailed(
                f"{one.file}: {one.function} checks {one.exercise!r}, which course.toml does not list"
            )
    if not declared:
        raise GraderFailed(f"stages/{stage.folder}/checks declares no check")


def lost(declared: Declared) -> CheckResult:
    """The result of a check that no judge reported."""
    return CheckResult(
        declared.id,
        declared.exercise,
        declared.title,
        "grader_error",
        0.0,
        declared.points,
        declared.hidden,
        findings=["The grader failed here: the check was not reported."],
        next_step="This is not your mistake. Please report it.",
    )


def exercise_results(stage: Stage, checks: list[CheckResult], taken: Taken) -> list[ExerciseResult]:
    """Where each exercise stands: passed when all its checks passed, else its worst status."""
    outlines = {
        path: outline(source) for path, source in taken.sources.items() if path.startswith(stage.folder + "/")
    }
    found = []
    for exercise in stage.exercises:
        mine = [check for check in checks if check.exercise == exercise.name]
        if not mine:
            continue
        statuses = {check.status for check in mine}
        status: Status = next((one for one in WORST_FIRST if one in statuses), "passed")
        there = outlines.get(f"{stage.folder}/{exercise.file}")
        definition = there.definitions.get(exercise.name) if there else None
        found.append(
            ExerciseResult(
                exercise.name,
                exercise.file,
                definition.line if definition else None,
                status,
                sum(check.points for check in mine),
                sum(check.max_points for check in mine),
            )
        )
    return found


def listed(declared: list[Declared]) -> str:
    """A few names, for a message."""
    names = [one.function.removeprefix("test_") for one in declared]
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def exit_code(results: list[StageResult]) -> int:
    """0 everything passed, 1 something did not, 3 the grader failed."""
    statuses = {check.status for result in results for check in result.checks}
    if "grader_error" in statuses:
        return 3
    return 0 if statuses <= {"passed"} else 1
