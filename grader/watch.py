"""Grades again on every save, and moves on: to the next exercise, then to the next stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TextIO

from grader.course import Course, Stage, load_course
from grader.driver import GraderFailed
from grader.errors import UsageError
from grader.report.page import Look, Page, look_of
from grader.report.story import is_complete
from grader.report.terminal import render
from grader.report.visible import one_line
from grader.result import StageResult

CLEAR_SCREEN = "\x1b[2J\x1b[3J\x1b[H"
WATCHED_SUFFIXES = (".py", ".toml")
SETTLE_MILLISECONDS = 120
"""How long a burst of saves may last: editors write, rename and format in a row."""

Changes = Iterable[set[Path]]
"""Sets of files that were saved together."""


def watch(
    root: Path,
    grade: Callable[[str], StageResult],
    stage: str | None = None,
    folder: Path | None = None,
    changes: Changes | None = None,
    file: TextIO | None = None,
) -> None:
    """Grade a stage by its name with `grade`, show the report, wait for a save, and so on until Ctrl-C.

    It begins with `stage`, or with the first stage that is not complete. A save in another stage's folder
    turns to that stage. When a stage is complete it turns to the next one that is not. `folder` is
    what is watched, `stages` by default; tests give `changes` and `file`.
    """
    course = load_course(root)
    watched = root / "stages" if folder is None else folder
    watcher = Watcher(course, grade, watched.name, sys.stdout if file is None else file)
    start = None if stage is None else course.stage(stage)
    try:
        watcher.begin(start)
        for saved in saves(watched) if changes is None else changes:
            watcher.saved(saved)
    except KeyboardInterrupt:
        watcher.say_goodbye()


def saves(folder: Path) -> Iterator[set[Path]]:
    """The files below `folder` that are saved, in bursts, for ever. Caches and hidden files do not count."""
    from watchfiles import watch as watch_files

    for changes in watch_files(folder, debounce=SETTLE_MILLISECONDS, step=20, raise_interrupt=True):
        saved = {Path(path) for _, path in changes}
        yield {path for path in saved if path.suffix in WATCHED_SUFFIXES and not path.name.startswith(".")}


class Watcher:
    """Knows which stage is worked on, and shows where it stands."""

    def __init__(
        self, course: Course, grade: Callable[[str], StageResult], watched: str, file: TextIO
    ) -> None:
        self._course = course
        self._grade = grade
        self._watched = watched
        self._file = file
        self._stage = course.stages[0]
        self._done: dict[str, set[str]] = {}

    def begin(self, stage: Stage | None) -> None:
        """Show `stage`, or the first one that is not complete."""
        self._stage = stage or self._stage
        self._show_from(self._stage)

    def saved(self, files: set[Path]) -> None:
        """Grade again after a save: the stage worked on, or the one whose files were saved."""
        if not files:
            return
        folders = {part for path in files for part in path.parts}
        touched = [stage for stage in self._course.stages if stage.folder in folders]
        if touched and self._stage not in touched:
            self._stage = touched[0]
        self._show_from(self._stage)

    def say_goodbye(self) -> None:
        self._write("\nStopped watching. Your files are as you saved them.\n")

    def _show_from(self, stage: Stage) -> None:
        """Show the first stage from `stage` on that is not complete, and what has just been finished."""
        news: list[str] = []
        for upcoming in self._in_order_from(stage):
            self._stage = upcoming
            try:
                result = self._grade(upcoming.name)
            except (UsageError, GraderFailed) as error:
                self._show_trouble(str(error), news)
                return
            news += self._news(result)
            if not is_complete(result):
                self._show(result, news)
                return
        self._show_trouble("Every stage is complete: the Transformer is yours.", news)

    def _in_order_from(self, stage: Stage) -> list[Stage]:
        """`stage`, the stages after it, and then those before it."""
        at = self._course.stages.index(stage)
        return [*self._course.stages[at:], *self._course.stages[:at]]

    def _news(self, result: StageResult) -> list[str]:
        """The exercises of a stage that have been finished for the first time since watching began."""
        before = self._done.get(result.stage)
        now = {exercise.name for exercise in result.exercises if exercise.status == "passed"}
        self._done[result.stage] = now | (before or set())
        finished = [
            each.name for each in result.exercises if before is not None and each.name in now - before
        ]
        news = [f"{', '.join(finished)}: done."] if finished else []
        if finished and is_complete(result):
            news.append(f"{result.stage} is complete.")
        return news

    def _show(self, result: StageResult, news: list[str]) -> None:
        look = look_of(self._file)
        self._show_page(look, news, render(result, look, details="first"))

    def _show_trouble(self, sentence: str, news: list[str]) -> None:
        look = look_of(self._file)
        page = Page(look)
        page.paragraph(one_line(sentence))
        self._show_page(look, news, page.text())

    def _show_page(self, look: Look, news: list[str], report: str) -> None:
        page = Page(look)
        for sentence in news:
            page.paragraph((sentence, "bold green"))
        if news:
            page.blank()
        ending = Page(look)
        ending.blank()
        ending.paragraph(
            (
                f"Watching {self._watched}/{self._stage.folder}. Save a file to grade again, Ctrl-C ends.",
                "dim",
            )
        )
        start = CLEAR_SCREEN if self._file.isatty() else "\n"
        self._write(start + page.text() + report + ending.text())

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
