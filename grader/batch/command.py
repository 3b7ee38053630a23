"""What `python -m grader batch` does: from a folder of submissions to grades in a folder."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from grader.batch.diff import Comparing
from grader.batch.grading import Batch, Publishing
from grader.batch.intake import Submitted, submissions
from grader.batch.lock import locked
from grader.batch.merge import SHARED, merge
from grader.batch.progress import Progress, clock
from grader.batch.roster import match, read_roster
from grader.batch.shard import parse_shard, part
from grader.batch.store import Store
from grader.course import Course, Stage
from grader.driver import Options
from grader.errors import UsageError
from grader.gradebook import Learner
from grader.report.story import count
from grader.report.visible import one_line, without_commands
from grader.scratch import remove
from grader.sources import Earlier

MOST_LISTED = 20
"""Submissions that are listed with their reasons when a run ends."""

PREFIX = "grading-batch-"


class Wishes(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    submissions: Path
    out: Path
    roster: Path | None = None
    jobs: int = 0
    """0 is one for each processor."""
    stages: str = ""
    device: str = "cpu"
    seed: int | None = None
    earlier: Earlier = "reference"
    require_sandbox: bool = True
    diff: bool = False
    shard: str = ""
    scheduler: str = ""


def grade_batch(root: Path, course: Course, wishes: Wishes) -> int:
    """Grades a class; gives the exit code: 3 when the grader failed at something, 130 when it was interrupted."""
    stages = chosen_stages(course, wishes.stages)
    number, of = parse_shard(wishes.shard) if wishes.shard else (1, 1)
    if of > 1 and wishes.seed is None:
        raise UsageError(
            "--shard needs --seed N, the same for every shard: else each would draw other numbers."
        )
    if wishes.scheduler and wishes.jobs:
        raise UsageError(
            "-j is for this machine. With --scheduler the cluster's workers decide: start more of them."
        )
    handed_in = submissions(wishes.submissions, course, wishes.out)
    roster = read_roster(wishes.roster) if wishes.roster else []
    learners, absent = match([one.name for one in handed_in], roster)
    handed_in = part(handed_in, number, of)
    with locked(wishes.out), Store.writing(wishes.out) as store, work_folder(store) as work:
        options = options_of(wishes, store)
        progress = Progress(sys.stderr)
        batch = Batch(root, course, stages, options, store, progress)
        comparing = Comparing(store) if wishes.diff else None
        if comparing is None:
            remember(store, course, stages, options)
            enter_learners(store, handed_in, learners)
        outcomes = comparing or Publishing(store, course)
        try:
            with stoppable():
                batch.run(handed_in, outcomes, wishes.jobs or processors(), work, wishes.scheduler)
        except KeyboardInterrupt:
            print(stopped(progress), file=sys.stderr)
            return 130
        if comparing is not None:
            print(without_commands(comparing.report()), end="")
            return 0
        for learner in absent if number == 1 else []:
            if learner.submission not in store.submissions():
                store.add_learner(learner)
                batch.leave_blank(learner, outcomes)
        print(
            without_commands(summary(store, progress, wishes, handed_in, learners if roster else None)),
            end="",
        )
        return 3 if progress.states["grader error"] else 0


def merge_batches(sources: list[Path], out: Path) -> int:
    """Puts the gradebooks of shards together in `out`."""
    with locked(out), Store.writing(out) as store:
        total = merge(store, sources)
    print(
        f"{out} holds {count(total, 'submission')}. Next: python -m grader report csv {out} --to grades.csv"
    )
    return 0


def find_similar(
    root: Path, course: Course, folder: Path, stages: str, least: float, most: int, to: Path | None
) -> int:
    """Lists the submissions of a folder that are alike; as a table in `to`, where it is given."""
    from grader.batch.similar import similar
    from grader.report import pairs
    from grader.report.command import write

    with tempfile.TemporaryDirectory(prefix=PREFIX) as work:
        handed_in = submissions(folder, course)
        found = similar(root, course, chosen_stages(course, stages), handed_in, Path(work), least)
    print(pairs.listing(found, most), end="")
    if to is not None:
        write(pairs.table(found), to)
    return 0


def chosen_stages(course: Course, text: str) -> list[Stage]:
    """The stages of '1-4' or 'stage1,3'; all when it is empty. Raises UsageError."""
    if not text:
        return list(course.stages)
    chosen: set[str] = set()
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        names = [stage.name for stage in course.stages]
        start = names.index(course.stage(first).name)
        stop = names.index(course.stage(last).name) if dash else start
        if stop < start:
            raise UsageError(f"--stages {text}: {piece} goes backwards. Write it as 1-4 or 1,3.")
        chosen.update(names[start : stop + 1])
    return [stage for stage in course.stages if stage.name in chosen]


def options_of(wishes: Wishes, store: Store) -> Options:
    """How to grade. A seed that nobody could know is drawn once for each gradebook, so all learners get the same."""
    kept = store.meta("seed")
    seed = wishes.seed if wishes.seed is not None else int(kept) if kept else secrets.randbits(31)
    if not kept:
        store.set_meta("seed", str(seed))
    return Options(wishes.device, seed, wishes.earlier, require_sandbox=wishes.require_sandbox)


def remember(store: Store, course: Course, stages: list[Stage], options: Options) -> None:
    """Writes into the gradebook how it is made."""
    values = (course.title, str(options.seed), options.device, options.earlier)
    for name, value in zip(SHARED, values, strict=True):
        store.set_meta(name, value)
    store.set_meta("version", "1")
    store.set_meta("stages", ",".join(stage.name for stage in stages))


def enter_learners(store: Store, handed_in: list[Submitted], learners: dict[str, Learner]) -> None:
    """Enters what was handed in, and whose it is; without a roster, what is known of a submission stays."""
    known = set(store.submissions())
    for one in handed_in:
        learner = learners.get(one.name)
        if learner is not None or one.name not in known:
            store.add_learner(learner or Learner(one.name))


@contextmanager
def work_folder(store: Store) -> Iterator[Path]:
    """A folder for everything temporary; what a killed run left of its own is removed first."""
    left = Path(store.meta("work") or ".")
    if left.name.startswith(PREFIX):
        remove(str(left))
    folder = tempfile.mkdtemp(prefix=PREFIX)
    store.set_meta("work", folder)
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = folder
    try:
        yield Path(folder)
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        remove(folder)


@contextmanager
def stoppable() -> Iterator[None]:
    """A request to terminate, as a build service sends it, ends the run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTERM"):
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def stopped(progress: Progress) -> str:
    """What is said after Ctrl-C."""
    return (
        f"Stopped: {progress.submissions} of {count(progress.total, 'submission')} are done. "
        "Every finished check is kept; the same command goes on from here."
    )


