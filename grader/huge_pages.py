"""Gathers a process's memory into huge pages (Linux 6.1): forking it then copies hundreds of page tables less.

A fork of a process that has torch imported costs three times as much without it. Where the kernel refuses, nothing
changes.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator

HUGE = 2 << 20
COLLAPSE = 25
"""MADV_COLLAPSE of madvise(2)."""

ANONYMOUS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s*(?:\[heap\])?\s*")


def gather() -> int:
    """Gathers what can be; gives the number of bytes that now lie in huge pages."""
    if sys.platform != "linux":
        return 0
    madvise = ctypes.CDLL(None).madvise
    gathered = 0
    for address in addresses():
        if madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE), COLLAPSE) == 0:
            gathered += HUGE
    return gathered


def addresses() -> Iterator[int]:
    """Where a huge page fits into memory of this process's own, which no file stands behind."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        match = ANONYMOUS.fullmatch(line)
        if match is not None:
            first, last = int(match[1], 16), int(match[2], 16)
            yield from range(-(-first // HUGE) * HUGE, last - HUGE + 1, HUGE)
