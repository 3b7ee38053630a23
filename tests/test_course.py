"""`stages/course.toml` is read exactly, and a mistake in it is one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import COURSE_FILE, CourseError, UnknownStage, load_course
from grader.errors import UsageError

ROOT = Path(__file__).parents[1]

COURSE = """\
title = "A course"
forbidden = ["torch.nn.Transformer"]

[[stage]]
name = "stage1"
folder = "stage1_counting"
title = "Counting"

[[stage.exercise]]
name = "count"
file = "counting.py"
points = 2

[[stage.exercise]]
name = "Counter"
file = "counter.py"
points = 1.5
forbidden = ["collections.Counter"]

[[stage.exercise]]
name = "recount"
file = "counting.py"
points = 0
allowed = ["torch.nn.Transformer"]

[[stage]]
name = "stage2"
folder = "stage2_adding"
title = "Adding"
seconds_per_check = 3

[[stage.exercise]]
name = "add"
file = "adding.py"
points = 1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("stage1_counting", "stage2_adding"):
        (tmp_path / "stages" / folder).mkdir(parents=True)
    write(tmp_path, COURSE)
    return tmp_path


def write(root: Path, text: str) -> None:
    (root / COURSE_FILE).write_text(text, encoding="utf-8")


def test_reads_what_is_written(root: Path) -> None:
    course = load_course(root)
    first, second = course.stages
    assert (course.title, course.forbidden) == ("A course", ("torch.nn.Transformer",))
    assert (first.name, first.folder, first.title) == ("stage1", "stage1_counting", "Counting")
    assert [exercise.name for exercise in first.exercises] == ["count", "Counter", "recount"]
    assert [exercise.points for exercise in first.exercises] == [2.0, 1.5, 0.0]
    assert first.exercises[1].forbidden == ("collections.Counter",)
    assert first.exercises[2].allowed == ("torch.nn.Transformer",)
    assert (first.seconds_per_check, second.seconds_per_check) == (10.0, 3.0)


def test_files_are_distinct_and_in_order(root: Path) -> None:
    assert load_course(root).stages[0].files == ("counting.py", "counter.py")


def test_a_course_is_frozen(root: Path) -> None:
    with pytest.raises(AttributeError):
        load_course(root).stages[0].name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["stage2", "2", "stage2_adding"])
def test_a_stage_is_found_by_name_number_and_folder(root: Path, name: str) -> None:
    assert load_course(root).stage(name).title == "Adding"


def test_an_unknown_stage_is_answered_with_those_there_are(root: Path) -> None:
    with pytest.raises(UnknownStage, match=r"'stage9'.*stage1, stage2"):
        load_course(root).stage("stage9")


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(root: Path) -> None:
    expected = load_course(root)
    (root / COURSE_FILE).write_bytes(b"\xef\xbb\xbf" + COURSE.replace("\n", "\r\n").encode())
    assert load_course(root) == expected


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("points = 2", "pionts = 2", ["stage1, count", "`pionts`", "Remove"]),
        ("seconds_per_check", "seconds", ["stage2", "`seconds`"]),
        ("forbidden =", "banned =", ["`banned`"]),
        ("points = 2\n", "", ["stage1, count", "`points`", "missing"]),
        ("points = 2", 'points = "two"', ["stage1, count, points", "`float`", "`str`"]),
        ("points = 2", "points = -1", ["stage1, count", "`points` is -1"]),
        ("points = 2", "points = nan", ["stage1, count", "`points` is nan"]),
        ("seconds_per_check = 3", "seconds_per_check = 0", ["stage2", "`seconds_per_check` is 0"]),
        ('name = "recount"', 'name = "count"', ["stage1", "'count' is listed twice"]),
        ('name = "stage2"', 'name = "stage1"', ["'stage1' is listed twice"]),
        ('folder = "stage2_adding"', 'folder = "stage1_counting"', ["'stage1_counting' is listed twice"]),
        ('folder = "stage2_adding"', 'folder = "stage2_sums"', ["stage2", "no folder stages/stage2_sums"]),
        ('folder = "stage2_adding"', 'folder = "../stage2"', ["stage2", "cannot be imported"]),
        ('name = "stage2"', 'name = "stage 2"', ["'stage 2'", "does not fit"]),
        ('file = "adding.py"', 'file = "../adding.py"', ["stage2, add", "'../adding.py'"]),
        ('file = "adding.py"', 'file = "demo.py"', ["stage2, add", "'demo.py'"]),
        ('name = "add"', 'name = "add()"', ["stage2, add()", "not the name"]),
        ('"collections.Counter"', '"Counter"', ["stage1, Counter", "'Counter'", "dotted"]),
        (
            'allowed = ["torch.nn.Transformer',
            'allowed = ["torch.nn.Linear',
            ["stage1, recount", "'torch.nn.Linear'"],
        ),
        (COURSE, 'title = "Empty"\nstage = []\n', ["no stage"]),
        (COURSE, "", ["`title`"]),
        (COURSE, "title = = 1\n", ["not TOML", "line 1"]),
    ],
)
def test_a_mistake_is_one_line_that_names_file_place_and_mend(
    root: Path, old: str, new: str, said: list[str]
) -> None:
    assert old in COURSE
    write(root, COURSE.replace(old, new))
    with pytest.raises(CourseError) as caught:
        load_course(root)
    message = str(caught.value)
    assert message.startswith(COURSE_FILE)
    assert "\n" not in message
    assert message.endswith(".")
    for words in said:
        assert words in message


def test_a_missing_course_says_where_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not there\. Run the command in the folder"):
        load_course(tmp_path)


def test_a_course_that_is_not_text_says_so(root: Path) -> None:
    (root / COURSE_FILE).write_bytes(b"title = '\xff'")
    with pytest.raises(CourseError, match="not UTF-8"):
        load_course(root)


def test_this_course_is_well_formed() -> None:
    course = load_course(ROOT)
    assert [stage.name for stage in course.stages][:3] == ["stage1", "stage2", "stage3"]
