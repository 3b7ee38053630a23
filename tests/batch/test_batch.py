"""A class graded through the command line: what counts, what is not graded and why, and what is graded again."""

from __future__ import annotations

import signal
import tempfile
import time
import zipfile
from pathlib import Path

import psutil
import pytest
from little_course import DOUBLE, SQUARED, LittleCourse, contents, hand_in, query, scores


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> LittleCourse:
    return LittleCourse(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class with everything that happens: folders, a zip, a clone, nothing readable, a crash."""
    folder = tmp_path_factory.mktemp("submissions")
    hand_in(folder / "ada")
    hand_in(folder / "bob" / "stages", SQUARED)
    clone = hand_in(folder / "carl")
    (clone / ".git").mkdir()
    (clone / ".git" / "config").write_text("[core]\n")
    with zipfile.ZipFile(folder / "dora.zip", "w") as archive:
        archive.writestr("dora-main/stages/stage1_double/double.py", DOUBLE + "# dora\n")
    hand_in(folder / "emil", DOUBLE.replace("-x", "__import__('os')._exit(3)"), None)
    hand_in(folder / "fritz", "\x00", None)
    (folder / "gerd").mkdir()
    (folder / "notes.txt").write_text("not a submission")
    return folder


@pytest.fixture(scope="module")
def grades(course: LittleCourse, submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class, graded once."""
    out = tmp_path_factory.mktemp("grades") / "first"
    said = course.run("batch", submissions, "--out", out, "--seed", "5", "-j", "2")
    assert "7 submissions: 6 graded, 1 ungradable, 0 grader errors." in said
    return out


def test_every_submission_has_its_grade_or_a_reason(grades: Path) -> None:
    assert scores(grades) == {
        ("ada", "stage1"): 6, ("ada", "stage2"): 3,
        ("bob", "stage1"): 3, ("bob", "stage2"): 3,
        ("carl", "stage1"): 6, ("carl", "stage2"): 3,
        ("dora", "stage1"): 6, ("dora", "stage2"): 0,
        ("emil", "stage1"): 5, ("emil", "stage2"): 0,
        ("fritz", "stage1"): "ungradable", ("fritz", "stage2"): 0,
        ("gerd", "stage1"): "ungradable", ("gerd", "stage2"): "ungradable",
    }  # fmt: skip
    ((reason,),) = query(grades, "SELECT reason FROM grades WHERE submission = 'fritz' AND stage = 'stage1'")
    assert reason == "stage1_double/double.py is not text: it holds NUL bytes. Save it as UTF-8 text."


def test_the_mistake_is_named_and_no_path_of_this_machine_is_kept(grades: Path, submissions: Path) -> None:
    assert query(
        grades, "SELECT DISTINCT submission, mistake FROM published_checks WHERE mistake NOT NULL"
    ) == [("bob", "squared")]
    everything = str(query(grades, "SELECT result FROM grades UNION ALL SELECT result FROM checks"))
    assert str(submissions) not in everything and tempfile.gettempdir() not in everything


def test_nothing_is_left_behind(grades: Path) -> None:
    ((work,),) = query(grades, "SELECT value FROM meta WHERE name = 'work'")
    assert not Path(str(work)).exists()
    assert processes_of(str(work)) == []
    assert sorted(path.name for path in grades.iterdir()) == ["grades.sqlite", "lock"]


def test_a_second_run_grades_nothing(course: LittleCourse, submissions: Path, grades: Path) -> None:
    before = contents(grades)
    said = course.run("batch", submissions, "--out", grades)
    assert "0 checks run" in said
    assert contents(grades) == before


def test_equal_code_is_graded_once(grades: Path) -> None:
    keys = "SELECT key FROM grade_checks WHERE submission = ? AND stage = 'stage1'"
    assert query(grades, keys, ["ada"]) == query(grades, keys, ["carl"])


def test_a_changed_check_regrades_what_it_touches(
    submissions: Path, grades: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    course = LittleCourse(tmp_path_factory.mktemp("changed"))
    out = tmp_path / "grades"
    course.run("batch", submissions, "--out", out, "--seed", "5")
    assert contents(out) == contents(grades)
    hidden = course.root / "stages/stage1_double/checks/test_hidden.py"
    hidden.write_text(hidden.read_text().replace(".equals(x + x)", ".equals(x * x)"))
    before = contents(out)
    said = course.run("batch", submissions, "--out", out, "--diff")
    assert (
        "ada, stage1: 6/6 -> 5/6\n  stage1/a_matrix_is_doubled: passed -> failed. The check changed.\n"
        in said
    )
    assert "bob, stage1: 3/6 -> 4/6" in said
    assert "fritz" not in said and "stage2" not in said
    assert "5 submissions would change, 0 would be new. Nothing was published" in said
    assert contents(out) == before
    said = course.run("batch", submissions, "--out", out)
    assert "0 checks run" in said  # what the comparison graded need not be graded again
    assert scores(out)["ada", "stage1"] == 5 and scores(out)["bob", "stage1"] == 4
    assert scores(out)["ada", "stage2"] == 3


def test_a_check_that_calls_a_changed_one_is_regraded_too(
    submissions: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    course = LittleCourse(tmp_path_factory.mktemp("calling"))
    checks = course.root / "stages/stage1_double/checks"
    hidden = checks / "test_hidden.py"
    hidden.write_text(
        hidden.read_text().replace(
            "import check, expect\n", "import check, expect\n\nfrom . import test_public\n"
        )
        + "    test_public.PARTS[0](submission, draw)\n"
    )
    public = checks / "test_public.py"
    public.write_text(public.read_text() + "\n\nPARTS = (test_the_sign_is_turned,)\n")
    out = tmp_path / "grades"
    course.run("batch", submissions, "--out", out, "--seed", "5", "--stages", "1")
    assert scores(out)["ada", "stage1"] == 6
    public.write_text(public.read_text().replace(".equals(-x)", ".equals(x)"))
    course.run("batch", submissions, "--out", out, "--stages", "1")
    # The check that was changed has 1 point, and so has the hidden one that calls it.
    assert scores(out)["ada", "stage1"] == 4


def test_changed_data_regrade_the_stage_whose_checks_read_them(tmp_path: Path) -> None:
    course = LittleCourse(tmp_path / "course")
    data = course.write("data/factor.txt", "2")
    text = (course.root / "stages/course.toml").read_text()
    course.write("stages/course.toml", text.replace('"Doubling"', '"Doubling"\ndata = ["data/factor.txt"]'))
    public = course.root / "stages/stage1_double/checks/test_public.py"
    reading = 'int((Path(__file__).parents[3] / "data/factor.txt").read_text())'
    public.write_text("from pathlib import Path\n" + public.read_text().replace("2 * x,", f"{reading} * x,"))
    hand_in(tmp_path / "class" / "ada")
    arguments = ("batch", tmp_path / "class", "--out", tmp_path / "grades", "--seed", "1")
    course.run(*arguments)
    assert "0 checks run" in course.run(*arguments)
    data.write_text("3")
    said = course.run(*arguments, "--diff")
    assert "stage1/a_number_is_doubled: passed -> failed. The check changed." in said
    assert "stage2" not in said
    data.unlink()
    said = course.run(*arguments, code=2)
    assert "data/factor.txt, which the checks of stage1 read, cannot be read (No such file" in said


def test_a_changed_submission_and_a_changed_environment_are_told_apart(
    course: LittleCourse, tmp_path: Path
) -> None:
    hand_in(tmp_path / "class" / "ada", SQUARED)
    arguments = ("batch", tmp_path / "class", "--out", tmp_path / "grades", "--stages", "1")
    course.run(*arguments, "--seed", "1")
    hand_in(tmp_path / "class" / "ada", DOUBLE)
    said = course.run(*arguments, "--diff")
    assert "ada, stage1: 3/6 -> 6/6" in said
    assert "stage1/a_number_is_doubled: failed -> passed. The submission changed." in said
    said = course.run(*arguments, "--seed", "2", "--diff")
    assert "The submission changed, and the environment changed (seed 1 -> 2)." in said


def test_a_second_writer_is_told_who_the_first_is(
    course: LittleCourse, submissions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grades"
    first = course.start("batch", submissions, "--out", out)
    wait_for(lambda: (out / "lock").exists() and "process" in (out / "lock").read_text())
    said = course.run("batch", submissions, "--out", out, code=2)
    assert f"is in use: process {first.pid} on " in said
    first.communicate(timeout=300)
    assert first.returncode == 0
    assert "0 checks run" in course.run("batch", submissions, "--out", out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_finished(
    course: LittleCourse, submissions: Path, grades: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "grades"
    process = course.start("batch", submissions, "--out", out, "--seed", "5", "-j", "1")
    wait_for(lambda: rows(out) >= 3)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Every finished check is kept; the same command goes on from here." in complaint
    ((work,),) = query(out, "SELECT value FROM meta WHERE name = 'work'")
    assert processes_of(str(work)) == [] and not Path(str(work)).exists()
    finished = rows(out)
    said = course.run("batch", submissions, "--out", out)
    assert f"{rows(out) - finished} checks run" in said
    assert contents(out) == contents(grades)


def test_shards_together_are_the_whole(
    course: LittleCourse, submissions: Path, grades: Path, tmp_path: Path
) -> None:
    parts = []
    for shard in ("1/2", "2/2"):
        parts.append(tmp_path / shard[0])
        course.run("batch", submissions, "--out", parts[-1], "--seed", "5", "--shard", shard)
    assert not {name for name, _ in scores(parts[0])} & {name for name, _ in scores(parts[1])}
    said = course.run("batch", "merge", *parts, "--out", tmp_path / "all")
    assert "holds 7 submissions" in said
    assert contents(tmp_path / "all") == contents(grades)
    course.run("batch", "merge", *parts, "--out", tmp_path / "all")
    assert contents(tmp_path / "all") == contents(grades)


def test_shards_must_be_graded_alike(
    course: LittleCourse, submissions: Path, grades: Path, tmp_path: Path
) -> None:
    said = course.run("batch", submissions, "--out", tmp_path / "g", "--shard", "1/2", code=2)
    assert "--shard needs --seed N" in said
    course.run("batch", submissions, "--out", tmp_path / "g", "--stages", "2", "--seed", "6")
    said = course.run("batch", "merge", grades, tmp_path / "g", "--out", tmp_path / "all", code=2)
    assert "Grade all shards alike" in said
    assert scores(tmp_path / "all") == {}


def test_a_roster_names_learners_and_who_is_missing(
    course: LittleCourse, submissions: Path, grades: Path, tmp_path: Path
) -> None:
    roster = tmp_path / "class.csv"
    roster.write_text(
        "Student,ID,SIS Login ID,Section\n"
        '"Lovelace, Ada",17,ada,A\nBob,18,bob,A\nCarl,19,carl,B\nDora,20,dora,B\nZoe,21,zoe,B\n'
    )
    said = course.run("batch", submissions, "--out", tmp_path / "g", "--roster", roster, "--seed", "5")
    assert "Not in the roster: emil, fritz, gerd." in said
    assert scores(tmp_path / "g")["zoe", "stage1"] == "ungradable"
    assert query(tmp_path / "g", "SELECT name, id, section FROM submissions WHERE submission = 'ada'") == [
        ("Lovelace, Ada", "17", "A")
    ]
    course.run("report", "canvas", tmp_path / "g", "--to", tmp_path / "canvas.csv")
    lines = (tmp_path / "canvas.csv").read_text().splitlines()
    assert lines[:3] == [
        "Student,ID,SIS User ID,SIS Login ID,Section,Stage 1: Doubling,Stage 2: Tripling",
        "    Points Possible,,,,,6,3",
        '"Lovelace, Ada",17,,ada,A,6,3',
    ]
    assert lines[-1] == "Zoe,21,,zoe,B,,"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "--out", "g"], "There is no folder nowhere."),
        (["solutions", "--out", "g"], "solutions is one submission."),
        (["stages/stage1_double/checks", "--out", "g"], "holds no submission"),
        (["stages", "--out", "g", "--stages", "9"], "there is no stage '9'"),
        (["class", "--out", "g", "--stages", "2-1"], "goes backwards"),
        (["class", "--out", "g", "--seed", "1", "--shard", "3/2"], "write K/N"),
        (["class", "--out", "g", "--roster", "nowhere.csv"], "nowhere.csv cannot be read"),
        (["class", "--out", "stages/course.toml"], "cannot be written"),
        (["class"], "Missing option"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(course: LittleCourse, arguments: list[str], said: str) -> None:
    hand_in(course.root / "class" / "ada")
    complaint = course.run("batch", *arguments, code=2)
    assert said in complaint
    assert len(complaint.strip().splitlines()) == 1


def test_a_fault_of_ours_is_no_grade_and_is_tried_again(tmp_path: Path) -> None:
    course = LittleCourse(tmp_path / "course")
    hand_in(tmp_path / "class" / "ada")
    hidden = course.root / "stages/stage1_double/checks/test_hidden.py"
    right = hidden.read_text()
    hidden.write_text(right.replace("x = draw.normal(4) * 0", "x = 1 / 0"))
    said = course.run("batch", tmp_path / "class", "--out", tmp_path / "g", "--stages", "1", code=3)
    assert "1 grader error" in said and "ZeroDivisionError" in said
    assert scores(tmp_path / "g") == {("ada", "stage1"): "grader error"}
    said = course.run("report", "gradescope", tmp_path / "g", "--to", tmp_path / "r", code=3)
    assert "no results.json was written" in said
    hidden.write_text(right)
    said = course.run("batch", tmp_path / "class", "--out", tmp_path / "g", "--stages", "1")
    assert scores(tmp_path / "g") == {("ada", "stage1"): 6}


def test_without_a_sandbox_nobody_is_graded_unless_it_is_said(tmp_path: Path) -> None:
    course = LittleCourse(tmp_path / "course")
    hand_in(tmp_path / "class" / "ada")
    hold = course.root / "grader/sandbox/hold.py"
    hold.write_text(hold.read_text().replace("LOWEST_LANDLOCK = 4", "LOWEST_LANDLOCK = 99"))
    arguments = ("batch", tmp_path / "class", "--out", tmp_path / "g", "--stages", "1")
    said = course.run(*arguments, code=2)
    assert "The sandbox does not hold here" in said and "--allow-unsandboxed" in said
    assert scores(tmp_path / "g") == {}
    course.run(*arguments, "--allow-unsandboxed")
    assert scores(tmp_path / "g") == {("ada", "stage1"): 6}


def rows(grades: Path) -> int:
    """How many checks are finished."""
    if not (grades / "grades.sqlite").exists():
        return 0
    try:
        return int(str(query(grades, "SELECT COUNT(*) FROM checks")[0][0]))
    except Exception:
        return 0


def processes_of(work: str) -> list[int]:
    """The processes whose temporary files lie in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == work:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_for(condition: object, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)
