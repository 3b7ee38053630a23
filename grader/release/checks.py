"""The checks of a class: the public ones, the modules they need, and the mistakes that these can name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from grader.declared import check_files, is_hidden

TABLE = re.compile(r"^\[(?P<code>[\w-]+)\]\s*$", re.MULTILINE)

CHECKS = "checks"
MISTAKE_FILES = "mistakes*.toml"

BESIDE_THE_SUBMISSION = "probes.py"
"""Tools that the worker loads by their name: no check imports them."""


def public_modules(checks: Path) -> list[Path]:
    """The public check files of a folder and all modules beside them that these lead to, by their names."""
    waiting = [path for path in check_files(checks) if not is_hidden(path)]
    waiting += [path for path in [checks / BESIDE_THE_SUBMISSION] if path.exists()]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(path)
    return sorted(found)


def imported(path: Path) -> list[Path]:
    """The modules of the same folder that a module imports, wherever the import stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names |= {node.module.partition(".")[0]} if node.module else {alias.name for alias in node.names}
    return [other for name in names if (other := path.with_name(f"{name}.py")).exists()]


def mistakes_within_reach(checks: Path, modules: list[Path]) -> dict[str, str]:
    """The mistake files of a folder by name, with the entries alone whose code stands in one of the modules."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    return {
        path.name: kept_entries(path.read_text(encoding="utf-8"), code)
        for path in sorted(checks.glob(MISTAKE_FILES))
    }


def kept_entries(text: str, code: str) -> str:
    """The entries of a mistake file whose codes are mentioned, with the comments at its head."""
    starts = [match.start() for match in TABLE.finditer(text)]
    if not starts:
        return text
    parts = [text[begin:end] for begin, end in zip(starts, [*starts[1:], len(text)])]
    kept = [part for part in parts if re.search(rf"\b{re.escape(part[1 : part.index(']')])}\b", code)]
    return text[: starts[0]] + "".join(kept)


def check_names(checks: Path, hidden: bool) -> set[str]:
    """The names of a folder's check functions, the hidden ones or the public ones."""
    return {
        node.name
        for path in check_files(checks)
        if is_hidden(path) == hidden
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
