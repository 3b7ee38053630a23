"""Ready-made layers that an exercise is about writing: found by reading a submission's code, without running it.

A name counts where it can be reached from the exercise: in its own body, in what that calls, or in code that runs on
import. Comments, strings, imports that nothing uses, and code under `if __name__ == "__main__":` do not.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import msgspec

TRACEABLE = ("torch",)
"""Only what comes from these packages can be a ready-made layer."""

STEMS = {
    "scaled_dot_product_attention": "scaled_dot_product",
    "multi_head_attention_forward": "multi_head_attention",
    "TransformerEncoderLayer": "transformer_encoder_layer",
}
"""What the operators behind a ready-made layer have in their names."""


LONGEST_CHAIN = 16
"""Names in torch have fewer parts; longer chains are made to keep a reader busy."""


class Use(msgspec.Struct, frozen=True):
    """A forbidden name, and where it stands."""

    name: str
    file: str
    line: int


class Part(msgspec.Struct):
    """A top-level definition, or what a module runs on import."""

    mentions: set[str] = msgspec.field(default_factory=set)
    """Plain names that it uses."""
    dotted: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Names from torch that it uses, in full, with their lines."""


class Module(msgspec.Struct):
    """A file of the submission."""

    parts: dict[str, Part]
    """By top-level name; '' is what runs on import."""
    imported: dict[str, tuple[str, str]]
    """Names that come from another file of the submission: (path, name there)."""


def uses(sources: dict[str, str], path: str, exercise: str, forbidden: list[str]) -> list[Use]:
    """The forbidden names that an exercise can reach, in the order of the lines."""
    modules: dict[str, Module] = {}
    found: set[tuple[str, str, int]] = set()
    waiting, seen = [(path, exercise), (path, "")], set()
    while waiting:
        place = waiting.pop()
        if place in seen or place[0] not in sources:
            continue
        seen.add(place)
        file, name = place
        if file not in modules:
            modules[file] = read(sources[file], file)
        module = modules[file]
        if name in module.imported:
            waiting += [module.imported[name], (module.imported[name][0], "")]
        part = module.parts.get(name)
        if part is not None:
            waiting += [(file, mention) for mention in part.mentions]
            found.update((dotted, file, line) for dotted, line in part.dotted)
    return [
        Use(match, file, line)
        for dotted, file, line in sorted(found, key=lambda item: (item[1] != path, item[1], item[2]))
        if (match := matching(dotted, forbidden)) is not None
    ]


def matching(dotted: str, forbidden: list[str]) -> str | None:
    """The forbidden name that a name from torch means: the same last word, by whatever road it was reached."""
    last = dotted.rpartition(".")[2]
    for name in forbidden:
        known = name.rpartition(".")[2]
        if last == known or (
            dotted.startswith(("torch.ops.", "torch._C.")) and STEMS.get(known, known) in last
        ):
            return name
    return None


@functools.lru_cache(maxsize=128)
def read(source: str, path: str) -> Module:
    """A file's parts; one that is not Python has none. Read once for all exercises: nobody changes what it gives."""
    module = Module({"": Part()}, {})
    try:
        tree = ast.parse(source)
        reader = Reader(module, path)
        reader.imports(tree)
        for node in tree.body:
            if is_main_guard(node):
                continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                part = module.parts.setdefault(node.name, Part())
                reader.walk(node, part)
            else:
                reader.walk(node, module.parts[""], called_only=True)
                for name in assigned(node):
                    reader.walk(node, module.parts.setdefault(name, Part()))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # the check that meets this file says what is wrong with it
    return module


