"""Tries the forbidden things in a process under the sandbox, and says which of them the kernel refuses."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from grader import limits
from grader.sandbox.hold import Held, hold


class Probe(msgspec.Struct, frozen=True):
    """One forbidden thing, tried."""

    what: str
    refused: bool
    answer: str
    """What the kernel said, or what could be done."""


class Findings(msgspec.Struct, frozen=True):
    """What holds on this machine, and each thing that was tried."""

    held: Held
    probes: list[Probe]


def probe(secret: Path, without: frozenset[str] = frozenset()) -> Findings:
    """Runs all probes in a child process under the sandbox; `secret` is a file that a submission must not read."""
    scratch = tempfile.mkdtemp(prefix="grading-")
    outside = tempfile.mkdtemp(prefix="grading-outside-")
    reader, writer = os.pipe()
    sys.stdout.flush()
    with listener() as port, unix_listener(outside) as unix_path:
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                limits.apply()
                found = Findings(
                    hold(scratch, False, without), list(attempts(secret, outside, port, unix_path, scratch))
                )
                os.write(writer, msgspec.json.encode(found))
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            text = file.read()
        os.waitpid(pid, 0)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(outside, ignore_errors=True)
    if not text:
        return Findings(Held(0, False, False, "the process that was to try it ended"), [])
    return msgspec.json.decode(text, type=Findings)


def attempts(secret: Path, outside: str, port: int, unix_path: str, scratch: str) -> Iterator[Probe]:
    """Every forbidden thing, one after the other; the last ones could hurt if they were possible, so they are mild."""
    yield attempt("read a file of the course", lambda: secret.read_bytes()[:1])
    yield attempt("list the root folder", lambda: os.listdir("/"))
    yield attempt(
        "read another process's environment", lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()
    )
    yield attempt("write outside the scratch folder", lambda: Path(outside, "x").write_text("x"))
    yield attempt("connect to a TCP port", lambda: socket.create_connection(("127.0.0.1", port), 2).close())
    yield attempt("send a UDP packet", lambda: udp(port))
    yield attempt("connect to a Unix socket", lambda: unix(unix_path))
    yield attempt("start a process", start_process)
    yield attempt("run a program", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    yield attempt("signal another process", lambda: os.kill(os.getppid(), 0))
    yield attempt("trace another process", trace_parent)
    yield attempt("make memory that has no file", lambda: os.close(os.memfd_create("x")))
    yield attempt("change a file's mode", lambda: os.chmod(scratch, 0o700))


def attempt(what: str, action: Callable[[], object]) -> Probe:
    """Tries it."""
    try:
        action()
    except OSError as error:
        refused = isinstance(error, PermissionError)
        return Probe(what, refused, f"{os.strerror(error.errno or 0)}")
    except Exception as error:
        return Probe(what, False, f"{type(error).__name__}: {error}")
    return Probe(what, False, "possible")


def udp(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", port))


def unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def start_process() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def trace_parent() -> None:
    """PTRACE_SEIZE of the parent, let go at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, os.getppid(), None, None) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    libc.ptrace(17, os.getppid(), None, signal.SIGCONT)


@contextmanager
def listener() -> Iterator[int]:
    """A TCP port of this machine that accepts connections."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


@contextmanager
def unix_listener(folder: str) -> Iterator[str]:
    """A Unix socket in a folder, as Docker's."""
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        yield path
