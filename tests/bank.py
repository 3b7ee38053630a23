"""The bank of known mistakes and of unusual but right submissions."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.collect import load_check_file
from grader.course import Stage, load_course
from grader.declared import declared_checks
from grader.driver import Options, Run
from grader.local import LocalWorkers
from grader.mistakes import Catalogue, stage_mistakes
from grader.result import CheckResult
from grader.runner import Runner

ROOT = Path(__file__).resolve().parent.parent
COURSE = load_course(ROOT)
STAGES = COURSE.stages

QUICK = "not for_real"
"""Leaves out the checks that train a model for seconds, for tests that grade many submissions."""


LOUD = "said at the end"
"""The property of a test that holds what is told when all tests are done."""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wrong edit of the solution."""

    mistake: str
    file: str
    find: str
    replace: str
    note: str = ""


def mutants_of(stage: Stage) -> list[Mutant]:
    """The stage's mutants, in the order of their file."""
    paths = sorted((ROOT / "tests" / "mutants").glob(f"{stage.folder}*.toml"))
    return [
        mutant
        for path in paths
        for mutant in msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Mutant]])["mutant"]
    ]


def mistakes_of(stage: Stage) -> Catalogue:
    """The stage's own mistakes by code."""
    return stage_mistakes(ROOT / "stages" / stage.folder / "checks")


class RightEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An unusual but right edit of the solution."""

    name: str
    file: str
    find: str
    replace: str


class Variation(NamedTuple):
    """An unusual but right submission: its files, which stand in the place of the solution's."""

    name: str
    files: dict[str, str]


def variations_of(stage: Stage) -> list[Variation]:
    """The stage's unusual but right submissions: folders, and edits in `edits.toml` where a few lines are unusual."""
    bank = ROOT / "tests" / "variations" / stage.folder
    found = [
        Variation(folder.name, {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")})
        for folder in sorted(bank.iterdir())
        if folder.is_dir()
    ]
    edits = bank / "edits.toml"
    if edits.is_file():
        for edit in msgspec.toml.decode(edits.read_bytes(), type=dict[str, list[RightEdit]])["variation"]:
            source = (ROOT / "solutions" / stage.folder / edit.file).read_text(encoding="utf-8")
            assert source.count(edit.find) == 1, (
                f"{edit.name}: `find` stands {source.count(edit.find)} times there"
            )
            found.append(Variation(edit.name, {edit.file: source.replace(edit.find, edit.replace)}))
    return found


def lay_submission(folder: Path, stage: Stage, files: dict[str, str] | None = None) -> Path:
    """A submission of one stage: the solution's files, with some replaced."""
    target = folder / stage.folder
    shutil.copytree(
        ROOT / "solutions" / stage.folder, target, ignore=shutil.ignore_patterns("__pycache__", "demo.py")
    )
    for name, text in (files or {}).items():
        (target / name).write_text(text, encoding="utf-8")
    return folder


def mutated(stage: Stage, mutant: Mutant) -> dict[str, str]:
    """The file that a mutant edits, edited."""
    source = (ROOT / "solutions" / stage.folder / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.find) == 1, (
        f"{mutant.find!r} stands {source.count(mutant.find)} times in {mutant.file}"
    )
    return {mutant.file: source.replace(mutant.find, mutant.replace)}


def reached_by(stage: Stage, mutant: Mutant) -> list[str]:
    """The exercises in which a mutant can be felt: those whose code leads to an edited line.

    All other checks see the solution itself, which passes them. Tests of many submissions need not show that each time.
    """
    mentions, edited = {}, set()
    for name in sorted({exercise.file for exercise in stage.exercises}):
        source = (ROOT / "solutions" / stage.folder / name).read_text(encoding="utf-8")
        first = 1 + source.count("\n", 0, source.index(mutant.find)) if name == mutant.file else 0
        last = first + mutant.find.count("\n")
        for node in ast.parse(source).body:
            words = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names, begins = [node.name], min(part.lineno for part in (node, *node.decorator_list))
            else:
                names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
                begins = node.lineno
            for defined in names:
                mentions[defined] = words
            if first and begins <= last and first <= (node.end_lineno or begins):
                edited.update(names or mentions)
    while more := {name for name, words in mentions.items() if words & edited} - edited:
        edited |= more
    exercises = [exercise.name for exercise in stage.exercises if exercise.name in edited]
    assert exercises, f"{mutant.find!r} stands in no exercise"
    return exercises


def graded_here(stage: Stage, submission: Path, options: Options, exercises: list[str]) -> list[CheckResult]:
    """The results of the exercises' checks, in this process: as isolated, without what a process costs."""
    run = Run(ROOT, COURSE, stage, submission, options)
    runner = Runner(run.job, LocalWorkers())
    results = []
    for declared in run.declared:
        names = f"{declared.exercise} {declared.function}".lower()
        if "for_real" in declared.function or not any(name.lower() in names for name in exercises):
            continue
        results.append(runner.run(declared, functions_of(stage)[declared.id]))
    return results


def functions_of(stage: Stage) -> dict[str, Callable[..., None]]:
    """The functions of a stage's checks by id, loaded once."""
    if stage.name not in LOADED:
        checks = ROOT / "stages" / stage.folder / "checks"
        LOADED[stage.name] = {
            declared.id: getattr(load_check_file(checks / declared.file), declared.function)
            for declared in declared_checks(checks, stage.name)
        }
    return LOADED[stage.name]


LOADED: dict[str, dict[str, Callable[..., None]]] = {}
