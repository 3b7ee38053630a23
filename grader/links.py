"""The judge's end of a worker: sends requests, reads replies under one deadline, and collects what is printed."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import socket
import time
from collections import deque
from typing import Protocol

import msgspec

from grader import limits
from grader.result import Status
from grader.sandbox.hold import Held
from grader.wire import (
    LENGTHS,
    Frame,
    Reply,
    Request,
    Setup,
    WireError,
    decode_reply,
    encode_header,
    lengths,
    pack,
)

TICK = 0.05
"""Seconds between two looks at memory and time."""

BUSY, PATIENCE = 0.9, 4.0
"""A worker is late when it computed for this share of its time, or waited for so many times as long."""


class WorkerStopped(Exception):
    """A worker gave no answer. `reason` is a sentence, `where` the submission's line it was in, if known."""

    def __init__(self, status: Status, reason: str, where: Frame | None = None) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason
        self.where = where


class Link(Protocol):
    """A worker that holds one submission."""

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        """The reply to one request; raises WorkerStopped when all of a check's take longer than `seconds`."""

    renewable: bool
    """Whether it pays to use it for a further check."""

    def renew(self, setup: Setup) -> bool:
        """Lays the submission out anew where it ran already, under the same rules; False where it fails."""

    def printed(self) -> str:
        """What the submission printed so far, cut to a head and a tail."""

    def close(self) -> None:
        """Ends the worker."""


class Workers(Protocol):
    """Where workers come from."""

    def held(self) -> Held:
        """What holds a submission back here."""

    def start(self, setup: Setup) -> Link:
        """A fresh worker with the submission laid out in it."""

    def close(self) -> None:
        """Ends everything."""


def fresh_id() -> int:
    """An id that a worker cannot guess before it is asked."""
    return secrets.randbits(48)


class Printed:
    """The head and the tail of a text of any length."""

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = limits.KEPT_OUTPUT - len(self._head)
        self._head += data[:room]
        rest = data[max(room, 0) :]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            while self._tail and self._tail_size - len(self._tail[0]) >= limits.KEPT_OUTPUT:
                self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        head, tail = bytes(self._head), b"".join(self._tail)[-limits.KEPT_OUTPUT :]
        left_out = self.total - len(head) - len(tail)
        middle = f"\n[... {left_out} bytes left out ...]\n" if left_out > 0 else ""
        return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")


