"""Proves of a class repository that it gives nothing away and grades as it should."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from grader.course import Stage
from grader.release.checks import CHECKS, check_names
from grader.result import StageResult

LINES_IN_A_ROW = 3
"""So many lines of a solution's body, one after the other, are no coincidence."""

SECONDS_FOR_A_STAGE = 1800


def leaks(root: Path, stages: Sequence[Stage], files: Mapping[str, bytes]) -> list[str]:
    """What a class would find in its files that it should not: names of hidden checks, bodies of solutions."""
    found: list[str] = []
    code = {name: code_lines(data) for name, data in files.items() if name.endswith(".py")}
    shown = {name for stage in stages for name in check_names(folder_of(root, stage), hidden=False)}
    for stage in stages:
        # A name that a public check of another stage has too gives nothing away there.
        for hidden in sorted(check_names(folder_of(root, stage), hidden=True)):
            places = f"stages/{stage.folder}/" if hidden in shown else ""
            found += [
                f"{name} names the hidden check {hidden}"
                for name, data in files.items()
                if name.startswith(places) and re.search(rb"\b%s\b" % hidden.encode(), data)
            ]
        for path, function, body in solution_bodies(root / "solutions" / stage.folder, stage):
            found += [
                f"{name} has lines of {function} in solutions/{stage.folder}/{path}"
                for name, lines in code.items()
                if has_run(lines, body)
            ]
    found += [f"{name} is compiled code" for name in files if name.endswith((".pyc", ".pyo", ".so"))]
    found += [
        f"{name} lies under solutions or tests" for name in files if name.startswith(("solutions/", "tests/"))
    ]
    return found


def folder_of(root: Path, stage: Stage) -> Path:
    return root / "stages" / stage.folder / CHECKS


def solution_bodies(folder: Path, stage: Stage) -> list[tuple[str, str, list[str]]]:
    """The file, the name and the lines of every body that a learner writes.

    Not those of `__init__`: the docstring says line by line which attributes there are.
    """
    bodies = []
    for file in stage.files:
        tree = ast.parse((folder / file).read_bytes())
        wanted = {exercise.name for exercise in stage.exercises if exercise.file == file}
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if node.name in wanted or node.name.startswith("_"):
                for function in ast.walk(node):
                    if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                        text = "\n".join(map(ast.unparse, without_docstring(function.body)))
                        bodies.append((file, f"{node.name}.{function.name}", text.splitlines()))
    return bodies


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body that do something."""
    first = body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text else body


def code_lines(data: bytes) -> list[str]:
    """The lines of a file as Python itself would write them, so that comments and spacing hide nothing."""
    try:
        return [line.strip() for line in ast.unparse(ast.parse(data)).splitlines() if line.strip()]
    except (SyntaxError, ValueError):
        return [line.strip() for line in io.StringIO(data.decode("utf-8", "replace")) if line.strip()]


def has_run(lines: list[str], body: list[str]) -> bool:
    """Whether lines of a body stand one after the other in a file; a shorter body is no secret."""
    body = [line.strip() for line in body if line.strip()]
    runs = {tuple(body[i : i + LINES_IN_A_ROW]) for i in range(len(body) - LINES_IN_A_ROW + 1)}
    telling = {run for run in runs if sum(map(len, run)) >= 90}
    return any(tuple(lines[i : i + LINES_IN_A_ROW]) in telling for i in range(len(lines)))


def wrong_grades(folder: Path, solutions: Path, stages: Iterable[Stage]) -> list[str]:
    """What the class's own grader says of the skeletons and of the solutions that it should not say."""
    found: list[str] = []
    for stage in stages:
        skeleton = graded(folder, stage, folder / "stages")
        if skeleton.score or {check.status for check in skeleton.checks} != {"todo"}:
            found.append(f"{stage.name}: the skeleton is not 0 points and all to do")
        solution = graded(folder, stage, solutions)
        if solution.score != solution.max_score or not solution.max_score:
            failing = ", ".join(check.id for check in solution.checks if check.status != "passed")
            found.append(f"{stage.name}: the solution has not full marks: {failing or 'there is no check'}")
    return found


def graded(folder: Path, stage: Stage, submission: Path) -> StageResult:
    """A stage graded by the grader that lies in the class repository."""
    with TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, "-B", "-m", "grader", "grade", stage.name, "--plain", "--seed", "0"]
        command += ["--allow-unsandboxed", "--submission", str(submission), "--json", str(result)]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_FOR_A_STAGE,
            check=False,
        )
        if not result.exists():
            raise RuntimeError(f"the class's grader gave no result for {stage.name}: {done.stderr[-500:]}")
        return msgspec.json.decode(result.read_bytes(), type=StageResult)


__all__ = ["leaks", "wrong_grades"]
