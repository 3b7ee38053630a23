"""Plain pytest: `pytest stages/stage1_attention` runs the same checks in the same way as the nox session.

pyproject.toml loads this plugin. It acts on files below `stages/*/checks` alone, and imports nothing heavy before it
meets one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from grader.collect import Grading
    from grader.driver import Run
    from grader.forked import ZygoteProcess
    from grader.links import Workers
    from grader.result import CheckResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `python -m grader grade`, for checks run by plain pytest."""
    group = parser.getgroup("course", "grading a stage")
    group.addoption(
        "--submission", metavar="DIR", help="folder that holds the stage folders (default: stages)"
    )
    group.addoption("--device", default="cpu", help="cpu, cuda or mps")
    group.addoption("--seed", default=0, type=int, help="seed of the numbers that the checks draw")
    group.addoption(
        "--earlier", default="own", choices=["own", "reference"], help="whose earlier stages are used"
    )
    group.addoption("--debug-submission", action="store_true", help="run the submission in this process")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the collector of checks."""
    if not config.pluginmanager.has_plugin("course-checks"):
        config.pluginmanager.register(Checks(config), "course-checks")


class Checks:
    """Makes a grading for each stage that is met, and reports the stages in the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stages: dict[Path, tuple[Run, Grading]] = {}
        self._results: dict[Path, dict[str, CheckResult]] = {}
        self._left_out: set[str] = set()
        self._zygote: ZygoteProcess | None = None
        self._workers: Workers | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """A check file is collected as checks."""
        root = course_root(module_path)
        if root is None:
            return None
        from grader.collect import check_file

        return check_file(module_path, parent, self._grading(root, module_path.parent))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Checks that -k left out do not count."""
        if self._stages:
            from grader.collect import deselected_ids

            self._left_out.update(deselected_ids(items))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The same report as `nox -s stageN` prints."""
        if not self._stages:
            return
        from grader.job import Finished
        from grader.judge import versions
        from grader.report.plain import render

        for checks, (run, _) in self._stages.items():
            described = self._workers.held().describe() if self._workers else ""
            result = run.result(self._results[checks], self._left_out, Finished(versions(), described))
            if result.checks:
                terminalreporter.section(f"{result.stage}: {result.title}")
                terminalreporter.write(render(result))

    def pytest_unconfigure(self) -> None:
        """Ends the workers."""
        if self._workers is not None:
            self._workers.close()
        if self._zygote is not None:
            self._zygote.close()

    def _grading(self, root: Path, checks: Path) -> Grading:
        if checks not in self._stages:
            self._stages[checks] = self._prepare(root, checks)
        return self._stages[checks][1]

    def _prepare(self, root: Path, checks: Path) -> tuple[Run, Grading]:
        from grader.collect import Grading
        from grader.course import load_course
        from grader.driver import GraderFailed, Options, Run
        from grader.errors import UsageError
        from grader.judge import device_refusal
        from grader.runner import Runner

        option = self._config.getoption
        options = Options(
            option("--device"), option("--seed"), option("--earlier"), "", option("--debug-submission")
        )
        try:
            course = load_course(root)
            stage = course.stage(checks.parent.name)
            run = Run(root, course, stage, Path(option("--submission") or root / "stages"), options)
            if refusal := device_refusal(options.device):
                raise UsageError(refusal)
        except (UsageError, GraderFailed) as error:
            raise pytest.UsageError(str(error)) from None
        results = self._results.setdefault(checks, {})
        # pytest counts each result at once.
        workers = self._workers_of(options.debug, options.device != "cpu")
        runner = Runner(run.job, workers, each_alone=True)
        return run, Grading(runner, run.declared, lambda result: results.__setitem__(result.id, result))

    def _workers_of(self, debug: bool, for_gpu: bool) -> Workers:
        if self._workers is None:
            from grader.forked import ForkedWorkers, ZygoteProcess, can_fork
            from grader.local import LocalWorkers
            from grader.spawned import SpawnedWorkers
            from grader.zygote import Settings

            if debug:
                self._workers = LocalWorkers()
            elif can_fork():
                self._zygote = ZygoteProcess(Settings(for_gpu))
                self._zygote.ready()
                self._workers = ForkedWorkers(self._zygote.control)
            else:
                self._workers = SpawnedWorkers(for_gpu)
        return self._workers


def course_root(path: Path) -> Path | None:
    """The course that a check file (ROOT/stages/FOLDER/checks/test_x.py) belongs to."""
    if path.parent.name != "checks" or path.parent.parent.parent.name != "stages":
        return None
    stages = path.parent.parent.parent
    return stages.parent if (stages / "course.toml").is_file() else None
