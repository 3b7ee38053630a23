"""Grades on a Dask cluster that is there already: each stage of each submission goes to one of its workers.

Workers that vanish are replaced by others. What a worker answers counts only when its clone and packages are the same
as here, so the results are those of a run on this machine.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import msgspec

from grader.batch.executor import Executor
from grader.batch.remote import Answer, surroundings
from grader.batch.task import Task
from grader.errors import UsageError
from grader.job import Fault, Finished
from grader.result import CheckResult

TICK = 0.5
"""Seconds between two looks at the clock."""

AHEAD = 2
"""Stages that are sent for each thread of the cluster: one at work, one that waits for it."""

ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9a-f:.]+\]|[^\s:/]+):[0-9]+/?")
CONNECT_SECONDS = 10.0
WORKERS_SECONDS = 60.0
"""How long a cluster may have no worker at all."""

KEPT = "Every finished check is kept; the same command goes on from here."

NO_DASK = (
    "--scheduler needs Dask, which is not installed. "
    "Install it: python -m pip install -c constraints.txt distributed"
)


def there(job: bytes, wanted: dict[str, str]) -> tuple[str, bytes]:
    """Runs on a worker: its address, and the encoded Answer."""
    from distributed import get_worker

    from grader.batch.remote import grade

    return str(get_worker().address), grade(job, wanted)


# So it is sent whole, not as a name to import: the scheduler, which looks into what it hands on, needs no grader.
there.__module__ = "__main__"


class Cluster(Executor):
    """Sends stages to the workers of a scheduler and waits for their answers."""

    def __init__(
        self,
        address: str,
        on_check: Callable[[Task, CheckResult], None],
        on_end: Callable[[Task], None],
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises UsageError when no scheduler answers at the address."""
        super().__init__(on_check, on_end, on_tick)
        self._address = address
        self._client: Any = connected(address)
        self._running: dict[Any, Task] = {}
        self._wanted: dict[str, dict[str, str]] = {}
        """What each stage's results depend on here."""
        self._threads = 0
        self._looked = 0.0
        self._deserted: float | None = None
        """Since when there is no worker."""

    def run(self, tasks: Iterator[Task]) -> None:
        with self._client.as_current():
            self._run(tasks)

    def _run(self, tasks: Iterator[Task]) -> None:
        more = True
        while True:
            self._look_at_workers()
            room = max(1, AHEAD * self._threads)  # also without workers: what is known needs none
            while more and len(self._running) + len(self._again) < room:
                task = next(tasks, None)
                if task is None:
                    more = False
                else:
                    self._again.append(task)
            while self._again:
                self._send(self._again.popleft())
            if not self._running and not more:
                return
            self._wait()

    def close(self) -> None:
        try:
            self._client.cancel(list(self._running), force=True)
            self._client.close(timeout=5)
        except Exception:  # the scheduler is gone; nothing of ours is left there
            pass
        self._running.clear()

    def _look_at_workers(self) -> None:
        """Counts the cluster's threads now and then; a cluster without workers is waited for, for a while."""
        now = time.monotonic()
        if self._threads and now - self._looked < TICK:
            return
        self._looked = now
        try:
            self._threads = sum(self._client.nthreads().values())
        except Exception:
            raise self._gone() from None
        if self._threads:
            self._deserted = None
        elif self._deserted is None:
            self._deserted = now
        elif now - self._deserted > WORKERS_SECONDS:
            raise UsageError(
                f"The scheduler at {self._address} has no workers. Start some, as docs/cluster.md shows. {KEPT}"
            )

    def _send(self, task: Task) -> None:
        job = task.job()
        if job.stage not in self._wanted:
            self._wanted[job.stage] = surroundings(job)
        future = self._client.submit(there, msgspec.json.encode(job), self._wanted[job.stage], pure=False)
        self._running[future] = task

    def _wait(self) -> None:
        """Until a stage is answered, or a moment has passed."""
        from distributed import wait

        try:
            wait(list(self._running), timeout=TICK, return_when="FIRST_COMPLETED")
        except TimeoutError:
            pass
        except (OSError, CancelledError):
            raise self._gone() from None
        self._on_tick()
        for future in [future for future in self._running if future.done()]:
            self._read(future)

    def _read(self, future: Any) -> None:
        """An answer, or how there came to be none."""
        from distributed import KilledWorker

        task = self._running.pop(future)
        if future.status != "finished":
            if future.status != "error":
                raise self._gone()
            error = future.exception()
            if isinstance(error, KilledWorker):
                self._give_up(task, "the cluster's workers died again and again while they graded it")
            elif isinstance(error, ImportError):
                raise UsageError(
                    f"A worker of {self._address} cannot import the grader ({error}). Start the workers in a clone of "
                    "this repository, with its packages; docs/cluster.md shows how."
                )
            else:
                self._retry(task, f"a worker failed with {type(error).__name__}: {error}")
            return
        worker, encoded = future.result()
        answer = msgspec.json.decode(encoded, type=Answer)
        if answer.differences:
            raise UsageError(other(worker, answer.differences))
        for message in answer.messages:
            if isinstance(message, Fault):
                self._retry(task, message.reason)
                return
            if isinstance(message, Finished):
                self._finish(task, message)
                return
            self._take(task, message)
        self._retry(task, "the judge ended without a word")

    def _gone(self) -> UsageError:
        return UsageError(f"The scheduler at {self._address} does not answer any more. {KEPT}")


def connected(address: str) -> Any:
    """A client of a Dask scheduler; raises UsageError when there is none."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(NO_DASK) from None
    if not ADDRESS.fullmatch(address):
        raise UsageError(
            f"--scheduler {address}: this is no address such as tcp://10.0.0.5:8786. Write it like that."
        )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said here, in one line
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError):
        raise UsageError(
            f"No Dask scheduler answers at {address}. Start one, as docs/cluster.md shows, and give the address that "
            "it prints."
        ) from None


def other(worker: str, differences: dict[str, tuple[str, str]]) -> str:
    """What is said of a worker whose results would not be those of a run here."""
    listed = "; ".join(
        f"{name}: {found} there, {wanted} here" for name, (wanted, found) in differences.items()
    )
    return (
        f"The worker {worker} would grade otherwise than this machine ({listed}). Have the same commit there, and the "
        "packages of constraints.txt."
    )
