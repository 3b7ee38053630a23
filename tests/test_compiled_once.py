"""The modules of a submission are compiled once for all its workers, by one that has run nothing of them."""

from __future__ import annotations

from pathlib import Path

from bank import ROOT, STAGES, lay_submission

from grader.course import Course
from grader.driver import Engine, Options, Run
from grader.links import Link
from grader.local import LocalWorkers
from grader.runner import Runner
from grader.wire import Setup

STAGE = STAGES[4]


class Watched(LocalWorkers):
    """Keeps what each worker was started with."""

    def __init__(self) -> None:
        self.setups: list[Setup] = []

    def start(self, setup: Setup) -> Link:
        self.setups.append(setup)
        return super().start(setup)


def started(course: Course, submission: Path) -> list[Setup]:
    """How the first two workers are started."""
    run = Run(ROOT, course, STAGE, submission, Options(earlier="reference"))
    workers = Watched()
    workers.start(Runner(run.job, workers)._setup(STAGE.exercises[0].name))
    return workers.setups


def test_all_workers_but_the_first_get_compiled_modules(course: Course) -> None:
    first, second = started(course, ROOT / "solutions")
    assert not first.code
    assert set(second.code) == set(second.sources)


def test_a_module_that_does_not_compile_is_told_by_whoever_imports_it(
    course: Course, engine: Engine, tmp_path: Path
) -> None:
    submission = lay_submission(tmp_path, STAGE, {"transformer.py": "def (:\n" + "# long\n" * 5000})
    _, second = started(course, submission)
    assert set(second.sources) - set(second.code) == {f"{STAGE.folder}/transformer.py"}
    result = engine.grade(STAGE, submission, Options(earlier="reference"))
    broken = [check for check in result.checks if check.exercise == "Transformer"]
    assert broken and all("transformer.py:1" in check.next_step for check in broken)
    others = [check for check in result.checks if check.exercise != "Transformer"]
    assert others and all(check.status == "passed" for check in others)


def test_compiling_that_never_ends_well_costs_no_verdict(engine: Engine, tmp_path: Path) -> None:
    """The compiler itself fails on it; the checks say so in the words that they have for it."""
    deep = "x = " + "-" * 100_000 + "1\n"
    submission = lay_submission(tmp_path, STAGE, {"transformer.py": deep})
    result = engine.grade(STAGE, submission, Options(earlier="reference"))
    assert all(
        check.status == ("passed" if check.exercise != "Transformer" else "error") for check in result.checks
    ), {check.id: (check.status, check.findings) for check in result.checks if check.status != "passed"}
