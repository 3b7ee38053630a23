"""The zygote: imports torch once, then forks judges and workers in milliseconds.

It is exec'ed fresh with a short environment and nothing secret in it, runs one thread, and holds no check, no answer
and no submission. It takes 17-byte messages with file descriptors; a fork inherits only the descriptors sent for it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time

import msgspec

from grader import huge_pages
from grader.sandbox import hold, kernel
from grader.scratch import remove

MESSAGE = struct.Struct(">cQq")
"""A letter, the child's number, and a value: the pid or the wait status in replies."""

WORKER, JUDGE, END, READY, OPTIMIZER, JUDGE_MODULES = b"w", b"j", b"e", b"r", b"o", b"m"

QUICK_SECONDS = 0.2
"""How long the zygote cleans up while judges wait for it."""

PRELOADED = (
    "torch",
    "torch.utils._python_dispatch",
    "torch.nn.attention.flex_attention",  # a name that courses forbid: to be replaced, it must be loaded
    "safetensors.torch",
    "msgspec",
    "jaxtyping",
    "grader.serve",
    "random",
    "resource",
)


class Settings(msgspec.Struct, frozen=True):
    """What a zygote is started with."""

    for_gpu: bool = False
    """Leaves device files reachable for the workers."""
    without: frozenset[str] = frozenset()
    """Parts of the sandbox to leave out, for tests."""


def main(control_fd: int, settings_text: str) -> None:
    """Serves until the driver hangs up."""
    settings = msgspec.json.decode(settings_text, type=Settings)
    become_subreaper()
    for name in PRELOADED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    # First calls of a process load and set up things: better once here than in every fork.
    torch.manual_seed(0)
    torch.ones(2, 3).mul(0.5).matmul(torch.ones(3, 2)).softmax(-1)
    hold.readable_paths()
    kernel.machine()
    gc.collect()
    gc.freeze()  # the children's collector must not touch, and so copy, every page
    Zygote(socket.socket(fileno=control_fd), settings).run()


