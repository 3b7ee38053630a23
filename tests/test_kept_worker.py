"""Checks that pass share one worker; one that does not pass gets a fresh one, and so does the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.collect import load_check_file
from grader.course import Course
from grader.driver import Engine, Options, Run
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
    course: Course,
    zygote: ZygoteProcess,
    submission: Path,
    exercises: set[str],
    forbidden: dict[str, list[str]] | None = None,
) -> tuple[list[CheckResult], int]:
    """The results of some exercises' checks, and how many workers they took."""
    job = Run(ROOT, course, STAGE, submission, Options(seed=1)).job
    job.only = [one.id for one in job.declared if one.exercise in exercises]
    job.forbidden = job.forbidden if forbidden is None else forbidden
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
    rules = {"causal_mask": ["torch.nn.functional.layer_norm"]}
    _, together = graded(course, zygote, ROOT / "solutions", {"padding_mask", "causal_mask"}, {})
    _, apart = graded(course, zygote, ROOT / "solutions", {"padding_mask", "causal_mask"}, rules)
    assert together == 1
    assert apart > 1


HEDGE = """
import os
ran_before = os.path.exists("been_here")
open("been_here", "w").close()
"""


def test_two_answers_are_not_two_chances(engine: Engine, tmp_path: Path) -> None:
    """It answers in one way where it ran before, in another way in a fresh process: what counts is the fresh one."""
    scores = []
    for ran_before in ("ran_before", "False"):
        source = SOLUTION.replace(
            "everything.tril()", f"(everything.tril() if {ran_before} else everything.triu())"
        ).replace("math.sqrt(d_k)", f"(d_k if {ran_before} else math.sqrt(d_k))")
        submission = lay_submission(tmp_path / ran_before, STAGE, {"attention.py": source + HEDGE})
        result = engine.grade(STAGE, submission, Options(seed=5))
        scores.append(result.score)
    assert scores[0] == scores[1] < result.max_score


def test_a_submission_that_does_not_let_itself_be_forgotten_is_graded(engine: Engine, tmp_path: Path) -> None:
    """It hangs when its modules are removed, which is not its own time."""
    late = """
import sys, time


class Late:
    def __del__(self):
        time.sleep(10_000)


sys.modules["submission.late"] = Late()
"""
    submission = lay_submission(tmp_path, STAGE, {"attention.py": SOLUTION + late})
    result = engine.grade(STAGE, submission, Options(seed=5, selection="padding_mask or causal_mask"))
    assert {check.status for check in result.checks} == {"passed"}
