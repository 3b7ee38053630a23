"""Puts the sandbox on, tries it before any code of a submission runs, and says what holds."""

from __future__ import annotations

import functools
import os
import site
import socket
import sys
import sysconfig
from pathlib import Path

import msgspec

from grader.sandbox import kernel, landlock, seccomp

SYSTEM_FILES = (
    "/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types",
    "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/kernel/osrelease",
    "/sys/devices/system/cpu",
)  # fmt: skip
"""What Python, the C library and torch read. None of it is anybody's home or secret."""

WRITABLE_DEVICES = ("/dev/null",)

DEVICE_FILES = ("/dev", "/proc", "/sys")
"""What a GPU's driver needs besides; the report says so."""

LOWEST_LANDLOCK = 4
"""From this version on files and TCP are both handled; below it the sandbox is called partial."""


class Held(msgspec.Struct, frozen=True):
    """What holds a worker back."""

    landlock: int
    """The Landlock version; 0 when it does not hold."""
    seccomp: bool
    devices: bool
    """Whether device files were left reachable for a GPU."""
    problem: str = ""
    """Why something does not hold."""

    @property
    def level(self) -> str:
        """'full', 'partial' or 'none'."""
        if self.landlock >= LOWEST_LANDLOCK and self.seccomp and not self.devices:
            return "full"
        return "partial" if self.landlock or self.seccomp else "none"

    def describe(self) -> str:
        """One sentence for the report."""
        parts = [f"Landlock ABI {self.landlock}"] if self.landlock else []
        parts += ["seccomp"] if self.seccomp else []
        if self.level == "full":
            return f"full ({' + '.join(parts)}): files, network, processes and memory are restricted"
        if self.level == "partial":
            open_ = "device files stay reachable for the GPU" if self.devices else self.problem
            return f"partial ({' + '.join(parts)}): {open_}"
        return f"none: only time, memory and output are limited ({self.problem})"


@functools.cache
def readable_paths() -> tuple[str, ...]:
    """The interpreter, its libraries and system files; never the course itself.

    Found out once a process: it takes longer than all the rest of the sandbox.
    """
    roots = {
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        sys.base_exec_prefix,
        os.path.dirname(sys.executable),
    }
    roots |= {os.path.dirname(os.path.realpath(sys.executable))}
    roots |= {
        path
        for path in (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
        if path
    }
    roots |= set(site.getsitepackages())
    return (*sorted({os.path.realpath(root) for root in roots}), *SYSTEM_FILES)


def exposed(secret: Path) -> str | None:
    """The readable path that would show `secret` to a submission, or None."""
    target = os.path.realpath(secret)
    for root in readable_paths():
        if os.path.isdir(root) and os.path.commonpath([target, os.path.realpath(root)]) == os.path.realpath(
            root
        ):
            return root
    return None


def hold(scratch: str, for_gpu: bool, without: frozenset[str] = frozenset()) -> Held:
    """Restricts this process for good. `without` leaves parts out: to test what is said where they are missing."""
    problems = []
    version, filtered = 0, False
    if sys.platform != "linux":
        return Held(0, False, for_gpu, f"{sys.platform} has no Landlock and no seccomp")
    if kernel.threads() != 1:
        raise RuntimeError("a worker must have one thread when the sandbox is put on")
    kernel.drop_capabilities()
    kernel.no_new_privileges()
    if "landlock" not in without and landlock.abi():
        readable = [*readable_paths(), *(DEVICE_FILES if for_gpu else ())]
        writable = [scratch, *WRITABLE_DEVICES] + (["/dev"] if for_gpu else [])
        version = landlock.restrict(readable, writable)
    else:
        problems.append("this kernel offers no Landlock: files can be read")
    if "seccomp" not in without and seccomp.available():
        seccomp.restrict(sockets=for_gpu)
        filtered = True
    else:
        problems.append(f"there is no seccomp table for {kernel.machine()}: network and processes are open")
    held = Held(version, filtered, for_gpu, "; ".join(problems))
    try_it(held)
    return held


def try_it(held: Held) -> None:
    """Tries what must fail now; raises RuntimeError when it does not."""
    if held.landlock and not refused(lambda: os.listdir("/")):
        raise RuntimeError("Landlock is on, but the root folder can be listed")
    if held.seccomp and not held.devices and not refused(lambda: socket.socket(socket.AF_UNIX).close()):
        raise RuntimeError("seccomp is on, but a socket can be opened")
    if held.seccomp and not refused(lambda: os.kill(os.getppid(), 0)):
        raise RuntimeError("seccomp is on, but a signal can be sent to the parent")


def refused(attempt: object) -> bool:
    """Whether the kernel says no."""
    try:
        attempt()  # type: ignore[operator]
    except PermissionError:
        return True
    return False
