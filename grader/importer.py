"""Imports the submission from bytes held in memory: the bytes that were read for the rules are the bytes that run."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import marshal
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

PACKAGE = "submission"
"""The package the stages are laid into, so that `from ..stage1_attention.attention import ...` works."""


def module_name(path: str) -> str:
    """'stage1_attention/attention.py' -> 'submission.stage1_attention.attention'."""
    return ".".join([PACKAGE, *path.removesuffix(".py").split("/")])


class SubmissionFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the submission's modules; packages are empty and made up as they are needed."""

    def __init__(
        self, sources: dict[str, str], display: dict[str, str], code: dict[str, bytes] | None = None
    ) -> None:
        """`code` is what an honest process compiled of these sources, marshalled: it spares compiling them again."""
        self._paths = {module_name(path): path for path in sources}
        self._code = {module_name(path): data for path, data in (code or {}).items()}
        self._sources = {module_name(path): source for path, source in sources.items()}
        self._filenames = {module_name(path): display.get(path, path) for path in sources}
        self._packages = {PACKAGE}
        for name in self._sources:
            while "." in name:
                name = name.rpartition(".")[0]
                self._packages.add(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self._sources:
            return importlib.machinery.ModuleSpec(fullname, self, origin=self._filenames[fullname])
        if fullname in self._packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages and fullname not in self._sources

    def get_source(self, fullname: str) -> str:
        return self._sources.get(fullname, "")

    def compiled(self) -> dict[str, bytes]:
        """What the sources compile to, marshalled, by path; one that does not compile is left out."""
        found = {}
        for name, path in self._paths.items():
            try:
                found[path] = marshal.dumps(self.get_code(name))
            except Exception:  # whoever imports it will be told
                continue
        return found

    def get_code(self, fullname: str) -> CodeType:
        if fullname in self._code:
            return marshal.loads(self._code[fullname])  # type: ignore[no-any-return]
        return compile(
            self.get_source(fullname), self._filenames.get(fullname, "<package>"), "exec", dont_inherit=True
        )

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in self._filenames:
            module.__file__ = self._filenames[name]
        exec(self.get_code(name), module.__dict__)

    def install(self) -> None:
        """Goes to the front of the import path and drops what an earlier submission left."""
        forget()
        sys.meta_path.insert(0, self)


def forget() -> None:
    """Removes the submission's modules and finders, so that the next import is a fresh one."""
    if not any(isinstance(finder, SubmissionFinder) for finder in sys.meta_path):
        return  # in a fork, walking over every module would copy the memory of all their names
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, SubmissionFinder)]
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
        del sys.modules[name]
