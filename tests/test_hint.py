"""Hints come one step further each time, and every exercise has a ladder of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader.course import Exercise, Stage, load_course
from grader.hint import PROGRESS_FILE, HintsError, load_hints, next_hint
from grader.report.page import Look, columns
from grader.result import CheckResult, ExerciseResult, StageResult, Status

ROOT = Path(__file__).parents[1]
COURSE = load_course(ROOT)
EXERCISES = [(stage, exercise) for stage in COURSE.stages for exercise in stage.exercises]
LOOK = Look(80)

HINTS = """\
[first]
hints = ["What is asked?", "The concept.", "Look there."]

[second]
hints = ['''What
    is asked here?''', "The second concept.", "Look here."]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "stages" / "stage1_counting"
    folder.mkdir(parents=True)
    (folder / "hints.toml").write_text(HINTS, encoding="utf-8")
    return tmp_path


def result(*statuses: Status, stage: str = "stage1", next_step: str = "") -> StageResult:
    names = ["first", "second"]
    exercises = [
        ExerciseResult(name, "a.py", 1, status, 0, 1) for name, status in zip(names, statuses, strict=True)
    ]
    checks = [
        CheckResult(f"{stage}/{name}", name, "It holds.", status, 0, 1, False, next_step=next_step)
        for name, status in zip(names, statuses, strict=True)
    ]
    return StageResult(
        "Course",
        stage,
        "Counting",
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
        folder="stage1_counting",
    )


def test_each_call_goes_one_step_further(root: Path) -> None:
    told = [next_hint(root, result("failed", "todo"), LOOK) for _ in range(4)]
    assert told[0] == "first, hint 1 of 3:\n\n  What is asked?\n\nOne step further: nox -s hint -- 1"
    assert "hint 2 of 3" in told[1]
    assert "The concept." in told[1]
    assert "What is asked?" not in told[1]
    assert "Look there." in told[2]
    assert "That was the last one." in told[2]
    assert "you have had all 3 hints" in told[3]
    assert "1. What is asked?" in told[3]
    assert "3. Look there." in told[3]
    assert "stages/stage1_counting/README.md" in told[3]


def test_the_first_unfinished_exercise_gets_the_hint(root: Path) -> None:
    next_hint(root, result("failed", "todo"), LOOK)
    assert next_hint(root, result("passed", "todo"), LOOK).startswith(
        "second, hint 1 of 3:\n\n  What is asked here?"
    )
    assert next_hint(root, result("failed", "todo"), LOOK).startswith("first, hint 2 of 3")


def test_every_stage_counts_its_own_steps(root: Path) -> None:
    next_hint(root, result("failed", "todo"), LOOK)
    assert "hint 1 of 3" in next_hint(root, result("failed", "todo", stage="stage2"), LOOK)


def test_a_finished_stage_and_a_fault_of_the_grader_need_no_hint(root: Path) -> None:
    assert "Every exercise of stage1 is done." in next_hint(root, result("passed", "passed"), LOOK)
    assert "not your mistake" in next_hint(root, result("grader_error", "passed"), LOOK)


def test_an_exercise_that_waits_names_what_it_waits_for(root: Path) -> None:
    waiting = result(
        "waiting", "waiting", next_step="Write causal_mask in stage1_attention/attention.py first."
    )
    assert next_hint(root, waiting, LOOK) == (
        "first waits for another exercise. Write causal_mask in\nstage1_attention/attention.py first."
    )


@pytest.mark.parametrize("content", [b"", b"\xff{", b"[1]", b'{"stage1": {"first": "two"}}'])
def test_a_broken_memory_begins_anew(root: Path, content: bytes) -> None:
    path = root / PROGRESS_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    assert "hint 1 of 3" in next_hint(root, result("failed", "todo"), LOOK)
    assert "hint 2 of 3" in next_hint(root, result("failed", "todo"), LOOK)


def test_a_hint_is_shown_also_where_nothing_can_be_remembered(root: Path) -> None:
    (root / ".progress").write_text("a file where a folder should be")
    assert "hint 1 of 3" in next_hint(root, result("failed", "todo"), LOOK)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not there, so this stage has no hints"),
        ("[first", "cannot be read"),
        ("[first]\nhint = 3", "cannot be read"),
        ("[second]\nhints = ['x']", "has no hints for first"),
    ],
)
def test_hints_that_cannot_be_read_are_one_line(root: Path, content: str | None, message: str) -> None:
    path = root / "stages" / "stage1_counting" / "hints.toml"
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    with pytest.raises(HintsError, match=message) as error:
        next_hint(root, result("failed", "todo"), LOOK)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("stage", "exercise"), EXERCISES, ids=lambda part: part.name)
def test_every_exercise_has_a_ladder_of_hints(stage: Stage, exercise: Exercise) -> None:
    hints = [" ".join(hint.split()) for hint in load_hints(ROOT, stage.folder)[exercise.name].hints]
    assert len(hints) >= 3
    assert "?" in hints[0], "the first hint asks"
    assert all(20 < len(hint) < 500 for hint in hints)
    assert len(set(hints)) == len(hints)


@pytest.mark.parametrize("stage", COURSE.stages, ids=lambda stage: stage.name)
def test_hints_are_for_the_exercises_of_the_course_and_give_no_code_away(stage: Stage) -> None:
    ladders = load_hints(ROOT, stage.folder)
    assert list(ladders) == [exercise.name for exercise in stage.exercises]
    text = " ".join(" ".join(hint.split()) for ladder in ladders.values() for hint in ladder.hints)
    for file in stage.files:
        for statement in statements(ROOT / "solutions" / stage.folder / file):
            assert statement not in text


def statements(path: Path) -> list[str]:
    """What a solution computes and calls, as text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Call, ast.BinOp)
    return [
        text for node in ast.walk(tree) if isinstance(node, kinds) if len(text := ast.unparse(node)) >= 12
    ]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_hint_fits_the_width(width: int, tmp_path: Path) -> None:
    folder = tmp_path / "stages" / "stage1_counting"
    folder.mkdir(parents=True)
    (folder / "hints.toml").write_text(HINTS.replace("The concept.", "注意力" * 60), encoding="utf-8")
    for _ in range(4):
        text = next_hint(tmp_path, result("failed", "todo"), Look(width))
        assert max(columns(line) for line in text.split("\n")) <= width
