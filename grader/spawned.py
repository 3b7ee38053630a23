"""Workers where there is no fork (macOS, Windows): one fresh interpreter per submission, set up anew for each check."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile

from grader.forked import PACKAGE_PARENT, START_SECONDS, ZygoteFailed, environment
from grader.links import Link, SocketLink, WorkerStopped
from grader.sandbox.hold import Held
from grader.wire import Reply, Request, Setup, WireError

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from grader.serve import serve
sys.path.pop(0)
import os, socket
if sys.platform == "win32":
    end = socket.fromshare(sys.stdin.buffer.read({share}))
else:
    end = socket.socket(fileno={fd})
end.sendall(b"r")
serve(end, None, {scratch!r}, {for_gpu})
"""


class SpawnedWorkers:
    """Keeps one interpreter; replaces it when it ended or was stopped."""

    def __init__(self, for_gpu: bool = False) -> None:
        self._for_gpu = for_gpu
        self._scratch = tempfile.mkdtemp(prefix="grading-")
        self._held: Held | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._link: SocketLink | None = None
        self._forbidden: list[str] = []
        """What was taken out of torch in the interpreter; it cannot be put back."""

    def start(self, setup: Setup) -> Link:
        files = [setup.display.get(path, path) for path in setup.sources]
        if self._link is not None and self._forbidden != setup.forbidden:
            self._stop()
        if self._link is None:
            self._launch(files)
        assert self._link is not None
        self._forbidden = setup.forbidden
        try:
            self._link.set_up(setup, START_SECONDS)
        except (WorkerStopped, WireError):
            self._stop()
            self._launch(files)
            self._link.set_up(setup, START_SECONDS)
        return SpawnedLink(self._link, self)

    def held(self) -> Held:
        """What holds the worker back, as it said before it ran anything of a submission."""
        if self._held is None:
            self.start(Setup({}, "cpu", 0)).close()
        assert self._held is not None
        return self._held

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def _launch(self, files: list[str]) -> None:
        mine, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        on_windows = sys.platform == "win32"
        program = PROGRAM.format(
            root=PACKAGE_PARENT, fd=theirs.fileno(), share=372, scratch=self._scratch, for_gpu=self._for_gpu
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-c", program],
            pass_fds=() if on_windows else [theirs.fileno()],
            stdin=subprocess.PIPE if on_windows else subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            env=environment(),
            start_new_session=not on_windows,
        )
        if on_windows:
            assert self._process.stdin is not None
            self._process.stdin.write(theirs.share(self._process.pid))  # type: ignore[attr-defined,unused-ignore]
            self._process.stdin.close()
        theirs.close()
        os.close(write_end)
        mine.settimeout(START_SECONDS)
        if mine.recv(1) != b"r":
            raise ZygoteFailed("a fresh worker did not start")
        self._link = SocketLink(mine, read_end, self._process.pid, files)
        self._held = self._link.ready(START_SECONDS)


class SpawnedLink:
    """A link that is used again for the next check unless it broke."""

    renewable = False  # `SpawnedWorkers.start` does it

    def __init__(self, link: SocketLink, workers: SpawnedWorkers) -> None:
        self._link = link
        self._workers = workers

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        try:
            return self._link.ask(request, body, seconds)
        except WorkerStopped:
            self._broken = True
            raise

    def renew(self, setup: Setup) -> bool:
        return False

    def printed(self) -> str:
        return self._link.printed()

    def close(self) -> None:
        if getattr(self, "_broken", False):
            self._workers._stop()
