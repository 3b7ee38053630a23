"""What stands where in a source file, read without running it."""

from __future__ import annotations

import ast

import msgspec


class Definition(msgspec.Struct, frozen=True):
    """A function, class or other name defined at the top level of a file."""

    name: str
    line: int
    end: int
    stub: bool
    """Whether nothing of it has been written: every body is `raise NotImplementedError`."""
    prose: frozenset[int] = frozenset()
    """Lines that belong to docstrings."""
    imported: bool = False
    """Whether the name only comes from elsewhere."""


class Outline(msgspec.Struct, frozen=True):
    """A file's top-level names and lines."""

    lines: list[str]
    definitions: dict[str, Definition]
    problem: str = ""
    """Why it is not Python, when it is not."""
    problem_line: int = 0

    def at(self, line: int) -> str:
        """The top-level name that a line belongs to, or ''."""
        for definition in self.definitions.values():
            if definition.line <= line <= definition.end:
                return definition.name
        return ""

    def code_lines(self, definition: Definition) -> list[int]:
        """Its lines without docstrings, comments and blank lines."""
        return [
            line
            for line in range(definition.line, min(definition.end, len(self.lines)) + 1)
            if line not in definition.prose
            and self.lines[line - 1].strip()
            and not self.lines[line - 1].lstrip().startswith("#")
        ]

    def text(self, line: int) -> str:
        """A line, stripped; '' when there is none."""
        return self.lines[line - 1].strip()[:200] if 0 < line <= len(self.lines) else ""


def outline(source: str) -> Outline:
    """Reads a file; one that is not Python has no definitions and says why."""
    lines = source.split("\n")  # not splitlines(), which also splits where Python does not
    try:
        tree = ast.parse(source)
        definitions: dict[str, Definition] = {}
        for node in tree.body:
            for definition in defined(node):
                definitions[definition.name] = definition
        return Outline(lines, definitions)
    except SyntaxError as error:
        return Outline(lines, {}, f"{type(error).__name__}: {error.msg}", int(error.lineno or 1))
    except (ValueError, RecursionError, MemoryError) as error:
        return Outline(lines, {}, f"it is too complex to read ({type(error).__name__})", 1)


def defined(node: ast.stmt) -> list[Definition]:
    """The names that a top-level statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        prose = frozenset(line for part in ast.walk(node) for line in docstring_lines(part))
        return [Definition(node.name, first, node.end_lineno or node.lineno, is_stub(node), prose)]
    names: list[str] = []
    if isinstance(node, ast.Assign):
        names = [
            part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)
        ]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    imported = isinstance(node, (ast.Import, ast.ImportFrom))
    return [
        Definition(name, node.lineno, node.end_lineno or node.lineno, False, imported=imported)
        for name in names
    ]


def is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a function, or every method of a class, only raises NotImplementedError."""
    if isinstance(node, ast.ClassDef):
        methods = [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return bool(methods) and all(is_stub(method) for method in methods)
    body = node.body[1:] if is_docstring(node.body[0]) else node.body
    return len(body) == 1 and isinstance(body[0], ast.Raise) and names_not_implemented(body[0].exc)


def names_not_implemented(node: ast.expr | None) -> bool:
    """Whether an expression is NotImplementedError or a call of it."""
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Name) and node.id == "NotImplementedError"


def is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def docstring_lines(node: ast.AST) -> range:
    """The lines of a definition's docstring."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt) and is_docstring(body[0]):
        return range(body[0].lineno, (body[0].end_lineno or body[0].lineno) + 1)
    return range(0)
