"""The checks that a stage declares, read from their source without running it. The maximum score comes from here."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

from grader.errors import UsageError


class Declared(msgspec.Struct, frozen=True):
    """A check as it stands in a file."""

    id: str
    function: str
    exercise: str
    title: str
    points: float
    hidden: bool
    file: str
    """The file's name within the checks folder."""
    seconds: float | None = None
    """Its own time limit; None is that of the stage."""


def declared_checks(checks: Path, stage: str) -> list[Declared]:
    """The checks of every test_*.py in a folder, public ones first; raises UsageError for a wrong declaration."""
    found: list[Declared] = []
    for path in check_files(checks):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError) as error:
            raise UsageError(
                f"{path}: the checks cannot be read ({error}). This is a fault of the checks."
            ) from None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.append(_declared(node, path, stage))
    ids = [item.id for item in found]
    doubles = {item for item in ids if ids.count(item) > 1}
    if doubles:
        raise UsageError(
            f"{checks}: {', '.join(sorted(doubles))} is declared twice. Rename one of the checks."
        )
    return found


def check_files(checks: Path) -> list[Path]:
    """The files that hold checks: test_public.py first."""
    return sorted(checks.glob("test_*.py"), key=lambda path: (is_hidden(path), path.name))


def is_hidden(path: Path) -> bool:
    """Whether a file of checks is held back from a class: all but test_public*.py."""
    return not path.stem.startswith("test_public")


def _declared(node: ast.FunctionDef, path: Path, stage: str) -> Declared:
    for decorator in node.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and isinstance(decorator.func, ast.Name)
            and decorator.func.id == "check"
        ):
            try:
                args = [ast.literal_eval(argument) for argument in decorator.args]
                options = {word.arg: ast.literal_eval(word.value) for word in decorator.keywords}
                exercise, points = str(args[0]), float(options.get("points", 1))
                seconds = float(options["seconds"]) if "seconds" in options else None
                if seconds is not None and not seconds > 0:
                    break
            except (ValueError, IndexError, TypeError):
                break
            docstring = ast.get_docstring(node)
            if not docstring:
                raise UsageError(
                    f"{path}:{node.lineno}: {node.name} has no docstring. It is what the learner reads."
                )
            title = docstring.strip().splitlines()[0]
            name = node.name.removeprefix("test_")
            return Declared(
                f"{stage}/{name}", node.name, exercise, title, points, is_hidden(path), path.name, seconds
            )
    raise UsageError(
        f"{path}:{node.lineno}: {node.name} needs @check(EXERCISE, points=N, seconds=N) with literal values."
    )
