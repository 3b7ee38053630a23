"""What a result depends on, as hashes: the submission's modules, the check, and the environment it ran in."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
from importlib import metadata
from pathlib import Path

import msgspec

import grader
from grader.course import Course, Stage
from grader.declared import Declared, check_files
from grader.driver import Options
from grader.errors import UsageError
from grader.job import Job, is_given

PACKAGE = Path(grader.__file__).parent
LIBRARIES = ("torch", "numpy", "safetensors", "pytest", "jaxtyping", "sacrebleu", "tokenizers")
WITHOUT_VERDICT = {
    "batch", "report", "cli.py", "demo.py", "doctor.py", "early.py", "gradebook.py", "hint.py", "leaks.py",
    "one_command.py", "pytest_plugin.py", "release", "reset.py", "skeleton.py", "standing.py", "watch.py",
}  # fmt: skip
"""Parts of the grader that no verdict depends on."""

CHECK_NAME = re.compile(r"\btest_\w+")


class Fingerprint(msgspec.Struct, frozen=True):
    """The three things that a check's result depends on."""

    submission: str
    check: str
    environment: str

    @property
    def key(self) -> str:
        """The key of the check's row."""
        return digest(self.submission, self.check, self.environment)


def digest(*parts: str) -> str:
    """A hash of texts that no other list of texts has."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def of_submission(job: Job) -> str:
    """The modules that the submission itself brings to a stage."""
    own = {path: text for path, text in job.sources.items() if not is_given(path, job)}
    return digest(*(escaped(part) for path in sorted(own) for part in (path, own[path])))


def of_reference(job: Job) -> str:
    """The modules that the course puts beside them: earlier stages of the reference, and probes."""
    given = {path: text for path, text in job.sources.items() if is_given(path, job)}
    return digest(*(part for path in sorted(given) for part in (path, given[path])))


def of_checks(
    root: Path, checks: Path, declared: list[Declared], stage: Stage, course: Course
) -> dict[str, str]:
    """A hash for each check by id: what it says itself, what it shares with others of its stage and file, and the
    checks that it or its file calls."""
    shared = digest(
        *(
            part
            for path in sorted(checks.iterdir())
            if path.suffix in (".py", ".toml") and not path.name.startswith("test_")
            for part in (path.name, path.read_text(encoding="utf-8"))
        ),
        *(part for name in stage.data for part in (name, of_data(root / name, stage))),
    )
    texts: dict[str, str] = {}
    for path in check_files(checks):
        around, functions = divided(path.read_text(encoding="utf-8"))
        texts |= {path.stem: around, **functions}
    exercises = {exercise.name: exercise for exercise in stage.exercises}
    rules = digest(repr(course.forbidden), repr(stage.seconds_per_check), repr(stage.folder))
    found = {}
    for one in declared:
        found[one.id] = digest(
            shared,
            *(texts[name] for name in sorted(named({one.function, Path(one.file).stem}, texts))),
            msgspec.json.encode(one).decode(),
            msgspec.json.encode(exercises[one.exercise]).decode(),
            rules,
        )
    return found


def of_data(path: Path, stage: Stage) -> str:
    """A hash of a file that checks read. Raises UsageError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(
            f"{path}, which the checks of {stage.name} read, cannot be read ({error.strerror}). "
            "Put it back, or correct `data` in stages/course.toml."
        ) from None


def named(names: set[str], texts: dict[str, str]) -> set[str]:
    """The names, and all check functions and files of checks that their texts name, or the texts of those."""
    waiting, found = set(names), set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {other for other in CHECK_NAME.findall(texts[name]) if other in texts} - found
    return found


def divided(source: str) -> tuple[str, dict[str, str]]:
    """A file of checks: the text around its checks, and that of each check by its function's name."""
    lines = source.splitlines()
    functions: dict[str, str] = {}
    inside: set[int] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            numbers = range(first - 1, node.end_lineno or node.lineno)
            functions[node.name] = "\n".join(lines[number] for number in numbers)
            inside.update(numbers)
    around = "\n".join(line for number, line in enumerate(lines) if number not in inside and line.strip())
    return around, functions


def environment_parts(options: Options) -> dict[str, str]:
    """What else a result depends on, in words, so that a difference can be named."""
    return {
        "grader": grader.__version__,
        "engine": of_engine(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version_of(name) for name in LIBRARIES},
        "device": options.device,
        "seed": str(options.seed),
        "earlier": options.earlier,
        "sandbox": "required" if options.require_sandbox else "as it is",
    }


def of_environment(parts: dict[str, str]) -> str:
    """The hash of an environment."""
    return digest(*(part for name in sorted(parts) for part in (name, parts[name])))


def of_engine() -> str:
    """A hash of the parts of the grader that make a verdict."""
    files = [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".toml") and path.relative_to(PACKAGE).parts[0] not in WITHOUT_VERDICT
    ]
    return digest(
        *(part for path in files for part in (path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")))
    )[:12]


def version_of(name: str) -> str:
    """The version of an installed package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