class Zygote:
    """Forks on request; kills and reaps."""

    def __init__(self, driver: socket.socket, settings: Settings) -> None:
        self._driver = driver
        self._settings = settings
        self._scratch = tempfile.mkdtemp(prefix="grading-")
        self._controls: list[socket.socket] = [driver]
        self._children: dict[tuple[int, int], int] = {}
        """Pid by (control's descriptor, child's number)."""
        self._judges: dict[int, socket.socket] = {}
        """The zygote's end of a judge's control socket, by the judge's number."""
        self._cleaners: set[int] = set()
        self._reply(driver, READY, 0, os.getpid())

    def run(self) -> None:
        """The loop: one message at a time."""
        while True:
            ready, _, _ = select.select(self._controls, [], [])
            for control in ready:
                try:
                    data, fds, _, _ = socket.recv_fds(control, MESSAGE.size, 3)
                except OSError:
                    data, fds = b"", []
                if len(data) < MESSAGE.size:
                    self._hang_up(control)
                    continue
                kind, number, _ = MESSAGE.unpack(data)
                if kind == END:
                    self._end(control, number)
                elif kind in (OPTIMIZER, JUDGE_MODULES):
                    prepare(kind)
                    self._reply(control, kind, number, 0)
                else:
                    self._fork(control, kind, number, fds)

    def _fork(self, control: socket.socket, kind: bytes, number: int, fds: list[int]) -> None:
        scratch = os.path.join(self._scratch, f"{control.fileno()}-{number}")
        pid = fork()
        if pid == 0:
            start_child(kind, fds, scratch, self._settings)
        kept = None
        if kind == JUDGE:
            # The last descriptor is the zygote's own end of the judge's control socket.
            kept = socket.socket(fileno=fds.pop())
            self._controls.append(kept)
            self._judges[number] = kept
        for fd in fds:
            os.close(fd)
        self._children[(control.fileno(), number)] = pid
        self._reply(control, kind, number, pid)

    def _end(self, control: socket.socket, number: int) -> None:
        pid = self._children.pop((control.fileno(), number), None)
        status = kill_tree(pid) if pid is not None else 0
        judge_control = self._judges.pop(number, None) if control is self._driver else None
        if judge_control is not None:
            self._hang_up(judge_control)
        self._sweep()
        self._clean(os.path.join(self._scratch, f"{control.fileno()}-{number}"))
        self._reply(control, END, number, status)

    def _reply(self, control: socket.socket, kind: bytes, number: int, value: int) -> None:
        try:
            control.sendall(MESSAGE.pack(kind, number, value))
        except OSError:
            self._hang_up(control)

    def _hang_up(self, control: socket.socket) -> None:
        """A control socket was closed: its children go with it, and everything goes with the driver's."""
        if control not in self._controls:
            return
        mine = [key for key in self._children if control is self._driver or key[0] == control.fileno()]
        for key in mine:
            kill_tree(self._children.pop(key))
        self._sweep()
        for owner, number in mine:
            self._clean(os.path.join(self._scratch, f"{owner}-{number}"))
        if control is self._driver:
            for pid in self._cleaners:
                os.waitpid(pid, 0)
            remove(self._scratch)
            os._exit(0)
        self._controls.remove(control)
        control.close()

    def _clean(self, scratch: str) -> None:
        """Removes a scratch folder; one that holds much is moved away, and a process of its own removes it."""
        if remove(scratch, QUICK_SECONDS):
            return
        aside = f"{scratch}-aside"
        try:
            os.rename(scratch, aside)
        except OSError:  # another process was quicker, or an earlier one of that name is not gone yet
            remove(scratch)
            return
        pid = fork()
        if pid == 0:
            os.closerange(3, 1 << 16)
            remove(aside)
            os._exit(0)
        self._cleaners.add(pid)

    def _sweep(self) -> None:
        """Ends what a worker left behind: its orphans became children of the zygote."""
        self._cleaners = {pid for pid in self._cleaners if os.waitpid(pid, os.WNOHANG)[0] == 0}
        known = {*self._children.values(), *self._cleaners}
        for _ in range(100):
            orphans = [pid for pid in children_of_self() if pid not in known]
            if not orphans:
                return
            for pid in orphans:
                kill_tree(pid)


def fork() -> int:
    """os.fork, tried again for a while: the threads of a submission may have taken every process there is."""
    for _ in range(100):
        try:
            return os.fork()
        except OSError:
            time.sleep(0.1)
    return os.fork()


def prepare(kind: bytes) -> None:
    """Does once what every later fork is then spared."""
    if kind == OPTIMIZER:
        import torch

        # The first optimiser of a process imports much of torch and costs a second.
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    else:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        for name in (
            "pytest",
            "grader.judge",
            "grader.collect",
            "grader.runner",
            "tomllib" if sys.version_info >= (3, 11) else "tomli",
        ):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    if kind == JUDGE_MODULES:
        huge_pages.gather()  # takes as long as it saves on a stage, so only where several are graded


def start_child(kind: bytes, fds: list[int], scratch: str, settings: Settings) -> None:
    """In the fork: keep only the descriptors meant for it, then become a judge or a worker. Never returns."""
    try:
        os.setsid()
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if kind == JUDGE:
            os.close(fds.pop())
        keep = sorted(fds)
        for low, high in zip([2, *keep], [*keep, 1 << 16]):
            os.closerange(low + 1, high)
        if kind == JUDGE:
            from grader.judge import judge_process

            judge_process(socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1]))
        else:
            from grader.serve import serve

            serve(socket.socket(fileno=fds[0]), fds[1], scratch, settings.for_gpu, settings.without)
    except BaseException:
        import faulthandler
        import traceback

        traceback.print_exc()
        faulthandler.dump_traceback()
    finally:
        os._exit(71)


def kill_tree(pid: int) -> int:
    """Kills a child and its session; waits for it and gives its wait status."""
    # It may have ended by itself already: then the status says how.
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if done:
        return status
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def children_of_self() -> list[int]:
    """The pids of this process's children, where the kernel tells; zombies of no one are reaped elsewhere."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def become_subreaper() -> None:
    """Orphans of workers become children of the zygote (Linux), so that none escapes."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
