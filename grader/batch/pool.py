"""Grades many stages at a time: one zygote has torch imported, a judge is forked for each stage of each submission.

One thread waits for all judges at once. What a judge reports is handed on at once; what it did not report, because it
or the zygote was killed, is given to another.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

import msgspec

from grader.batch.executor import MOST_FAILURES, Executor
from grader.batch.task import Task
from grader.conversation import Conversation
from grader.driver import Engine, Options, in_this_process
from grader.errors import GraderFailed
from grader.forked import ZygoteFailed, can_fork
from grader.job import Fault, Finished
from grader.result import CheckResult
from grader.wire import WireError

TICK = 0.5
"""Seconds between two looks at the clock."""

FRAME_SECONDS = 60.0
"""What a judge may take for one message once it has begun it."""


class Pool(Executor):
    """Up to `jobs` judges at work."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        jobs: int,
        on_check: Callable[[Task, CheckResult], None],
        on_end: Callable[[Task], None],
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(on_check, on_end, on_tick)
        self._engine = engine
        self._options = options
        self._jobs = jobs
        self._running: dict[Conversation, Task] = {}

    def run(self, tasks: Iterator[Task]) -> None:
        if not can_fork():
            self._run_here(tasks)
            return
        more = True
        while True:
            while more and len(self._running) + len(self._again) < self._jobs:
                task = next(tasks, None)
                if task is None:
                    more = False
                else:
                    self._again.append(task)
            while self._again and len(self._running) < self._jobs:
                self._start(self._again.popleft())
            if not self._running:
                if not more and not self._again:
                    return
                continue
            self._wait()

    def close(self) -> None:
        self._running.clear()
        self._engine.close()

    def _start(self, task: Task) -> None:
        try:
            zygote = self._engine.zygote(self._options.device)
            conversation = Conversation(zygote, task.job())
        except ZygoteFailed as error:
            self._again.appendleft(task)
            self._replace_zygote(str(error))
            return
        conversation.channel.settimeout(FRAME_SECONDS)
        self._running[conversation] = task
        try:
            conversation.open()
        except OSError:
            self._failed(conversation, "the judge ended before it had its job")

    def _wait(self) -> None:
        by_channel = {conversation.channel: conversation for conversation in self._running}
        ready, _, _ = select.select(list(by_channel), [], [], TICK)
        self._on_tick()
        for channel in ready:
            conversation = by_channel[channel]
            if conversation in self._running:
                self._read(conversation)
        now = time.monotonic()
        for conversation in [one for one in self._running if one.deadline < now]:
            if conversation in self._running:
                self._failed(conversation, "the judge did not end in time")

    def _read(self, conversation: Conversation) -> None:
        try:
            message = conversation.message()
        except (EOFError, OSError, WireError, msgspec.MsgspecError):
            self._failed(conversation, "the judge ended without a word")
            return
        task = self._running[conversation]
        if isinstance(message, Fault):
            self._failed(conversation, message.reason)
        elif isinstance(message, Finished):
            self._end(conversation)
            self._finish(task, message)
        else:
            self._take(task, message)

    def _failed(self, conversation: Conversation, reason: str) -> None:
        """A judge is gone: another one takes what is left."""
        task = self._running[conversation]
        self._end(conversation)
        self._retry(task, reason)

    def _end(self, conversation: Conversation) -> None:
        """Ends a judge and what it had forked."""
        del self._running[conversation]
        try:
            conversation.close()
        except ZygoteFailed as error:
            self._replace_zygote(str(error))

    def _replace_zygote(self, reason: str) -> None:
        """The zygote is gone, and all judges with it: the next one takes over, and none of the stages is lost."""
        tasks = list(self._running.values())
        for conversation in self._running:
            conversation.channel.close()
        self._running.clear()
        self._engine.close()
        if self._again and not tasks:
            self._again[0].failures += 1  # it may be this stage that ends zygotes
            if self._again[0].failures >= MOST_FAILURES:
                self._give_up(self._again.popleft(), reason)
        for task in tasks:
            self._retry(task, reason)

    def _run_here(self, tasks: Iterator[Task]) -> None:
        """Where there is no fork: one stage after the other, with spawned workers."""
        for task in tasks:
            try:
                while task.open:
                    for message in in_this_process(task.job(), False):
                        if isinstance(message, Fault):
                            raise GraderFailed(message.reason)
                        if isinstance(message, Finished):
                            task.end = message
                        else:
                            self._take(task, message)
            except (GraderFailed, ZygoteFailed) as error:
                self._give_up(task, str(error))
                continue
            self._on_end(task)