class Reader:
    """Follows names through a file."""

    def __init__(self, module: Module, path: str) -> None:
        self._module = module
        self._folder = path.rpartition("/")[0]
        self._known: dict[str, str] = {}
        """What a plain name stands for, when that comes from torch."""
        self._starred: list[str] = []

    def imports(self, tree: ast.Module) -> None:
        """Every import of the file, wherever it stands, and plain renamings of what was imported."""
        assignments: list[ast.Assign] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                assignments.append(node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] in TRACEABLE:
                        self._known[alias.asname or alias.name.partition(".")[0]] = (
                            alias.name if alias.asname else alias.name.partition(".")[0]
                        )
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        for _ in range(4):  # renamings of renamings
            for assignment in assignments:
                if dotted := self.dotted(assignment.value):
                    for target in assignment.targets:
                        if isinstance(target, ast.Name):
                            self._known.setdefault(target.id, dotted)

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and (node.module or "").partition(".")[0] in TRACEABLE:
            for alias in node.names:
                if alias.name == "*":
                    self._starred.append(node.module or "")
                else:
                    self._known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif node.level in (1, 2):
            words = [self._folder] if node.level == 1 else []
            base = "/".join([word for word in words + (node.module or "").split(".") if word])
            for alias in node.names:
                self._module.imported[alias.asname or alias.name] = (f"{base}.py", alias.name)

    def walk(self, node: ast.AST, part: Part, called_only: bool = False) -> None:
        """Notes what a piece of code uses; on import, a function that is named but not called does not run."""
        for item in self._live(node):
            if isinstance(item, ast.Name):
                if not called_only:
                    part.mentions.add(item.id)
                if self._starred and item.id not in self._known:
                    part.dotted.append((f"{self._starred[0]}.{item.id}", item.lineno))
            if isinstance(item, ast.expr) and (dotted := self.dotted(item)):
                part.dotted.append((dotted, item.lineno))
            if called_only and isinstance(item, ast.Call) and isinstance(item.func, ast.Name):
                part.mentions.add(item.func.id)
            if isinstance(item, ast.Call) and is_getsource(item):
                for argument in item.args:
                    if dotted := self.dotted(argument):
                        part.dotted.append((dotted, item.lineno))

    def _live(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node and what is in it, without imports, annotations and what isinstance only compares with."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            yield node
            if not isinstance(node, ast.arg):
                skipped = {id(part) for part in not_run(node)}
                waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in skipped]

    def dotted(self, node: ast.AST) -> str | None:
        """The full name from torch that an expression stands for, or None."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
            if len(attributes) > LONGEST_CHAIN:
                return None
        if attributes:
            owner = self.dotted(node)
            return ".".join([owner, *reversed(attributes)]) if owner else None
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._called(node, node.func.id)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
        ):
            return self._called(node, "__import__")
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            return self._item_of_vars(node, node.value)
        return None

    def _called(self, node: ast.Call, function: str) -> str | None:
        if function == "getattr" and len(node.args) >= 2:
            owner, name = self.dotted(node.args[0]), constant(node.args[1])
            return f"{owner}.{name}" if owner and name else None
        if function in ("__import__", "import_module") and node.args:
            name = constant(node.args[0])
            return name if name and name.partition(".")[0] in TRACEABLE else None
        return None

    def _item_of_vars(self, node: ast.Subscript, call: ast.Call) -> str | None:
        """vars(nn)["MultiheadAttention"]"""
        if isinstance(call.func, ast.Name) and call.func.id == "vars" and call.args:
            owner, name = self.dotted(call.args[0]), constant(node.slice)
            return f"{owner}.{name}" if owner and name else None
        return None


def not_run(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that nothing is done with: annotations, and what isinstance compares with."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.returns] if node.returns else []  # those of arguments are left out with ast.arg
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [*node.args[1:]] if node.func.id in ("isinstance", "issubclass") else []
    return []


def constant(node: ast.AST) -> str | None:
    """A string that can be known by reading: a literal, or literals joined with +."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = constant(node.left), constant(node.right)
        return left + right if left is not None and right is not None else None
    return None


def is_getsource(node: ast.Call) -> bool:
    """inspect.getsource(...) and its like."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("getsource", "getsourcelines", "getsourcefile")


def is_main_guard(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":`"""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def assigned(node: ast.stmt) -> list[str]:
    """The plain names that a statement assigns."""
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]
