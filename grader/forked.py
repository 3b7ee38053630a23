"""Workers forked from a zygote: torch is imported once, a fresh process costs milliseconds."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from grader.links import Link, SocketLink, WorkerStopped
from grader.sandbox.hold import Held
from grader.wire import Reply, Request, Setup, WireError
from grader.zygote import END, JUDGE, MESSAGE, READY, WORKER, Settings

KEPT_ENVIRONMENT = (
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "TMPDIR",
    "SYSTEMROOT",
)
"""What a zygote may know of the environment; there are secrets in the rest."""

START_SECONDS = 120.0
CLOSE_SECONDS = 60.0
"""What a zygote may take to remove what submissions left in their scratch folders."""

RENEWAL_SECONDS = 1.0
"""What a worker may take to forget a submission: it has run, and may not want to."""

PACKAGE_PARENT = str(Path(__file__).resolve().parent.parent)
"""The folder that holds the package `grader`."""


class ZygoteFailed(Exception):
    """The zygote did not start or is gone. Ours, never charged to a submission."""


def environment() -> dict[str, str]:
    """The environment of zygotes, judges and workers: an allow-list, and one thread."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {"PATH": os.defpath, **kept, **threads, "PYTHONDONTWRITEBYTECODE": "1"}


def can_fork() -> bool:
    """Whether zygotes work here: Linux. Forking after torch is not safe on macOS, and Windows has no fork."""
    return sys.platform == "linux"


class Control:
    """One end of a control socket to a zygote."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._next = 0
        self._replies: dict[tuple[bytes, int], int] = {}

    def send(self, kind: bytes, number: int, fds: list[int]) -> None:
        """One message, with descriptors for the child."""
        try:
            socket.send_fds(self.socket, [MESSAGE.pack(kind, number, 0)], fds)
        except OSError:
            raise ZygoteFailed("the process that forks workers is gone") from None

    def number(self) -> int:
        """A number for the next child."""
        self._next += 1
        return self._next

    def reply(self, kind: bytes, number: int, seconds: float = START_SECONDS) -> int:
        """Waits for the reply to a message and gives its value."""
        while (kind, number) not in self._replies:
            ready, _, _ = select.select([self.socket], [], [], seconds)
            data = self.socket.recv(MESSAGE.size, socket.MSG_WAITALL) if ready else b""
            if len(data) < MESSAGE.size:
                raise ZygoteFailed("the process that forks workers does not answer")
            got, of, value = MESSAGE.unpack(data)
            self._replies[(got, of)] = value
        return self._replies.pop((kind, number))


class ZygoteProcess:
    """A zygote, exec'ed fresh. Starting it returns at once; `ready` waits for it."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008 - it is frozen
        self.settings = settings
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        program = (
            f"import sys; sys.path.insert(0, {PACKAGE_PARENT!r}); from grader.zygote import main; "
            f"sys.path.pop(0); main({theirs.fileno()}, {msgspec.json.encode(settings).decode()!r})"
        )
        # PRELOADED imports grader modules after the path is popped: the package is loaded, so its own path serves.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-c", program],
            pass_fds=[theirs.fileno()],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self.control = Control(mine)
        self._ready = False
        self._prepared: set[bytes] = set()
        self.judges = 0
        """How many were forked: from the second one on it pays to have their modules here."""

    def ready(self) -> None:
        """Waits until torch is imported; raises ZygoteFailed when it could not be."""
        if not self._ready:
            self.control.reply(READY, 0)
            self._ready = True

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def prepare(self, kind: bytes) -> None:
        """Does once, in the zygote, what every later fork is then spared."""
        if kind not in self._prepared:
            self.ready()
            number = self.control.number()
            self.control.send(kind, number, [])
            self.control.reply(kind, number)
            self._prepared.add(kind)

    def judge(self) -> tuple[socket.socket, int, int]:
        """Forks a judge; gives the channel to it, its number and its pid."""
        self.ready()
        self.judges += 1
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        control, far_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        number = self.control.number()
        self.control.send(JUDGE, number, [theirs.fileno(), control.fileno(), far_control.fileno()])
        for end in (theirs, control, far_control):
            end.close()
        return mine, number, self.control.reply(JUDGE, number)

    def end(self, number: int) -> int:
        """Ends a judge; gives its wait status."""
        self.control.send(END, number, [])
        return self.control.reply(END, number)

    def close(self) -> None:
        """Hangs up: the zygote kills what it forked and ends. One that still imports has forked nothing."""
        if not self._ready:
            self._process.kill()
        self.control.socket.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkedWorkers:
    """A pool that keeps one worker forked in advance."""

    def __init__(self, control: Control, import_seconds: float = 20.0) -> None:
        self._control = control
        self._import_seconds = import_seconds
        self._waiting: list[tuple[int, socket.socket, int]] = []
        self._held: Held | None = None

    def held(self) -> Held:
        """What holds the workers back, as the last one said before it ran anything of a submission."""
        if self._held is None:
            self.start(Setup({}, "cpu", 0)).close()
        assert self._held is not None
        return self._held

    def start(self, setup: Setup) -> Link:
        number, channel, output = self._waiting.pop() if self._waiting else self._order()
        pid = self._control.reply(WORKER, number)
        files = [setup.display.get(path, path) for path in setup.sources]
        link = SocketLink(channel, output, pid, files)
        try:
            self._held = link.ready(START_SECONDS)
            link.set_up(setup, self._import_seconds)
        except WorkerStopped as error:
            raise ZygoteFailed(f"a fresh worker did not take the submission: {error.reason}") from None
        self._waiting.append(self._order())
        return ForkedLink(link, self._control, number)

    def close(self) -> None:
        for _, channel, output in self._waiting:
            channel.close()
            os.close(output)
        self._waiting.clear()

    def _order(self) -> tuple[int, socket.socket, int]:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        read_end, write_end = os.pipe()
        number = self._control.number()
        self._control.send(WORKER, number, [theirs.fileno(), write_end])
        theirs.close()
        os.close(write_end)
        return number, mine, read_end


class ForkedLink:
    """A SocketLink whose process the zygote ends; says how a process ended that ended early."""

    renewable = True

    def __init__(self, link: SocketLink, control: Control, number: int) -> None:
        self._link = link
        self._control = control
        self._number = number
        self._ended = False

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        try:
            return self._link.ask(request, body, seconds)
        except WorkerStopped as stopped:
            if stopped.status != "crashed":
                raise
            self._ended = True
            self._control.send(END, self._number, [])
            status = self._control.reply(END, self._number)
            raise WorkerStopped("crashed", how_it_ended(status), stopped.where) from None

    def renew(self, setup: Setup) -> bool:
        try:
            self._link.set_up(setup, RENEWAL_SECONDS)
        except (WorkerStopped, WireError):
            return False
        return True

    def printed(self) -> str:
        return self._link.printed()

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._control.send(END, self._number, [])  # the answer is read when something else is waited for
        self._link.close()


def how_it_ended(status: int) -> str:
    """A sentence for a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"The process crashed ({name}) before it gave an answer."
    code = os.WEXITSTATUS(status)
    return f"The process ended early (exit code {code}) before it gave an answer."
