"""What many tests share: the course, and an engine that imports torch once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bank import LOUD

from grader.course import Course, load_course
from grader.driver import Engine

# Tests run on every core as it is: a second thread for small tensors would wait for its core, many times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What decides how the grader behaves and looks: the tests say it themselves where it matters.
for name in ("CI", "GITHUB_STEP_SUMMARY", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PYTEST_ADDOPTS"):
    os.environ.pop(name, None)

# A shell lets its background commands ignore Ctrl-C, and they hand that on to the processes that are interrupted here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent

# What these test is Linux: elsewhere nothing but time, memory and output is limited, and there is no zygote to kill.
collect_ignore = (
    [] if sys.platform == "linux" else ["test_hostile.py", "test_sandbox.py", "batch/test_kills.py"]
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test has to say beside its verdict; from the test itself it would be lost with several processes."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == LOUD:
                terminalreporter.write_line(f"*** {text} ***", bold=True)


@pytest.fixture(scope="session")
def course() -> Course:
    """The course of this repository."""
    return load_course(ROOT)


@pytest.fixture(scope="session")
def engine(course: Course) -> Iterator[Engine]:
    """A warm engine on this repository."""
    with Engine(ROOT, course) as warm:
        yield warm
