"""A class graded by a real Dask scheduler and two workers: as on one machine, also when a worker is killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import psutil
import pytest
from bank import ROOT, STAGES
from little_course import DOUBLE, ENVIRONMENT, SQUARED, LittleCourse, contents, finished, hand_in

from grader.batch.task import Task
from grader.course import load_course
from grader.driver import Options, Run
from grader.errors import UsageError

PATIENCE = 120.0


class Cluster:
    """A scheduler on this machine, and workers in clones of the course."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Starts the scheduler."""
        # The scheduler stands where there is no grader: it only passes on what it is given.
        self._start(
            self._folder, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"
        )
        until(lambda: self.file.exists() and self.file.read_text().rstrip().endswith("}"))
        self.address = str(msgspec.json.decode(self.file.read_bytes())["address"])

    def lose_the_scheduler(self) -> None:
        self._processes[0].kill()

    def worker(self, clone: Path, *options: str) -> subprocess.Popen[bytes]:
        """A worker with one thread."""
        scratch = self._folder / f"worker{len(self._processes)}"
        scratch.mkdir()
        return self._start(
            clone, "worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(scratch),
            *options,
        )  # fmt: skip

    def _start(self, cwd: Path, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self.file)]
        log = (self._folder / f"{what}{len(self._processes)}.log").open("wb")
        process = subprocess.Popen([*command, *options], cwd=cwd, env=ENVIRONMENT, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes[::-1]:
            process.terminate()
            process.wait(PATIENCE)


def until(happened: Callable[[], bool]) -> None:
    """Waits for something; fails when it does not come."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> LittleCourse:
    return LittleCourse(tmp_path_factory.mktemp("course"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    try:
        running.open()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("submissions")
    for number, source in enumerate([DOUBLE, SQUARED, DOUBLE.replace("-x", "x.nothing")] * 5):
        hand_in(folder / f"learner{number:02}", f"{source}\n# {number}\n")
    hand_in(folder / "crashes", DOUBLE.replace("-x", "__import__('os').abort()"))
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(scope="module")
def here(course: LittleCourse, submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class, graded on this machine."""
    out = tmp_path_factory.mktemp("here")
    course.run("batch", submissions, "--out", out, "--seed", "3")
    return out


def workers_of_submissions(process: int) -> list[int]:
    """Everything that a worker of the cluster has started."""
    return [child.pid for child in psutil.Process(process).children(recursive=True)]


def test_a_cluster_gives_the_same_grades_also_when_a_worker_is_killed(
    course: LittleCourse, cluster: Cluster, submissions: Path, here: Path, tmp_path: Path
) -> None:
    first, second = cluster.worker(course.root), cluster.worker(course.root)
    grades = tmp_path / "grades"
    batch = ("batch", submissions, "--out", grades, "--seed", "3", "--scheduler", cluster.address)
    process = course.start(*batch)

    def begun() -> bool:
        """Both workers have a judge, and some results are there already."""
        if process.poll() is not None:
            return True
        busy = all(len(workers_of_submissions(one.pid)) >= 2 for one in (first, second))
        return busy and finished(grades) > 0

    until(begun)
    assert process.poll() is None, process.communicate()
    orphans = workers_of_submissions(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    printed, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, (printed, complaint)
    assert "17 submissions: 16 graded, 1 ungradable, 0 grader errors." in printed
    assert second.poll() is None
    assert contents(grades) == contents(here)
    until(lambda: not [pid for pid in orphans if psutil.pid_exists(pid)])

    again = course.run(*batch)
    assert "0 checks run" in again


def test_a_worker_with_another_course_is_refused(
    course: LittleCourse, cluster: Cluster, submissions: Path, tmp_path: Path
) -> None:
    stale = LittleCourse(tmp_path / "stale")
    path = stale.root / "stages/stage1_double/checks/test_public.py"
    path.write_text(path.read_text() + "\n# another commit\n")
    cluster.worker(stale.root)
    said = course.run(
        "batch", submissions, "--out", tmp_path / "grades", "--scheduler", cluster.address, code=2
    )
    assert "would grade otherwise than this machine (checks of the stage:" in said
    assert said.count("\n") == 1


def test_a_worker_without_the_grader_is_named(
    course: LittleCourse, cluster: Cluster, submissions: Path, tmp_path: Path
) -> None:
    cluster.worker(tmp_path)
    said = course.run(
        "batch", submissions, "--out", tmp_path / "grades", "--scheduler", cluster.address, code=2
    )
    assert "cannot import the grader (No module named 'grader')" in said


def test_a_submission_that_ends_workers_is_a_grader_error_and_the_others_are_graded(
    course: LittleCourse, cluster: Cluster, tmp_path: Path
) -> None:
    """Whatever way it found: here a worker's own grader is made to die of one submission."""
    fragile = LittleCourse(tmp_path / "fragile")
    remote = fragile.root / "grader/batch/remote.py"
    begin = "    found = surroundings(asked)\n"
    deadly = "    if 'deadly' in str(asked.sources):\n        __import__('os').abort()\n"
    remote.write_text(remote.read_text().replace(begin, deadly + begin))
    hand_in(tmp_path / "class" / "ada")
    hand_in(tmp_path / "class" / "eve", DOUBLE + "# deadly\n")
    for _ in range(5):
        cluster.worker(fragile.root)
    said = course.run(
        "batch", tmp_path / "class", "--out", tmp_path / "grades", "--scheduler", cluster.address, code=3
    )
    assert "2 submissions: 1 graded, 0 ungradable, 1 grader error." in said
    assert "the cluster's workers died again and again" in said


def test_a_scheduler_that_is_lost_ends_the_run_and_costs_nothing(
    course: LittleCourse, cluster: Cluster, submissions: Path, here: Path, tmp_path: Path
) -> None:
    cluster.worker(course.root)
    grades = tmp_path / "grades"
    process = course.start(
        "batch", submissions, "--out", grades, "--seed", "3", "--scheduler", cluster.address
    )

    until(lambda: process.poll() is not None or finished(grades) > 0)
    assert process.poll() is None, process.communicate()
    cluster.lose_the_scheduler()
    printed, complaint = process.communicate(timeout=300)
    assert process.returncode == 2, (printed, complaint)
    last = complaint.splitlines()[-1]
    assert (
        last.startswith(f"The scheduler at {cluster.address} does not answer any more.")
        and "goes on from here" in last
    )
    course.run("batch", submissions, "--out", grades, "--seed", "3")
    assert contents(grades) == contents(here)


def test_a_cluster_without_workers_is_waited_for_and_then_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader.batch import cluster as driver

    monkeypatch.setattr(driver, "WORKERS_SECONDS", 0.5)
    executor = driver.Cluster(cluster.address, lambda task, result: None, lambda task: None)
    run = Run(ROOT, load_course(ROOT), STAGES[0], ROOT / "solutions", Options())
    task = cast(Task, SimpleNamespace(job=lambda: run.job))
    try:
        executor.run(iter([]))  # nothing to do needs no worker
        with pytest.raises(UsageError, match="has no workers. Start some, as docs/cluster.md shows"):
            executor.run(iter([task]))
    finally:
        executor.close()


def test_no_scheduler_and_a_wrong_address_are_said(
    course: LittleCourse, submissions: Path, tmp_path: Path
) -> None:
    for address, answer in (
        ("tcp://127.0.0.1:1", "No Dask scheduler answers at tcp://127.0.0.1:1."),
        ("nonsense://x", "--scheduler nonsense://x: this is no address"),
    ):
        said = course.run("batch", submissions, "--out", tmp_path / "grades", "--scheduler", address, code=2)
        assert said.startswith(answer) and said.count("\n") == 1
    said = course.run(
        "batch", submissions, "--out", tmp_path, "-j", "2", "--scheduler", "tcp://127.0.0.1:1", code=2
    )
    assert "-j is for this machine" in said


PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_grade_a_class(course: LittleCourse, tmp_path: Path) -> None:
    hand_in(course.root / "submissions" / "ada")
    install, (scheduler, worker, batch) = code_blocks("console")[0], code_blocks("console")[1].splitlines()
    assert install == "python -m pip install -c constraints.txt distributed\n"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    log = (tmp_path / "log").open("wb")
    running = []
    try:
        for command in (scheduler, worker):
            words = command.replace("8786", port).split()[1:]
            running.append(
                subprocess.Popen(
                    [sys.executable, *words], cwd=course.root, env=ENVIRONMENT, stdout=log, stderr=log
                )
            )
        said = course.run(*batch.replace("8786", port).removeprefix("python -m grader ").split())
    finally:
        for process in running[::-1]:
            process.terminate()
            process.wait(PATIENCE)
    assert "1 submission: 1 graded, 0 ungradable, 0 grader errors." in said


def test_the_job_of_the_page_starts_a_worker_in_the_clone() -> None:
    slurm, kubernetes = code_blocks("python")
    names: dict[str, Any] = {}
    exec(slurm.split("cluster.scale")[0], names)
    script = names["cluster"].job_script()
    names["cluster"].close()
    lines = script.splitlines()
    assert lines.index("cd /shared/course") < lines.index("export PYTHONPATH=/shared/course")
    start = next(line for line in lines if "distributed.cli.dask_worker" in line)
    assert start.startswith("/shared/course/.venv/bin/python -m ") and "--nthreads 1 " in start
    compile(kubernetes, "kubernetes", "exec")
