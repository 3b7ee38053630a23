"""A worker process: reads frames from its socket, answers each, and never returns."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import tempfile

from grader import limits
from grader.blocking import block
from grader.sandbox.hold import hold
from grader.wire import Reply, Setup, encode_header, pack, receive, to_worker_decoder
from grader.worker import Worker


def serve(
    channel: socket.socket,
    output: int | None,
    scratch: str,
    for_gpu: bool,
    without: frozenset[str] = frozenset(),
) -> None:
    """Answers requests until the judge hangs up. Ends the process: no exit hook of a submission runs."""
    try:
        if output is not None:
            take_output(output)
        limits.apply()
        settle(scratch)
        held = hold(scratch, for_gpu, without)
        channel.sendall(pack(encode_header(held)))
        sys.argv[:] = ["submission"]
        worker, blocked = None, set[str]()
        while True:
            header, body = receive(channel)
            message = to_worker_decoder.decode(header)
            if isinstance(message, Setup):
                block([name for name in message.forbidden if name not in blocked])
                blocked.update(message.forbidden)
                worker = Worker(message)
                channel.sendall(pack(encode_header(Reply(0))))  # nothing of the submission has run yet
                continue
            assert worker is not None
            reply, reply_body = worker.answer(message, body)
            channel.sendall(pack(encode_header(reply), reply_body))
    except EOFError:
        pass
    except BaseException:
        faulthandler.dump_traceback()
        os._exit(70)
    os._exit(0)


def settle(scratch: str) -> None:
    """Lives in its own scratch folder, the only place where it may write."""
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    os.chdir(scratch)
    for name in ("HOME", "TMPDIR", "TEMP", "TMP"):
        os.environ[name] = scratch
    tempfile.tempdir = None


def take_output(output: int) -> None:
    """Everything printed goes into `output`, a pipe that the judge reads with a limit; stdin is empty."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    if output > 2:
        os.close(output)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    if hasattr(faulthandler, "register"):
        # The judge asks a worker that is late where it is; the handler runs in C, also in an endless loop.
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=False, chain=False)
