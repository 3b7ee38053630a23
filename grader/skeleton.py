"""Makes the skeletons under `stages/` from the solutions, so that there is one source of truth.

In an exercise the code goes and `raise NotImplementedError` comes in its place; signature, decorators,
docstring and the comments that stand before any code stay. Private names (`_name`) are the solution's own and
are left out, unless the comment above them begins with "given". Everything else is copied as it is, packages inside
a stage too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import libcst as cst

from grader.course import Course, Stage, load_course
from grader.errors import UsageError

Definition = cst.FunctionDef | cst.ClassDef
STATEMENTS = Sequence[cst.BaseStatement]


class SkeletonError(UsageError):
    """A skeleton cannot be made from a solution."""


def generate(source: str, exercises: list[str]) -> str:
    """The skeleton of a solution file.

    Raises `SkeletonError` when `source` is no Python or does not define one of `exercises` at its top level.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise SkeletonError(f"line {error.raw_line} is not Python. Correct it.") from None
    defined = {statement.name.value for statement in module.body if isinstance(statement, Definition)}
    for name in exercises:
        if name not in defined:
            raise SkeletonError(
                f"there is no function or class {name!r}. Write it, or correct the course file."
            )
    return module.with_changes(body=_without_answers(module.body, set(exercises))).code


def write(root: Path) -> list[str]:
    """Write every skeleton whose text is not what its solution gives; returns their paths below `root`."""
    written = []
    for path, text in _expected(root, load_course(root)).items():
        target = root / path
        if _text_of(target) != text:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(text.encode())
            written.append(path)
    return written


def differences(root: Path) -> list[str]:
    """One line for each file under `stages/` that is not what the solutions give; empty when all are."""
    course = load_course(root)
    expected = _expected(root, course)
    lines = []
    for path, text in expected.items():
        found = _text_of(root / path)
        if found is None:
            lines.append(f"{path} is missing.")
        elif found != text:
            lines.append(f"{path} differs from what its solution gives.")
    for stage in course.stages:
        folder = root / "stages" / stage.folder
        for inside in ("", *_packages(root / "solutions" / stage.folder)):
            for file in sorted((folder / inside).glob("*.py")):
                path = file.relative_to(root).as_posix()
                if path not in expected:
                    lines.append(f"{path} has no solution.")
    return lines


def _packages(folder: Path) -> list[str]:
    """The packages inside a stage's folder, all of them given to learners as they are."""
    found = [file.parent.name for file in folder.glob("*/__init__.py")]
    return sorted(name for name in found if not _is_private(name))


def _expected(root: Path, course: Course) -> dict[str, str]:
    """The text of every file that the solutions give, by its path below `root`."""
    texts = {}
    for stage in course.stages:
        folder = root / "solutions" / stage.folder
        names = {file.name for file in folder.glob("*.py") if not _is_private(file.stem)}
        for name in sorted(names.union(stage.files)):
            texts[f"stages/{stage.folder}/{name}"] = _skeleton(folder / name, stage)
        for inside in _packages(folder):
            for file in sorted((folder / inside).glob("*.py")):
                if not _is_private(file.stem):
                    texts[f"stages/{stage.folder}/{inside}/{file.name}"] = _solution(file)
    return texts


def _skeleton(solution: Path, stage: Stage) -> str:
    source = _solution(solution)
    exercises = [exercise.name for exercise in stage.exercises if exercise.file == solution.name]
    if not exercises:
        return source
    try:
        return generate(source, exercises)
    except SkeletonError as error:
        raise SkeletonError(f"solutions/{stage.folder}/{solution.name}: {error}") from None


def _solution(path: Path) -> str:
    text = _text_of(path)
    if text is None:
        raise SkeletonError(f"{path} is not there. Skeletons are made from the solutions, so it is needed.")
    return text


def _text_of(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def _without_answers(statements: STATEMENTS, exercises: set[str] | None) -> list[cst.BaseStatement]:
    """The statements that a skeleton keeps; those of `exercises` (None: all definitions) are emptied."""
    kept: list[cst.BaseStatement] = []
    for statement in statements:
        if _is_solutions_own(statement):
            continue
        if isinstance(statement, Definition) and (exercises is None or statement.name.value in exercises):
            kept.append(_emptied(statement))
        else:
            kept.append(statement)
    return kept


def _emptied(definition: Definition) -> Definition:
    statements = _statements(definition.body)
    if isinstance(definition, cst.ClassDef):
        body = _without_answers(statements, None) or [cst.parse_statement("pass")]
    else:
        body = _to_be_written(statements)
    if isinstance(definition.body, cst.IndentedBlock):
        return definition.with_changes(body=definition.body.with_changes(body=body, footer=()))
    return definition.with_changes(body=cst.IndentedBlock(body=body))


def _to_be_written(statements: STATEMENTS) -> list[cst.BaseStatement]:
    """The docstring, the comments before any code, and `raise NotImplementedError`."""
    documented = bool(statements) and _is_docstring(statements[0])
    answer = cst.ensure_type(cst.parse_statement("raise NotImplementedError"), cst.SimpleStatementLine)
    code = statements[1:] if documented else statements
    if code:
        answer = answer.with_changes(leading_lines=_up_to_last_comment(code[0]))
    return [statements[0], answer] if documented else [answer]


def _statements(body: cst.BaseSuite) -> STATEMENTS:
    if isinstance(body, cst.IndentedBlock):
        return body.body
    simple = cst.ensure_type(body, cst.SimpleStatementSuite)
    return [cst.SimpleStatementLine(body=[statement]) for statement in simple.body]


def _is_docstring(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        return False
    return isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)


def _is_solutions_own(statement: cst.BaseStatement) -> bool:
    """Whether this defines private names alone and is not marked as given."""
    names: list[str] = []
    if isinstance(statement, Definition):
        names = [statement.name.value]
    elif isinstance(statement, cst.SimpleStatementLine):
        names = [name for part in statement.body for name in _assigned(part)]
    return bool(names) and all(map(_is_private, names)) and not _is_given(statement)


def _assigned(statement: cst.BaseSmallStatement) -> list[str]:
    targets: list[cst.BaseExpression] = []
    if isinstance(statement, cst.Assign):
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AnnAssign):
        targets = [statement.target]
    return [target.value for target in targets if isinstance(target, cst.Name)]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _is_given(statement: cst.BaseStatement) -> bool:
    comments = [line.comment.value for line in _leading_lines(statement) if line.comment]
    return any(comment.lstrip("# ").lower().startswith("given") for comment in comments)


def _up_to_last_comment(statement: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    lines = list(_leading_lines(statement))
    while lines and lines[-1].comment is None:
        lines.pop()
    return lines


def _leading_lines(statement: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    return lines
