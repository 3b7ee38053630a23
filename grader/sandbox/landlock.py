"""Landlock: which files a process may reach. Restricts the calling thread and everything it starts, for good.

Source: the kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from grader.sandbox.kernel import system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
ALL_OF_ABI_1 = (1 << 13) - 1
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1 << 0, 1 << 1

READ = EXECUTE | READ_FILE | READ_DIR
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


class RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 when it offers none."""
    try:
        return system_call(CREATE_RULESET, 0, 0, CREATE_RULESET_VERSION)
    except OSError:
        return 0


def handled(version: int) -> tuple[int, int, int, int]:
    """The rights that a version knows: (files, network, scopes, size of the attributes)."""
    files = ALL_OF_ABI_1
    files |= REFER if version >= 2 else 0
    files |= TRUNCATE if version >= 3 else 0
    files |= IOCTL_DEV if version >= 5 else 0
    network = BIND_TCP | CONNECT_TCP if version >= 4 else 0
    scopes = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    return files, network, scopes, size


def restrict(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Leaves only these paths (and what is beneath them) reachable, no TCP, and no signals out.

    Returns the ABI that held; raises OSError when the kernel refuses.
    """
    version = abi()
    files, network, scopes, size = handled(version)
    attributes = RulesetAttributes(files, network, scopes)
    ruleset = system_call(CREATE_RULESET, ctypes.addressof(attributes), size, 0)
    try:
        for path in readable:
            allow(ruleset, path, READ & files)
        for path in writable:
            allow(ruleset, path, files)
        system_call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def allow(ruleset: int, path: str, access: int) -> None:
    """One rule; a path that is not there needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= FOR_FILES
        beneath = PathBeneath(access, descriptor)
        system_call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.addressof(beneath), 0)
    finally:
        os.close(descriptor)
