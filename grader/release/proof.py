"""Proves of a class repository that it gives nothing away and grades as it should."""

from __future__ import annotations

import ast
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

CHECK_NAME = re.compile(r"\btest_\w+")
LINES_IN_A_ROW, LETTERS_IN_A_ROW = 3, 75
"""So many lines of a solution's body, one after the other and that long, are no coincidence."""

SECONDS_FOR_A_STAGE = 1800


def leaks(root: Path, stages: Sequence[Stage], files: Mapping[str, bytes]) -> list[str]:
    """What a class would find in its files that it should not: names of hidden checks, bodies of solutions."""
    found: list[str] = []
    bodies: dict[tuple[str, ...], str] = {}
    named = {name: set(CHECK_NAME.findall(data.decode("utf-8", "replace"))) for name, data in files.items()}
    shown = {name for stage in stages for name in check_names(folder_of(root, stage), hidden=False)}
    for stage in stages:
        hidden = check_names(folder_of(root, stage), hidden=True)
        for name, names in named.items():
            # A name that a public check of another stage has too gives nothing away there.
            telling = hidden if name.startswith(f"stages/{stage.folder}/") else hidden - shown
            found += [f"{name} names the hidden check {one}" for one in sorted(names & telling)]
        for path, function, body in solution_bodies(root / "solutions" / stage.folder, stage):
            bodies |= dict.fromkeys(telling_runs(body), f"{function} in solutions/{stage.folder}/{path}")
    for name, data in files.items():
        lines = code_lines(data)
        runs = zip(*(lines[i:] for i in range(LINES_IN_A_ROW)))
        found += [f"{name} has lines of {place}" for place in {bodies[run] for run in runs if run in bodies}]
    found += [f"{name} is compiled code" for name in files if name.endswith((".pyc", ".pyo", ".so"))]
    found += [
        f"{name} lies under solutions or tests" for name in files if name.startswith(("solutions/", "tests/"))
    ]
    return found


def folder_of(root: Path, stage: Stage) -> Path:
    return root / "stages" / stage.folder / CHECKS


def solution_bodies(folder: Path, stage: Stage) -> list[tuple[str, str, list[str]]]:
    """The file, the name and the bare lines of every body that a learner writes: as it stands, and as Python writes it.

    Not those of `__init__`: the docstring says line by line which attributes there are.
    """
    bodies = []
    for file in stage.files:
        source = (folder / file).read_text(encoding="utf-8")
        tree = ast.parse(source)
        wanted = {exercise.name for exercise in stage.exercises if exercise.file == file}
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if node.name in wanted or node.name.startswith("_"):
                for function in ast.walk(node):
                    if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                        statements = without_docstring(function.body)
                        if not statements:
                            continue
                        name = f"{node.name}.{function.name}" if node is not function else node.name
                        as_it_stands = source.splitlines()[statements[0].lineno - 1 : function.end_lineno]
                        as_python_writes = "\n".join(map(ast.unparse, statements)).splitlines()
                        bodies += [(file, name, bare(lines)) for lines in (as_it_stands, as_python_writes)]
    return bodies


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body that do something."""
    first = body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text else body


def code_lines(data: bytes) -> list[str]:
    """The bare lines of a file, of Python as Python itself would write them."""
    try:
        return bare(ast.unparse(ast.parse(data)).splitlines())
    except (SyntaxError, ValueError):
        return bare(data.decode("utf-8", "replace").splitlines())


def bare(lines: Iterable[str]) -> list[str]:
    """The lines without comments, spaces and the choice of quotes, which hide nothing; empty ones are left out."""
    plain = (re.sub(r"\s+", "", re.sub(r"\s#.*", "", f" {line}")).replace('"', "'") for line in lines)
    return [line for line in plain if line]


def telling_runs(body: list[str]) -> set[tuple[str, ...]]:
    """The runs of bare lines by which a body is known again; a shorter body is no secret."""
    runs = zip(*(body[i:] for i in range(LINES_IN_A_ROW)))
    return {run for run in runs if sum(map(len, run)) >= LETTERS_IN_A_ROW}


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
