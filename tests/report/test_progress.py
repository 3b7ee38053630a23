"""The line that moves while checks run."""

from __future__ import annotations

import io

import pytest

from grader.report.progress import CLEAR_LINE, Progress
from grader.result import StageResult


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_it_counts_what_is_done_and_what_holds(unscaled: StageResult) -> None:
    screen = Terminal()
    progress = Progress(screen)
    progress.started(len(unscaled.checks))
    for check in unscaled.checks:
        progress.finished(check)
    progress.done()
    shown = screen.getvalue().split(CLEAR_LINE)
    assert shown[1] == "[--------------------] 0/7 checks, 0 hold"
    assert shown[4] == "[########------------] 3/7 checks, 3 hold  scaled_dot_product_attention"
    assert shown[8] == "[####################] 7/7 checks, 3 hold  SingleHeadAttention"
    assert shown[-1] == "", "the line is wiped in the end"


@pytest.mark.parametrize(
    ("columns", "line"), [(50, "[##########----------] 1/2 checks, 1 hold"), (20, "1/2")]
)
def test_a_narrow_terminal_gets_less(
    columns: int, line: str, complete: StageResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.report.progress.terminal_columns", lambda file: columns)
    screen = Terminal()
    progress = Progress(screen)
    progress.started(2)
    progress.finished(complete.checks[2])
    assert screen.getvalue().split(CLEAR_LINE)[-1] == line


def test_it_is_silent_where_nobody_watches(complete: StageResult, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    run(Progress(pipe), complete)
    assert pipe.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    run(Progress(screen), complete)
    assert screen.getvalue() == ""


def test_it_may_be_broken_off_and_started_again(complete: StageResult) -> None:
    screen = Terminal()
    progress = Progress(screen)
    progress.started(0)
    progress.done()
    progress.done()
    assert screen.getvalue() == ""
    progress.started(5)
    progress.done()
    run(progress, complete)
    assert "1/1 checks, 1 hold" in screen.getvalue()


def run(progress: Progress, result: StageResult) -> None:
    progress.started(1)
    progress.finished(result.checks[0])
    progress.done()
