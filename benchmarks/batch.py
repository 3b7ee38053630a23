"""How fast a class is graded, beside the way that graders in the field work: a pytest process for each submission.

Both grade submissions of the same stages, made from the solutions and each with a text of its own, so that none is
known from another. `python benchmarks/batch.py --submissions 100 --stages 1-5` is the size that the limits are meant
for; the default is smaller. `--synthetic 1000` also grades that many tiny submissions, and shows the driver's memory.
Exits with 1 when a ratio is below its limit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grader.batch.command import chosen_stages  # noqa: E402
from grader.course import Stage, load_course  # noqa: E402

FASTER_THAN_PYTEST = 10.0
TWO_WORKERS = 1.7
ENOUGH_PROCESSORS = 4
"""One worker's judge, zygote and next process keep more than one processor busy, so two of them cannot show it."""
DRIVER_MEMORY = 300 << 20
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> int:
    """Measure, print one line a measurement, and say whether every ratio is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=10, help="submissions in a batch (default: 10)")
    parser.add_argument("--stages", default="1-2", help="stages of each submission (default: 1-2)")
    parser.add_argument("--pytest", type=int, default=1, help="submissions graded by pytest (default: 1)")
    parser.add_argument(
        "--synthetic", type=int, default=0, help="also grade so many tiny submissions (default: 0)"
    )
    parser.add_argument("--quick", action="store_true", help="four submissions of the first stage")
    wanted = parser.parse_args()
    if wanted.quick:
        wanted.submissions, wanted.stages, wanted.pytest = 4, "1", 1
    stages = chosen_stages(load_course(ROOT), wanted.stages)
    with tempfile.TemporaryDirectory(prefix="batch-benchmark-") as name:
        folder = Path(name)
        measured = [compare(folder, stages, wanted.submissions, wanted.pytest, wanted.stages)]
        if wanted.synthetic:
            measured.append(many(folder / "many", stages[0], wanted.synthetic))
    return 0 if all(measured) else 1


def compare(folder: Path, stages: list[Stage], submissions: int, by_pytest: int, named: str) -> bool:
    """Times pytest, then a batch with one worker and with two."""
    lay_class(folder / "class", stages, submissions)
    began, computed = time.perf_counter(), computing()
    for learner in sorted((folder / "class").iterdir())[:by_pytest]:
        for stage in stages:
            grade_by_pytest(stage, learner)
    slow = (time.perf_counter() - began) / by_pytest
    print(line("one pytest process a stage", slow, (computing() - computed) / by_pytest), flush=True)
    seconds = {}
    for jobs in (1, 2):
        began, computed = time.perf_counter(), computing()
        peak = grade_class(folder / "class", folder / f"grades{jobs}", named, jobs)
        seconds[jobs] = (time.perf_counter() - began) / submissions
        text = line(f"batch -j {jobs}", seconds[jobs], (computing() - computed) / submissions)
        print(f"{text}, driver {peak >> 20} MB", flush=True)
    faster, gain = slow / seconds[2], seconds[1] / seconds[2]
    print(f"  batch -j 2 is {faster:.1f} x as fast as pytest (at least {FASTER_THAN_PYTEST:g})")
    enough = len(os.sched_getaffinity(0)) >= ENOUGH_PROCESSORS
    wanted = (
        f"at least {TWO_WORKERS:g}"
        if enough
        else f"not judged with fewer than {ENOUGH_PROCESSORS} processors"
    )
    print(f"  two workers are {gain:.2f} x as fast as one ({wanted})")
    return faster >= FASTER_THAN_PYTEST and (gain >= TWO_WORKERS or not enough)


def line(what: str, seconds: float, computed: float) -> str:
    """One measurement: time as a person feels it, and computing time, which other programs change less."""
    return f"  {what:<28} {seconds:7.2f} s a submission, {computed:6.2f} s of computing"


def computing() -> float:
    """The computing time of all that was run so far, and of what that had run."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def many(folder: Path, stage: Stage, submissions: int) -> bool:
    """Grades many submissions that are quickly told to be wrong; the driver must not grow, and leave nothing."""
    for number in range(submissions):
        target = folder / "class" / f"learner{number:05}" / stage.folder
        target.mkdir(parents=True)
        for name in stage.files:
            (target / name).write_text(f"# {number}\nthis is no Python\n")
    began = time.perf_counter()
    peak = grade_class(folder / "class", folder / "grades", stage.name, 2)
    seconds = time.perf_counter() - began
    connection = sqlite3.connect(folder / "grades" / "grades.sqlite")
    (graded,) = connection.execute("SELECT COUNT(*) FROM grades WHERE state = 'graded'").fetchone()
    (work,) = connection.execute("SELECT value FROM meta WHERE name = 'work'").fetchone()
    connection.close()
    left = Path(work).exists() or processes_of(work)
    print(
        f"  {graded} synthetic submissions in {seconds:.0f} s, driver {peak >> 20} MB (at most {DRIVER_MEMORY >> 20}), "
        f"{'something' if left else 'nothing'} left behind"
    )
    return graded == submissions and peak <= DRIVER_MEMORY and not left


def lay_class(folder: Path, stages: list[Stage], submissions: int) -> None:
    """Submissions that are right, each with a text of its own."""
    for number in range(submissions):
        for stage in stages:
            target = folder / f"learner{number:03}" / stage.folder
            ignored = shutil.ignore_patterns("__pycache__", "demo.py")
            shutil.copytree(ROOT / "solutions" / stage.folder, target, ignore=ignored)
            for name in stage.files:
                with open(target / name, "a", encoding="utf-8") as file:
                    file.write(f"\n# learner {number}\n")


def grade_by_pytest(stage: Stage, learner: Path) -> None:
    """The same checks with the submission in pytest's own process; earlier stages are the submission's."""
    subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"stages/{stage.folder}",
            "--submission", str(learner), "--debug-submission", "--earlier", "reference",
        ],
        cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True,
    )  # fmt: skip


def grade_class(submissions: Path, grades: Path, stages: str, jobs: int) -> int:
    """A batch as a command; gives the most resident memory that its driver had, in bytes."""
    command = [
        "batch",
        str(submissions),
        "--out",
        str(grades),
        "--stages",
        stages,
        "-j",
        str(jobs),
        "--seed",
        "1",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "grader", *command],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(0.2)
    if process.returncode:
        assert process.stderr is not None
        raise SystemExit(process.stderr.read().decode(errors="replace"))
    return peak


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 when it has ended."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def processes_of(work: str) -> list[int]:
    """The processes whose temporary files lie in a folder."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == work:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
