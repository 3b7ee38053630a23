"""Whatever is killed, and whenever: in the end every grade is there once, and equal to an undisturbed run's.

KILLS sets how many processes are killed at random moments; SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import cast

import psutil
import pytest
from bank import STAGES
from little_course import DOUBLE, SQUARED, LittleCourse, contents, finished, hand_in, query

from grader.batch.executor import UNSURE
from grader.batch.store import Store
from grader.batch.task import Task
from grader.driver import Run
from grader.errors import UsageError
from grader.result import CheckResult

KILLS = int(os.environ.get("KILLS", "6"))
SEED = int(os.environ.get("SEED", "0"))
VICTIMS = ("driver", "worker", "judge", "zygote")
CHECKS = 5


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> LittleCourse:
    return LittleCourse(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("submissions")
    for number, source in enumerate([DOUBLE, SQUARED, DOUBLE.replace("-x", "x.nothing"), DOUBLE, SQUARED]):
        hand_in(folder / f"learner{number}", f"{source}\n# {number}\n")
    hand_in(folder / "crashes", DOUBLE.replace("-x", "__import__('os').abort()"))
    return folder


@pytest.fixture(scope="module")
def undisturbed(course: LittleCourse, submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    course.run("batch", submissions, "--out", out, "--seed", "3")
    return out


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_kill_costs_nothing(
    course: LittleCourse, submissions: Path, undisturbed: Path, tmp_path: Path, kill: int
) -> None:
    rng = random.Random(f"{SEED} {kill}")
    kind = VICTIMS[kill % len(VICTIMS)]
    arguments = ("batch", submissions, "--out", tmp_path, "--seed", "3", "-j", "2")
    process = course.start(*arguments)
    after = rng.randrange(CHECKS * 6)
    moment = rng.random() * 0.2
    while process.poll() is None and finished(tmp_path) < after:
        time.sleep(0.005)
    time.sleep(moment)  # anywhere between two checks
    victim = process.pid
    while kind != "driver" and process.poll() is None:
        candidates = children(process.pid, kind)
        if candidates:
            victim = rng.choice(candidates)
            break
    if process.poll() is None:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it had just ended
    said = process.communicate(timeout=300)
    if kind == "driver":
        assert process.returncode in (0, -signal.SIGKILL)
    else:
        assert process.returncode == 0, said
    before = (
        query(tmp_path, "SELECT key, finished FROM checks") if (tmp_path / "grades.sqlite").exists() else []
    )
    course.run(*arguments)
    after_all = dict(query(tmp_path, "SELECT key, finished FROM checks"))
    assert all(after_all[key] == moment for key, moment in before), "a finished check was graded again"
    assert contents(tmp_path) == contents(undisturbed)
    ((work,),) = query(tmp_path, "SELECT value FROM meta WHERE name = 'work'")
    assert not Path(str(work)).exists()


def test_a_kill_in_the_second_try_of_a_crash_decides_nothing() -> None:
    """What may have come from outside counts when it comes again, not when something else does."""
    task = Task("ada", STAGES[0], cast(Run, None), {})
    results = [
        CheckResult("stage1/check", "exercise", "title", status, 0.0, 1.0, False)
        for status in ("crashed", "grader_error", "crashed")
    ]
    assert [task.takes(result, UNSURE) for result in results] == [False, False, True]
    assert task.results["stage1/check"].status == "crashed"


def test_a_full_disk_ends_the_run_and_costs_nothing(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradebook takes rows until its file may not grow; what it took is there afterwards, and no half row."""
    rows = query(undisturbed, "SELECT * FROM checks")
    with Store.writing(tmp_path) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        taken = 0
        with pytest.raises(
            UsageError, match="Make room on the disk .* every check that was finished is kept"
        ):
            for row in rows * 10:
                store._write(
                    f"INSERT INTO checks VALUES ({','.join('?' * len(row))})", (f"{taken}", *row[1:])
                )
                taken += 1
    assert taken
    assert query(tmp_path, "SELECT COUNT(*) FROM checks") == [(taken,)]
    assert query(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def children(driver: int, kind: str) -> list[int]:
    """The zygote that a driver started, or what it forked: workers live in their scratch folders, judges do not."""
    found = []
    try:
        for zygote in psutil.Process(driver).children():
            if kind == "zygote":
                found.append(zygote.pid)
                continue
            for child in zygote.children():
                try:
                    in_scratch = "grading-" in os.readlink(f"/proc/{child.pid}/cwd")
                except OSError:
                    continue
                if in_scratch == (kind == "worker"):
                    found.append(child.pid)
    except psutil.Error:
        pass
    return found
