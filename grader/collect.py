"""Checks as pytest items: a checks folder is loaded as a package of its own, apart from any submission."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader.declared import Declared, check_files
from grader.result import CheckResult
from grader.runner import Runner, described_error


class Grading:
    """The checks of one job: how to run them, and where their results go."""

    def __init__(
        self, runner: Runner, declared: list[Declared], report: Callable[[CheckResult], None]
    ) -> None:
        self.runner = runner
        self.declared = declared
        self._report = report
        self.reported: set[str] = set()

    def of_file(self, name: str) -> list[Declared]:
        return [declared for declared in self.declared if declared.file == name]

    def report(self, result: CheckResult) -> None:
        self.reported.add(result.id)
        self._report(result)


class CheckFailure(Exception):
    """Carries a result that is not a pass through pytest."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.title)
        self.result = result


class CheckItem(pytest.Item):
    """One check."""

    def __init__(
        self, *, declared: Declared, module: ModuleType | None, problem: str, grading: Grading, **more: Any
    ) -> None:
        super().__init__(**more)
        self.declared = declared
        self._module = module
        self._problem = problem
        self._grading = grading
        self.extra_keyword_matches.add(declared.exercise)

    def runtest(self) -> None:
        """Runs it, reports the result, and fails unless it passed."""
        function = getattr(self._module, self.declared.function, None)
        if function is None:
            result = self._grading.runner.fault(self.declared, self._problem)
        else:
            result = self._grading.runner.run(self.declared, function)
        self._grading.report(result)
        if result.status != "passed":
            raise CheckFailure(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The story of the failure: never a line of a check."""
        if isinstance(excinfo.value, CheckFailure):
            return as_text(excinfo.value.result)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.declared.exercise}: {self.declared.title}"


class CheckFile(pytest.File):
    """A file of checks."""

    grading: Grading

    def collect(self) -> Iterator[CheckItem]:
        """An item for each declared check, also when the file cannot be loaded."""
        module, problem = None, ""
        try:
            module = load_check_file(self.path)
        except Exception as error:
            problem = f"{self.path.name} could not be loaded: {described_error(error)}"
        for declared in self.grading.of_file(self.path.name):
            yield CheckItem.from_parent(
                self,
                name=declared.function.removeprefix("test_"),
                declared=declared,
                module=module,
                problem=problem,
                grading=self.grading,
            )


def load_check_file(path: Path) -> ModuleType:
    """Loads checks/test_x.py as `checks_of_FOLDER.test_x`: its relative imports reach the checks folder alone."""
    package_name = f"checks_of_{path.parent.parent.name}"
    package = ModuleType(package_name)
    package.__path__ = [str(path.parent)]
    sys.modules[package_name] = package
    for name in [name for name in sys.modules if name.startswith(package_name + ".")]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(f"{package_name}.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class CheckPlugin:
    """Makes pytest collect the check files of one grading as checks, not as ordinary test modules."""

    def __init__(
        self, checks: Path, grading: Grading, deselected: Callable[[list[str]], None] = lambda ids: None
    ) -> None:
        self._files = set(check_files(checks))
        self._grading = grading
        self._deselected = deselected

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        return check_file(module_path, parent, self._grading) if module_path in self._files else None

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected(deselected_ids(items))


def check_file(path: Path, parent: pytest.Collector, grading: Grading) -> CheckFile:
    """The collector of a file of checks."""
    collector: CheckFile = CheckFile.from_parent(parent, path=path)
    collector.grading = grading
    return collector


def deselected_ids(items: list[pytest.Item]) -> list[str]:
    """The ids of the checks among items that -k left out."""
    return [item.declared.id for item in items if isinstance(item, CheckItem)]


def as_text(result: CheckResult) -> str:
    """A result as plain lines, for pytest's own report."""
    lines = [f"{result.status}: {result.title}"]
    if result.diagnosis is not None:
        found = result.diagnosis
        place = f" ({found.place.file}:{found.place.line})" if found.place else ""
        lines += [found.seen, found.why, f"Look at {found.look_at}{place}."]
    lines += result.findings
    lines += [f"  {place.file}:{place.line}  {place.text}" for place in result.traceback]
    lines += [result.next_step] if result.next_step else []
    lines += ["It printed:", result.output] if result.output else []
    return "\n".join(lines)
