"""The few system calls of the sandbox that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 36, 38, 47
CAPSET = {"x86_64": 126, "aarch64": 91}
LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def machine() -> str:
    """The processor as the kernel calls it: 'x86_64', 'aarch64', ..."""
    return platform.machine()


def system_call(number: int, *arguments: int) -> int:
    """A raw system call; raises OSError."""
    assert _libc is not None
    result = _libc.syscall(ctypes.c_long(number), *(ctypes.c_long(item) for item in arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)


def process_control(option: int, *arguments: int) -> None:
    """prctl(2); raises OSError."""
    assert _libc is not None
    padded = [*arguments, 0, 0, 0, 0][:4]
    if _libc.prctl(option, *(ctypes.c_ulong(item) for item in padded)) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def no_new_privileges() -> None:
    """Nothing that is executed from here on gains privileges; the two filters need this."""
    process_control(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Gives up root's powers, when this is root: the bounding set, the ambient set, and those held."""
    if os.geteuid() != 0 or machine() not in CAPSET:
        return
    for capability in range(LAST_CAPABILITY + 1):
        try:
            process_control(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # the kernel has no more of them
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    system_call(CAPSET[machine()], ctypes.addressof(header), ctypes.addressof(nothing))


def threads() -> int:
    """How many threads this process runs."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Threads:"):
                return int(line.split()[1])
    return 1
