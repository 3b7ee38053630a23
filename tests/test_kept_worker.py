"""Checks that pass share one worker; one that does not pass gets a fresh one, and so does the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.collect import load_check_file
from grader.course import Course
from grader.driver import Options, Run
from grader.forked import ForkedWorkers, ZygoteProcess, can_fork
from grader.links import Link
from grader.result import CheckResult
from grader.runner import Runner
from grader.wire import Setup

STAGE = STAGES[0]
SOLUTION = (ROOT / "solutions" / STAGE.folder / "attention.py").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(not can_fork(), reason="there is no fork here")


class Counted(ForkedWorkers):
    """Counts the workers that it starts."""

    started = 0

    def start(self, setup: Setup) -> Link:
        self.started += 1
        return super().start(setup)


@pytest.fixture(scope="module")
def zygote() -> Iterator[ZygoteProcess]:
    zygote = ZygoteProcess()
    zygote.ready()
    yield zygote
    zygote.close()


def graded(
    course: Course, zygote: ZygoteProcess, submission: Path, exercises: set[str]
) -> tuple[list[CheckResult], int]:
    """The results of some exercises' checks, and how many workers they took."""
    job = Run(ROOT, course, STAGE, submission, Options(seed=1)).job
    job.only = [one.id for one in job.declared if one.exercise in exercises]
    workers = Counted(zygote.control)
    runner = Runner(job, workers)
    runner._code = {}  # what compiles the sources is a worker too, but no check runs in it
    results = [
        runner.run(one, getattr(load_check_file(Path(job.checks) / one.file), one.function))
        for one in job.declared
        if one.id in job.only
    ]
    runner.close()
    workers.close()
    return results, workers.started


def test_checks_that_pass_share_a_worker(course: Course, zygote: ZygoteProcess) -> None:
    results, started = graded(course, zygote, ROOT / "solutions", {"padding_mask", "causal_mask"})
    assert len(results) > 4
    assert {result.status for result in results} == {"passed"}
    assert started == 1


def test_checks_that_fail_have_one_each(course: Course, zygote: ZygoteProcess, tmp_path: Path) -> None:
    wrong = SOLUTION.replace("d_k = query.size(-1)", "raise RuntimeError")
    submission = lay_submission(tmp_path, STAGE, {"attention.py": wrong})
    results, started = graded(course, zygote, submission, {"scaled_dot_product_attention"})
    failed = sum(result.status != "passed" for result in results)
    assert failed > 1
    assert started == failed == len(results)


def test_exercises_that_may_use_other_layers_share_none(course: Course, zygote: ZygoteProcess) -> None:
    """What was taken out of torch for one exercise cannot be put back for the next."""
    job = Run(ROOT, course, STAGE, ROOT / "solutions", Options(seed=1)).job
    job.forbidden = {"causal_mask": ["torch.nn.functional.layer_norm"]}
    workers = Counted(zygote.control)
    runner = Runner(job, workers)
    link = workers.start(runner._setup("padding_mask"))
    assert link.renew(runner._setup("padding_mask"))
    assert not link.renew(runner._setup("causal_mask"))
    link.close()
    workers.close()
