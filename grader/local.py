"""The submission in the judge's own process, for --debug: breakpoints and prints work; nothing holds it back."""

from __future__ import annotations

from grader.links import Link
from grader.sandbox.hold import Held
from grader.wire import Reply, Request, Setup
from grader.worker import Worker


class LocalLink:
    """A Worker without a process: the same requests, the same replies."""

    renewable = False  # a new one costs the same

    def __init__(self, setup: Setup) -> None:
        self._worker = Worker(setup)

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        reply, reply_body = self._worker.answer(request, body)
        if reply.error is not None and reply.error.type in ("KeyboardInterrupt", "BdbQuit"):
            raise KeyboardInterrupt  # the person at the debugger wants to leave
        return reply, reply_body

    def renew(self, setup: Setup) -> bool:
        return False

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


class LocalWorkers:
    """Imports the submission anew for each check."""

    def held(self) -> Held:
        return Held(0, False, False, "--debug: the submission runs in the grader's own process")

    def start(self, setup: Setup) -> Link:
        return LocalLink(setup)

    def close(self) -> None:
        pass
