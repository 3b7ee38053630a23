"""Runs one check against a worker and gives its result.

A worker in which a check passed serves the next one too, with the submission imported anew: forking one costs more
than most checks do. What does not pass in such a worker is tried again in a fresh one, and only that counts. Where the
two disagree, the submission leaves something behind: then every check counts as it goes in a worker of its own.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grader.declared import Declared
from grader.draw import Draw
from grader.expect import Current
from grader.failure import CheckFailed, CheckFault
from grader.forked import ZygoteFailed
from grader.job import Job
from grader.links import Link, Workers, WorkerStopped, fresh_id
from grader.mistakes import catalogue
from grader.outline import outline
from grader.result import CheckResult
from grader.submission import Session, Submission
from grader.verdict import Verdicts
from grader.wire import Request, Setup, WireError

UNPACKING = re.compile(r"(not enough|too many) values to unpack \(expected (\d+)(?:, got (\d+))?")

WORTH_COMPILING = 200_000
"""Characters that all workers together would compile, from which on it is done once for all of them."""

SHARE_OF_TIME = 1 / 4
"""Of a check's time, for its try in a worker that is not fresh: one that never ends should not take twice as long."""

OVER_A_LIMIT = ("timeout", "memory", "output")


class Runner:
    """Everything that the checks of one job share."""

    def __init__(self, job: Job, workers: Workers, each_alone: bool = False) -> None:
        """`each_alone` gives every check a worker of its own, for whom nothing may be held back."""
        self._job = job
        self._workers = workers
        self.outlines = {path: outline(source) for path, source in job.sources.items()}
        self._verdicts = Verdicts(job, self.outlines, catalogue(Path(job.checks)))
        self._places = self._names_of_the_stage()
        self._code: dict[str, bytes] | None = None
        """What the sources compile to, once it is known."""
        self._kept: Link | None = None
        """The worker in which the last check passed."""
        self._kept_setup: Setup | None = None
        self._leaves_nothing = not each_alone
        """Whether no check passed alone that had not passed where others ran before."""
        self._held: dict[str, tuple[Declared, Callable[..., None]]] = {}
        """The checks that passed where others ran before, by id."""
        self._stuck: dict[str, CheckFailed] = {}
        """How the import of a file never ended: it is tried once, not once for every check."""

    def run(self, declared: Declared, function: Callable[..., None]) -> CheckResult:
        """The result of one check; raises nothing but what ends the grader itself."""
        began = time.perf_counter()
        try:
            result = self._verdicts.without_running(declared) or self._run(declared, function)
        except CheckFault as fault:
            result = self._verdicts.fault(declared, str(fault))
        result.seconds = round(time.perf_counter() - began, 4)
        return result

    def fault(self, declared: Declared, reason: str) -> CheckResult:
        """The result of a check that could not be run because of the grader."""
        return self._verdicts.fault(declared, reason)

    def is_held(self, result: CheckResult) -> bool:
        """Whether a result may still change: `settled` says how it counts."""
        return result.id in self._held

    def settled(self, held: list[CheckResult]) -> Iterator[CheckResult]:
        """The results that were held back, as they count, once all checks have run."""
        self.close()
        for result in held:
            yield result if self._leaves_nothing else self.run(*self._held[result.id])

    def close(self) -> None:
        """Ends the worker that was kept for a further check."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _run(self, declared: Declared, function: Callable[..., None]) -> CheckResult:
        path = self._job.exercises[declared.exercise]
        if path in self._stuck:
            return self._verdicts.failed(declared, self._stuck[path])
        setup = self._setup(declared.exercise)
        # What was taken out of torch for one exercise cannot be put back for the next.
        used = self._kept_setup is not None and self._kept_setup.forbidden == setup.forbidden
        used = used and not declared.seconds and self._kept is not None
        if used and (result := self._passed_where_others_ran(setup, declared, function)):
            self._held[declared.id] = declared, function
            return result
        self.close()
        try:
            link = self._workers.start(setup)
        except ZygoteFailed as error:
            raise CheckFault(str(error)) from None
        passed = False
        try:
            seconds = declared.seconds or self._job.seconds_per_check
            result = self._asked(link, declared, function, seconds)
            passed = result.status == "passed"
            self._leaves_nothing &= not (used and passed)
            return result
        finally:
            if passed and self._leaves_nothing and link.renewable:
                self._kept, self._kept_setup = link, setup
            else:
                link.close()

    def _passed_where_others_ran(
        self, setup: Setup, declared: Declared, function: Callable[..., None]
    ) -> CheckResult | None:
        """The result of a check that passes where the last one did; None where it does not, whatever the reason."""
        kept = self._kept
        if kept is None or not kept.renew(setup):
            return None
        stuck = dict(self._stuck)
        try:
            seconds = self._job.seconds_per_check * SHARE_OF_TIME
            result = self._asked(kept, declared, function, seconds)
        except CheckFault:
            return None
        finally:
            self._stuck = stuck  # an import may end well in a fresh worker
        return result if result.status == "passed" else None

    def _asked(
        self, link: Link, declared: Declared, function: Callable[..., None], seconds: float
    ) -> CheckResult:
        session = Session(link, self._places, self._job.folder, self._job.device, seconds)
        Current.session = session
        try:
            result = self._verdict(declared, function, session)
            result.output = session.printed() if result.status != "passed" else ""
            return result
        finally:
            Current.session = None

    def _setup(self, exercise: str) -> Setup:
        job = self._job
        if self._code is None:
            self._code = self._compiled()
        forbidden = job.forbidden.get(exercise, [])
        return Setup(job.sources, job.device, job.seed, job.display, forbidden, self._code)

    def _compiled(self) -> dict[str, bytes]:
        """What the sources compile to, where many workers would compile much; nothing where that does not end well.

        A worker of its own does it and then ends: nothing of the submission has run in it, so it tells the truth.
        """
        job = self._job
        checks = len(job.declared if job.only is None else job.only)
        if checks * sum(map(len, job.sources.values())) < WORTH_COMPILING:
            return {}
        try:
            link = self._workers.start(Setup(job.sources, job.device, job.seed, job.display))
            try:
                reply, _ = link.ask(Request(fresh_id(), "compile"), b"", job.seconds_per_check)
            finally:
                link.close()
        except (ZygoteFailed, WorkerStopped, WireError):
            return {}
        return reply.code

    def _verdict(self, declared: Declared, function: Callable[..., None], session: Session) -> CheckResult:
        from grader.worker import seed_torch

        draw = Draw(self._job.seed, declared.id, self._job.device)
        seed_torch(self._job.seed)
        available = {"submission": Submission(session), "draw": draw}
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        try:
            function(**{name: available[name] for name in names})
            session.finish()
            return self._verdicts.passed(declared)
        except CheckFailed as failure:
            if failure.status in OVER_A_LIMIT and failure.where and failure.where.function == "<module>":
                self._stuck[self._job.exercises[declared.exercise]] = failure
            return self._verdicts.failed(declared, failure)
        except CheckFault:
            raise
        except (ValueError, TypeError) as error:
            if (unpacking := wrong_number_of_values(error)) is not None:
                return self._verdicts.failed(declared, unpacking)
            return self._verdicts.fault(declared, described_error(error))
        except Exception as error:
            return self._verdicts.fault(declared, described_error(error))

    def _names_of_the_stage(self) -> dict[str, str]:
        """Every name a check may ask for: the exercises, and what else stands in the stage's files."""
        own = {name: path for name, path in self._job.exercises.items() if name in self._job.own}
        further: dict[str, str] = {}
        for path, found in self.outlines.items():
            if path.startswith(self._job.folder + "/"):
                further.update(dict.fromkeys(found.definitions, path))
        return {**further, **own}


def wrong_number_of_values(error: Exception) -> CheckFailed | None:
    """A check that unpacks what came back found another number of values."""
    match = UNPACKING.search(str(error))
    if match is None:
        return None
    got = "more" if match[1] == "too many" else match[3] or "fewer"
    return CheckFailed(
        f"{got} values came back, expected {match[2]}.",
        next_step="Return all of them, in the order of the docstring: `return first, second`.",
    )


def described_error(error: Exception) -> str:
    """An exception of a check and the line of the check that raised it."""
    place, traceback = "", sys.exc_info()[2]
    while traceback is not None:
        code: Any = traceback.tb_frame.f_code
        if "checks" in code.co_filename:
            place = f" at {code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return f"{type(error).__name__}: {error}{place}"