def summary(
    store: Store,
    progress: Progress,
    wishes: Wishes,
    handed_in: list[Submitted],
    learners: dict[str, Learner] | None,
) -> str:
    """What a run has come to, and the next step."""
    states = progress.states
    lines = [
        f"{count(progress.total, 'submission')}: {states['graded']} graded, {states['ungradable']} ungradable, "
        f"{count(states['grader error'], 'grader error')}.",
        f"{count(progress.checks_run, 'check')} run, {progress.checks_known} known before; {clock(progress.seconds)}.",
    ]
    names = {one.name for one in handed_in}
    troubled = [(name, reasons) for name, reasons in store.reasons().items() if name in names]
    for name, reasons in troubled[:MOST_LISTED]:
        lines.append(f"  {one_line(name)}: {one_line(' '.join(reasons))}")
    if len(troubled) > MOST_LISTED:
        lines.append(f"  and {len(troubled) - MOST_LISTED} more; the gradebook lists them all")
    if learners is not None:
        strangers = [one.name for one in handed_in if one.name not in learners]
        if strangers:
            named = ", ".join(map(one_line, strangers[:MOST_LISTED]))
            lines.append(f"Not in the roster: {named}{', ...' if len(strangers) > MOST_LISTED else ''}.")
    if states["grader error"]:
        lines.append("A grader error is our fault and no grade. The same command tries it again.")
    lines.append(f"Next: python -m grader report csv {wishes.out} --to grades.csv")
    return "\n".join(lines) + "\n"
