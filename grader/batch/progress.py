"""How far a batch is: a line that moves in a terminal; elsewhere a line now and then."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

from grader.gradebook import Grade, State, worst
from grader.report.page import columns
from grader.report.progress import CLEAR_LINE, LENGTH, terminal_columns
from grader.report.visible import in_encoding, one_line
from grader.result import CheckResult

REDRAW_SECONDS = 0.2
LOG_SHARE = 10
"""In a log, so many lines are written over a whole run."""


class Progress:
    """Told of every check and every stage; counts submissions."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = sys.stderr if file is None else file
        self._watched = self._file.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._drawn = 0.0
        self._logged = 0
        self._stages = 1
        self._open: dict[str, list[State]] = {}
        """The states so far of submissions that are not done."""
        self.total = 0
        self.states: dict[State, int] = {"graded": 0, "ungradable": 0, "grader error": 0}
        self.checks_run = 0
        self.checks_known = 0

    @property
    def submissions(self) -> int:
        """How many submissions are done."""
        return sum(self.states.values())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def started(self, submissions: int, stages: int) -> None:
        """So many submissions, each with so many stages, are about to be graded."""
        self._began = time.monotonic()
        self.total, self._stages = submissions, stages
        self._show()

    def known(self, checks: int) -> None:
        """So many checks need not be run: an earlier run finished them."""
        self.checks_known += checks

    def checked(self, result: CheckResult) -> None:
        """A check was run."""
        self.checks_run += 1
        self._show()

    def graded(self, submission: str, grade: Grade) -> None:
        """A stage of a submission is done."""
        states = self._open.setdefault(submission, [])
        states.append(grade.state)
        if len(states) == self._stages:
            del self._open[submission]
            self.states[worst(states)] += 1
            self._show()

    def tick(self) -> None:
        """Time has passed."""
        self._show()

    def done(self) -> None:
        """The run is over, or broken off."""
        if self._watched and self.total:
            self._write(CLEAR_LINE)

    def line(self) -> str:
        """Where the run is, in one line."""
        parts = [f"{self.submissions}/{self.total} submissions", f"{self.checks_run} checks run"]
        parts += [f"{count} {state}" for state, count in self.states.items() if count and state != "graded"]
        left = self.remaining()
        if left is not None and self.submissions < self.total:
            parts.append(f"{clock(left)} left")
        return ", ".join(parts)

    def remaining(self) -> float | None:
        """Seconds that are probably left; None while nothing is known about that."""
        if not self.submissions or not self.checks_run:
            return None
        return self.seconds / self.submissions * (self.total - self.submissions)

    def _show(self) -> None:
        now = time.monotonic()
        if self._watched:
            if now - self._drawn >= REDRAW_SECONDS:
                self._drawn = now
                full = LENGTH * self.submissions // max(self.total, 1)
                bar = f"[{'#' * full}{'-' * (LENGTH - full)}] "
                room = terminal_columns(self._file)
                shown = (text for text in (bar + self.line(), self.line(), "") if columns(text) < room)
                self._write(CLEAR_LINE + next(shown))
            return
        tenth = LOG_SHARE * self.submissions // max(self.total, 1)
        if tenth > self._logged:
            self._logged = tenth
            self._write(one_line(self.line()) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._file.write(in_encoding(text, self._file.encoding or "ascii"))
            self._file.flush()
        except OSError:  # nobody reads it any more: grading goes on
            self._watched = False


def clock(seconds: float) -> str:
    """'0:41' or '1:02:03'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
