"""One writer at a time: the lock of a GRADES folder. It ends with the process that holds it, however that ends."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from grader.errors import UsageError
from grader.report.visible import one_line

FILE = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, which is made where it is not there; raises UsageError that names another holder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / FILE, "a+", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written ({error.strerror}). Name another folder: --out GRADES."
        ) from None
    with file:
        if not try_lock(file):
            raise UsageError(f"{folder} is in use: {holder(file)}. Wait until it is done, or stop it.")
        file.seek(0)
        file.truncate()
        json.dump({"process": os.getpid(), "host": socket.gethostname(), "since": now()}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def try_lock(file: IO[str]) -> bool:
    """Takes the lock unless another process has it."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(1 << 20)  # the byte that is locked lies behind the text, which others may read
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def holder(file: IO[str]) -> str:
    """Who holds the lock, as far as it says."""
    try:
        file.seek(0)
        said = json.loads(file.read(2000))
        return one_line(f"process {said['process']} on {said['host']} writes it since {said['since']}")
    except (OSError, ValueError, KeyError, TypeError):
        return "another process writes it"


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
