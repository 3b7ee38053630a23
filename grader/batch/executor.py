"""What every way to grade many stages shares: whose results count, what is tried again, and what is given up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator

from grader.batch.task import Task
from grader.driver import lost
from grader.errors import UsageError
from grader.job import CheckDone, Finished, Message, Refused
from grader.result import CheckResult

MOST_FAILURES = 4
"""How often a stage is given to a judge that then fails, before the rest of its checks is a grader error."""

UNSURE = ("crashed", "grader_error")
"""What may have come from outside, such as the kernel short of memory, counts only when it happens again."""


class Executor(ABC):
    """Has stages graded. `on_check` gets each result that counts, `on_end` each stage that is done."""

    def __init__(
        self,
        on_check: Callable[[Task, CheckResult], None],
        on_end: Callable[[Task], None],
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_check = on_check
        self._on_end = on_end
        self._on_tick = on_tick
        self._again: deque[Task] = deque()

    @abstractmethod
    def run(self, tasks: Iterator[Task]) -> None:
        """Grades all tasks. Raises UsageError when nothing can be graded, such as without a sandbox."""

    @abstractmethod
    def close(self) -> None:
        """Ends what still runs; what was reported is kept."""

    def _take(self, task: Task, message: Message) -> None:
        if isinstance(message, Refused):
            raise UsageError(message.reason)
        if isinstance(message, CheckDone) and task.takes(message.result, UNSURE):
            self._on_check(task, message.result)

    def _finish(self, task: Task, end: Finished) -> None:
        """A judge has run all that it was asked for: the stage is done, unless something is to be tried again."""
        task.end = end
        if task.open:
            self._retry(task, "a check was not reported")
        else:
            self._on_end(task)

    def _retry(self, task: Task, reason: str) -> None:
        task.failures += 1
        if task.failures < MOST_FAILURES:
            self._again.append(task)
            return
        self._give_up(task, reason)

    def _give_up(self, task: Task, reason: str) -> None:
        """What is left of a stage is a grader error; the batch goes on."""
        for declared in task.open_checks():
            result = lost(declared)
            result.findings = [f"The grader failed here: {reason}."]
            task.results[declared.id] = result
            self._on_check(task, result)
        self._on_end(task)
