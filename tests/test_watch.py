"""Watching grades again on every save, and moves on."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.driver import GraderFailed
from grader.errors import UsageError
from grader.result import CheckResult, ExerciseResult, StageResult, Status
from grader.watch import CLEAR_SCREEN, saves, watch

COURSE = "title = 'Course'\n" + "".join(
    f"""
[[stage]]
name = "stage{number}"
folder = "stage{number}_{word}"
title = "{word.capitalize()}"
[[stage.exercise]]
name = "first{number}"
file = "a.py"
points = 1
[[stage.exercise]]
name = "second{number}"
file = "a.py"
points = 1
"""
    for number, word in [(1, "counting"), (2, "adding"), (3, "proving")]
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Learner:
    """Stands in for grading: what is done so far, and which stages were graded."""

    def __init__(self, *done: str) -> None:
        self.done = set(done)
        self.graded: list[str] = []
        self.trouble: Exception | None = None

    def grade(self, stage: str) -> StageResult:
        self.graded.append(stage)
        if self.trouble is not None:
            raise self.trouble
        number = stage[-1]
        exercises, checks = [], []
        for name in (f"first{number}", f"second{number}"):
            status: Status = "passed" if name in self.done else "todo"
            exercises.append(ExerciseResult(name, "a.py", 3, status, status == "passed", 1))
            checks.append(CheckResult(f"{stage}/{name}", name, f"{name} holds.", status, 0, 1, False))
        return StageResult(
            "Course",
            stage,
            stage.capitalize(),
            "stages",
            "cpu",
            0,
            "own",
            "",
            {},
            "none",
            0,
            2,
            1.0,
            exercises,
            checks,
            folder=f"{stage}_x",
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("stage1_counting", "stage2_adding", "stage3_proving"):
        (tmp_path / "stages" / folder).mkdir(parents=True)
    (tmp_path / "stages" / "course.toml").write_text(COURSE, encoding="utf-8")
    return tmp_path


def screens(
    root: Path, learner: Learner, saved: list[tuple[str, set[str]]], stage: str | None = None
) -> list[str]:
    """What is shown at first and after each save: what is done by then, and the files that were saved."""

    def changes() -> Iterator[set[Path]]:
        for done, files in saved:
            learner.done |= {done} if done else set()
            yield {root / "stages" / file for file in files}
        raise KeyboardInterrupt

    shown = Terminal()
    watch(root, learner.grade, stage, changes=changes(), file=shown)
    before, *pages = shown.getvalue().split(CLEAR_SCREEN)
    assert before == ""
    assert pages[-1].endswith("\nStopped watching. Your files are as you saved them.\n")
    return pages


def test_it_begins_with_the_first_stage_that_is_not_complete(root: Path) -> None:
    learner = Learner("first1", "second1", "first2")
    (page,) = screens(root, learner, [])
    assert learner.graded == ["stage1", "stage2"]
    assert "Stage 2" in page
    assert "Write second2 in a.py:3." in page
    assert "Watching stages/stage2_adding. Save a file to grade again, Ctrl-C ends." in page
    assert "done." not in page, "what was done before is no news"


def test_it_moves_on_to_the_next_exercise_and_the_next_stage(root: Path) -> None:
    learner = Learner()
    file = {"stage1_counting/a.py"}
    pages = screens(root, learner, [("", file), ("first1", file), ("second1", file)])
    assert "Write first1 in" in pages[0]
    assert "Write first1 in" in pages[1]
    assert "first1: done." in pages[2]
    assert "Write second1 in" in pages[2]
    assert "second1: done." in pages[3]
    assert "stage1 is complete." in pages[3]
    assert "Stage 2" in pages[3]
    assert "Write first2 in" in pages[3]
    assert learner.graded == ["stage1"] * 4 + ["stage2"]


def test_a_stage_can_be_asked_for_and_a_save_elsewhere_turns_there(root: Path) -> None:
    learner = Learner()
    pages = screens(root, learner, [("", {"stage1_counting/a.py"}), ("", {"course.toml"})], stage="3")
    assert "Stage 3" in pages[0]
    assert "Stage 1" in pages[1]
    assert "Stage 1" in pages[2]


def test_saving_several_stages_together_stays(root: Path) -> None:
    learner = Learner()
    pages = screens(root, learner, [("", {"stage1_counting/a.py", "stage2_adding/a.py"})], stage="stage2")
    assert "Stage 2" in pages[1]


def test_after_the_last_stage_come_those_left_out(root: Path) -> None:
    learner = Learner("first3", "second3")
    (page,) = screens(root, learner, [], stage="3")
    assert learner.graded == ["stage3", "stage1"]
    assert "Stage 1" in page


def test_what_breaks_and_is_mended_again_is_no_news(root: Path) -> None:
    learner = Learner("first1")

    def changes() -> Iterator[set[Path]]:
        for done in (set[str](), {"first1"}):
            learner.done = done
            yield {root / "stages" / "stage1_counting" / "a.py"}

    shown = Terminal()
    watch(root, learner.grade, changes=changes(), file=shown)
    assert "done." not in shown.getvalue()


def test_a_finished_course_says_so_and_goes_on_watching(root: Path) -> None:
    learner = Learner(*(f"{word}{number}" for word in ("first", "second") for number in (1, 2, 3)))
    pages = screens(root, learner, [("", {"stage2_adding/a.py"})])
    assert all("Every stage is complete" in page for page in pages)
    assert len(pages) == 2


@pytest.mark.parametrize("trouble", [UsageError("stages/x is not there."), GraderFailed("the judge is gone")])
def test_trouble_is_one_sentence_and_the_next_save_tries_again(root: Path, trouble: Exception) -> None:
    learner = Learner()
    learner.trouble = trouble
    file = {"stage1_counting/a.py"}

    def changes() -> Iterator[set[Path]]:
        learner.trouble = None
        yield {root / "stages" / name for name in file}

    shown = Terminal()
    watch(root, learner.grade, changes=changes(), file=shown)
    pages = shown.getvalue().split(CLEAR_SCREEN)
    assert pages[1].startswith(f"{trouble}\n")
    assert "Write first1 in" in pages[2]


def test_ctrl_c_while_grading_ends_it_calmly(root: Path) -> None:
    learner = Learner()
    learner.trouble = KeyboardInterrupt()  # type: ignore[assignment]
    shown = Terminal()
    watch(root, learner.grade, changes=[], file=shown)
    assert shown.getvalue() == "\nStopped watching. Your files are as you saved them.\n"


def test_without_a_terminal_there_are_no_control_codes(root: Path) -> None:
    pipe = io.StringIO()
    watch(root, Learner().grade, changes=[{root / "stages" / "stage1_counting" / "a.py"}], file=pipe)
    assert "\x1b" not in pipe.getvalue()
    assert pipe.getvalue().count("Watching stages/stage1_counting") == 2


def test_another_folder_can_be_watched(root: Path) -> None:
    shown = io.StringIO()
    watch(root, Learner().grade, folder=root / "solutions", changes=[], file=shown)
    assert "Watching solutions/stage1_counting." in shown.getvalue()


def test_an_unknown_stage_is_refused_before_anything_is_graded(root: Path) -> None:
    learner = Learner()
    with pytest.raises(UsageError, match="no stage 'stage9'"):
        watch(root, learner.grade, "stage9", changes=[], file=io.StringIO())
    assert learner.graded == []


def test_real_saves_are_seen_and_other_files_are_not(root: Path) -> None:
    folder = root / "stages" / "stage1_counting"
    coming = saves(root / "stages")
    stop = threading.Event()

    def save() -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            (folder / "notes.txt").write_text(str(number))
            (folder / ".a.py.swp").write_text(str(number))
            partial = folder / "a.py~"
            partial.write_text(f"x = {number}\n")
            os.replace(partial, folder / "a.py")

    editor = threading.Thread(target=save)
    editor.start()
    try:
        seen = next(files for files in coming if files)
    finally:
        stop.set()
        editor.join()
        coming.close()  # type: ignore[attr-defined]
    assert {path.name for path in seen} == {"a.py"}
