"""One line that moves while checks run. Silent where nobody watches."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from grader.report.page import columns
from grader.report.visible import in_encoding
from grader.result import CheckResult

LENGTH = 20
CLEAR_LINE = "\r\x1b[2K"


class Progress:
    """Told by the driver: `started(total)`, `finished(check)` for each check, and in any case `done()`.

    The line goes to standard error, so that a report on standard output can be piped. `done` wipes it.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = sys.stderr if file is None else file
        self._watched = self._file.isatty() and os.environ.get("TERM") != "dumb"
        self._total = 0
        self._finished = 0
        self._held = 0

    def started(self, total: int) -> None:
        """`total` checks are about to run."""
        self._total, self._finished, self._held = total, 0, 0
        self._show("")

    def finished(self, check: CheckResult) -> None:
        """A check has its result."""
        self._finished += 1
        self._held += check.status == "passed"
        self._show(check.exercise)

    def done(self) -> None:
        """All checks have run, or the run was broken off. May be called more than once."""
        if self._watched and self._total:
            self._write(CLEAR_LINE)
        self._total = 0

    def _show(self, exercise: str) -> None:
        if not self._watched or not self._total:
            return
        full = LENGTH * min(self._finished, self._total) // self._total
        bar = "#" * full + "-" * (LENGTH - full)
        number = f"{self._finished}/{self._total}"
        words = f"[{bar}] {number} checks, {self._held} hold"
        room = terminal_columns(self._file)
        fitting = (line for line in (f"{words}  {exercise}".rstrip(), words, number) if columns(line) < room)
        self._write(CLEAR_LINE + next(fitting, ""))

    def _write(self, text: str) -> None:
        self._file.write(in_encoding(text, self._file.encoding or "ascii"))
        self._file.flush()


def terminal_columns(file: TextIO) -> int:
    """The width of the terminal that `file` is, or 80."""
    try:
        return os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