class SocketLink:
    """A worker process at the other end of a socket, with a pipe that carries what it prints."""

    def __init__(self, channel: socket.socket, output: int, pid: int, files: list[str]) -> None:
        self._channel = channel
        self._output = output
        self._output_open = True
        self._pid = pid
        self._files = files
        self._printed = Printed()
        self._received = bytearray()
        self._next_look = 0.0
        self._waited = self._computed = 0.0
        """What the questions of one check have taken so far, in seconds and in seconds of computing."""
        channel.setblocking(False)
        os.set_blocking(output, False)

    def set_up(self, setup: Setup, seconds: float) -> None:
        """Hands over the submission; what was printed before is forgotten."""
        self._read_output()
        self._printed = Printed()
        self._waited = self._computed = 0.0
        self._exchange(pack(encode_header(setup)), seconds)
        self._waited = self._computed = 0.0

    def ready(self, seconds: float) -> Held:
        """The first frame of a worker: what holds it back. It is true, for nothing of a submission has run yet."""
        header, _ = self._exchange(b"", seconds)
        return msgspec.json.decode(header, type=Held)

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        frame = pack(encode_header(request), body)
        try:
            header, reply_body = self._exchange(frame, seconds)
            reply = decode_reply(header)
            if reply.id != request.id:
                raise WireError("it answers a question that was not asked")
            return reply, reply_body
        except WireError as error:
            raise WorkerStopped(
                "tampered", f"The process sent a reply that no worker sends: {error}."
            ) from None

    def printed(self) -> str:
        self._read_output()
        return self._printed.text()

    def close(self) -> None:
        self._channel.close()
        os.close(self._output)

    def wait_for_exit(self, seconds: float = 1.0) -> None:
        """Collects what is printed until the process is gone."""
        deadline = time.monotonic() + seconds
        while self._output_open and time.monotonic() < deadline:
            select.select([self._output], [], [], TICK)
            self._read_output()

    def _exchange(self, frame: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Sends a frame and gives the one that answers it."""
        to_send = memoryview(frame)
        began, used = time.monotonic() - self._waited, limits.cpu_seconds(self._pid) - self._computed
        while True:
            if not to_send and (found := self._whole_frame()) is not None:
                self._waited = time.monotonic() - began
                self._computed = limits.cpu_seconds(self._pid) - used
                return found
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + TICK
                self._look(now - began, used, seconds)
            readers = [self._channel.fileno()] + ([self._output] if self._output_open else [])
            writers = [self._channel.fileno()] if to_send else []
            readable, writable, _ = select.select(readers, writers, [], TICK)
            if self._output in readable:
                self._read_output()
            if writable:
                to_send = to_send[self._send(to_send) :]
            if self._channel.fileno() in readable:
                self._receive()
                if to_send:
                    raise WireError("it answers before it has read the question")

    def _send(self, data: memoryview) -> int:
        try:
            return self._channel.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise self._gone() from None

    def _receive(self) -> None:
        try:
            data = self._channel.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise self._gone()
        self._received += data

    def _whole_frame(self) -> tuple[bytes, bytes] | None:
        if len(self._received) < LENGTHS.size:
            return None
        header, body = lengths(bytes(self._received[: LENGTHS.size]))
        end = LENGTHS.size + header + body
        if len(self._received) < end:
            return None
        if len(self._received) > end:
            raise WireError("it sends more than one reply")
        data = bytes(self._received[LENGTHS.size :])
        self._received.clear()
        return data[:header], data[header:]

    def _read_output(self) -> None:
        while self._output_open:
            try:
                data = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._output_open = False
                return
            self._printed.add(data)
            if self._printed.total > limits.OUTPUT_BYTES:
                raise WorkerStopped(
                    "output", f"It printed more than {limits.OUTPUT_BYTES >> 20} MiB and was stopped."
                )

    def _look(self, waited: float, used_before: float, seconds: float) -> None:
        """Ends a worker that is over a limit.

        A busy machine is no fault of the submission: what counts is computing time, or several times as much waiting.
        """
        if waited >= seconds:
            used = limits.cpu_seconds(self._pid) - used_before
            if used >= seconds * BUSY or waited >= seconds * PATIENCE:
                where = self._where()
                place = f" in `{where.function}`" if where and where.function != "<module>" else ""
                raise WorkerStopped("timeout", f"It gave no answer within {seconds:g} s{place}.", where)
        over: tuple[Status, str] | None = None
        if limits.resident_bytes(self._pid) > limits.MEMORY_BYTES:
            over = "memory", f"It used more than {limits.MEMORY_BYTES >> 30} GiB of memory"
        elif limits.written_bytes(self._pid) > limits.WRITTEN_BYTES:
            over = "output", f"It wrote more than {limits.WRITTEN_BYTES >> 30} GiB"
        elif limits.thread_count(self._pid) > limits.THREADS:
            over = "denied", f"It started more than {limits.THREADS} threads"
        if over:
            status, reason = over
            raise WorkerStopped(status, f"{reason} and was stopped.", self._where())

    def _gone(self) -> WorkerStopped:
        self.wait_for_exit()
        return WorkerStopped("crashed", "The process ended before it gave an answer.")

    def _where(self) -> Frame | None:
        """Asks the process for its stack. Only a hint: the process may say what it likes."""
        if not hasattr(signal, "SIGUSR1"):
            return None
        try:
            os.kill(self._pid, signal.SIGUSR1)
        except (ProcessLookupError, PermissionError):
            return None
        text, place = b"", None
        deadline = time.monotonic() + 0.3
        while place is None and self._output_open and time.monotonic() < deadline:
            select.select([self._output], [], [], TICK)
            try:
                text = (text + os.read(self._output, 1 << 16))[-(1 << 18) :]
            except BlockingIOError:
                continue
            place = stack_place(text.decode("utf-8", "replace"), self._files)
        return place


def stack_place(text: str, files: list[str]) -> Frame | None:
    """The innermost line of the submission in a stack that faulthandler printed."""
    for match in re.finditer(r'File "([^"]+)", line (\d{1,7}) in (\S{1,100})', text):
        if match[1] in files:
            return Frame(match[1], int(match[2]), match[3])
    return None
