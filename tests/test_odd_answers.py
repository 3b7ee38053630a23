"""Code that answers nonsense gets nothing, whatever the nonsense is, and no check falls over it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.collect import load_check_file
from grader.course import Course, Stage, load_course
from grader.driver import Options, Run
from grader.local import LocalWorkers
from grader.runner import Runner

ANSWERS = {
    "nothing": "None",
    "an object": "object()",
    "a scalar tensor": "torch.tensor(1.0)",
    "not a number": "torch.full((2, 3, 4, 5), float('nan'))",
    "two tensors": "(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, 5))",
}
"""By name, an expression for what everything returns."""


class Nonsense(ast.NodeTransformer):
    """Gives every function, and every method but `__init__`, a body of one statement."""

    def __init__(self, statement: str) -> None:
        self._body = ast.parse(f"import torch\n{statement}").body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name != "__init__":
            node.body = self._body  # type: ignore[assignment]
        return node


def answering(stage: Stage, statement: str) -> dict[str, str]:
    """The solution's files, with every answer replaced."""
    files = {exercise.file for exercise in stage.exercises}
    folder = ROOT / "solutions" / stage.folder
    return {
        name: ast.unparse(Nonsense(statement).visit(ast.parse((folder / name).read_bytes())))
        for name in files
    }


def passed(stage: Stage, submission: Path, course: Course) -> set[str]:
    """The checks that pass. In this process: the checks are tried here, not the isolation."""
    run = Run(ROOT, course, stage, submission, Options(seed=5, earlier="reference"))
    runner = Runner(run.job, LocalWorkers())
    checks = ROOT / "stages" / stage.folder / "checks"
    given = set()
    for declared in run.declared:
        if "for_real" in declared.function:
            continue
        result = runner.run(declared, getattr(load_check_file(checks / declared.file), declared.function))
        assert result.status != "grader_error", (declared.id, result.findings)
        if result.points:
            given.add(declared.id)
    return given


@cache
def passed_without_answers(stage_name: str) -> frozenset[str]:
    """Checks that only make a layer, or see it refuse bad arguments, may pass: they do not ask for an answer."""
    stage = next(stage for stage in STAGES if stage.name == stage_name)
    with TemporaryDirectory() as folder:
        submission = lay_submission(Path(folder), stage, answering(stage, "raise RuntimeError('no answer')"))
        return frozenset(passed(stage, submission, load_course(ROOT)))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_nonsense_gets_nothing(stage: Stage, answer: str, course: Course, tmp_path: Path) -> None:
    submission = lay_submission(tmp_path, stage, answering(stage, f"return {answer}"))
    given = passed(stage, submission, course)
    assert given <= passed_without_answers(stage.name)
