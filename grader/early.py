"""Starts the zygote at once: torch is imported on one core while the command line is read on another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.forked import ZygoteProcess

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds `stages`, `solutions` and `grader`."""

_started: list[ZygoteProcess] = []


def start_early(arguments: list[str]) -> None:
    """Starts a zygote when the command is one that grades."""
    if arguments[:1] not in (["grade"], ["course"], ["watch"], ["hint"]) or {"--debug", "--help"} & set(
        arguments
    ):
        return
    from grader.forked import ZygoteProcess, can_fork
    from grader.zygote import Settings

    if can_fork():
        gpu = any(word.startswith(("cuda", "mps", "--device=cuda")) for word in arguments)
        _started.append(ZygoteProcess(Settings(for_gpu=gpu)))


def started() -> ZygoteProcess | None:
    """The zygote that was started early, once."""
    return _started.pop() if _started else None


def abandon() -> None:
    """Ends a zygote that nobody took."""
    while _started:
        _started.pop().close()
