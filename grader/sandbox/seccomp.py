"""seccomp: which system calls a process may make. A small filter in the kernel's classic BPF.

Everything that computes, reads, writes and starts threads stays; what starts processes, opens sockets, traces,
signals others, makes hidden memory or changes the system answers EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from grader.sandbox.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    machine,
    system_call,
)

SECCOMP = {"x86_64": 317, "aarch64": 277}
SET_MODE_FILTER, SYNC_THREADS = 1, 1
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
CLONE_THREAD = 0x00010000

ALLOW = 0x7FFF0000
KILL = 0x80000000
DENY = 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS

# name: (x86_64, aarch64); None where that machine has no such call
CALLS: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmctl": (31, 195),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "setrlimit": (160, 164),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "personality": (135, 92),
    "acct": (163, 89),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "quotactl": (179, 60),
    "fallocate": (285, 47),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
}
SOCKET_CALLS: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
"""A pair of sockets is left, but neither of its ends can be turned to a socket of another process."""
SENDTO = (44, 206)
CLONE, CLONE3 = (56, 220), (435, 435)
PRLIMIT64, PRCTL = (302, 261), (157, 167)
TO_OTHERS = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
"""Signals: only to the process itself. tkill names a thread alone, so it is denied whole."""
TKILL = (200, 130)

LOAD, JUMP_EQUAL, JUMP_SET, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCH = 0, 4


def argument(index: int) -> int:
    """The offset of the low half of a system call's argument."""
    return 16 + 8 * index


class Assembler:
    """Classic BPF instructions, as struct sock_filter."""

    def __init__(self) -> None:
        self.code: list[tuple[int, int, int, int]] = []

    def load(self, offset: int) -> None:
        self.code.append((LOAD, 0, 0, offset))

    def returns(self, action: int) -> None:
        self.code.append((RETURN, 0, 0, action))

    def if_equal(self, value: int, action: int) -> None:
        """Returns `action` when the loaded word is `value`."""
        self.code.append((JUMP_EQUAL, 0, 1, value))
        self.returns(action)

    def unless_equal_skip(self, value: int, count: int) -> None:
        """Skips `count` instructions unless the loaded word is `value`."""
        self.code.append((JUMP_EQUAL, 0, count, value))

    def unless_null(self, number: int, index: int, action: int) -> None:
        """Returns `action` for a system call unless its argument of this index is 0."""
        self.unless_equal_skip(number, 6)
        self.load(argument(index))
        self.code.append((JUMP_EQUAL, 0, 2, 0))
        self.load(argument(index) + 4)
        self.code.append((JUMP_EQUAL, 1, 0, 0))
        self.returns(action)
        self.returns(ALLOW)

    def bytes(self) -> bytes:
        return b"".join(struct.pack("HBBI", *instruction) for instruction in self.code)


def program(machine_name: str, own_pid: int, sockets: bool = False) -> Assembler:
    """The filter for a machine and a process; `sockets` leaves them, as a GPU's driver needs."""
    column = 0 if machine_name == "x86_64" else 1
    asm = Assembler()
    asm.load(ARCH)
    asm.code.append((JUMP_EQUAL, 1, 0, ARCHITECTURE[machine_name]))
    asm.returns(KILL)
    asm.load(NUMBER)
    if machine_name == "x86_64":
        asm.code.append((JUMP_AT_LEAST, 0, 1, X32_BIT))
        asm.returns(ABSENT)
    for numbers in [*CALLS.values(), *([] if sockets else SOCKET_CALLS.values())]:
        number = numbers[column]
        if number is not None:
            asm.if_equal(number, DENY)
    asm.if_equal(TKILL[column], DENY)
    asm.if_equal(CLONE3[column], ABSENT)  # the C library then uses clone, whose flags can be read here
    # clone: threads only
    asm.unless_equal_skip(CLONE[column], 4)
    asm.load(argument(0))
    asm.code.append((JUMP_SET, 1, 0, CLONE_THREAD))
    asm.returns(DENY)
    asm.returns(ALLOW)
    # prlimit64: reading a limit only (the address of a new limit is null)
    asm.unless_null(PRLIMIT64[column], 2, DENY)
    # sendto: to the other end only (the address is null), as send(2) does it
    if not sockets:
        asm.unless_null(SENDTO[column], 4, DENY)
    # prctl: not what ties this process to its parent or hides it
    asm.unless_equal_skip(PRCTL[column], 8)
    asm.load(argument(0))
    asm.if_equal(PR_SET_PDEATHSIG, DENY)
    asm.if_equal(PR_SET_DUMPABLE, DENY)
    asm.if_equal(PR_SET_CHILD_SUBREAPER, DENY)
    asm.returns(ALLOW)
    for numbers in TO_OTHERS.values():
        asm.unless_equal_skip(numbers[column], 4)
        asm.load(argument(0))
        asm.code.append((JUMP_EQUAL, 1, 0, own_pid))
        asm.returns(DENY)
        asm.returns(ALLOW)
    asm.returns(ALLOW)
    return asm


def available() -> bool:
    """Whether there is a table for this machine."""
    return machine() in SECCOMP


def restrict(sockets: bool = False) -> None:
    """Installs the filter for all threads of this process; needs no_new_privileges. Raises OSError."""
    name = machine()
    code = program(name, os.getpid(), sockets).bytes()
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    system_call(SECCOMP[name], SET_MODE_FILTER, SYNC_THREADS, ctypes.addressof(holder))
