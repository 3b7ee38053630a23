"""Limits that a worker process puts on itself before it runs anything of a submission."""

from __future__ import annotations

import os
import sys

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

MEMORY_BYTES = 2 << 30
"""Resident memory of one worker. The judge looks every 50 ms.

A limit of the address space would be wrong: torch reserves far more than it uses."""

OUTPUT_BYTES = 16 << 20
"""What one check may print before it is stopped."""

KEPT_OUTPUT = 4096
"""What is kept of the beginning and of the end of the printed text."""

FILE_BYTES = 64 << 20
OPEN_FILES = 256
CPU_SECONDS = 600

WRITTEN_BYTES = 1 << 30
"""What one worker may write, answers included: a size limit of files alone does not keep a disk from being filled."""

THREADS = 256
"""Threads of one worker. The kernel's own limit counts all processes of a user, and so costs others."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def apply() -> None:
    """No core dumps, no huge files, and an end to CPU time even if everything else fails."""
    if sys.platform == "win32":
        return
    import resource

    def limit(kind: int, value: int) -> None:
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    limit(resource.RLIMIT_CPU, CPU_SECONDS)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil

        return int(psutil.Process(pid).memory_info().rss)
    except Exception:
        return 0


def written_bytes(pid: int) -> int:
    """What a process has written so far, to files, pipes and sockets; 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            counts = dict(line.split(b": ") for line in file.read().splitlines())
        return max(int(counts[b"wchar"]), int(counts[b"write_bytes"]))
    except (OSError, ValueError, KeyError):
        return 0


def thread_count(pid: int) -> int:
    """The threads of a process; 0 when they cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[17])
    except (OSError, ValueError, IndexError):
        return 0


def cpu_seconds(pid: int) -> float:
    """The computing time that a process has used; 0 when it cannot be read, so that waiting counts alone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil

        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    except Exception:
        return 0.0
