"""What lies in the repository of a class, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from grader.course import COURSE_FILE, Course, Stage
from grader.errors import UsageError
from grader.release.checks import CHECKS, mistakes_within_reach, public_modules
from grader.release.course_file import with_public_points, written

ROOT_FILES = ("pyproject.toml", "constraints.txt", "LICENSE", ".gitignore")
FOLDERS = ("grader", "data", "docs")
LEFT_OUT = {"__pycache__", ".git", ".progress", "generated", "checks"}
FOR_AUTHORS = {"docs/writing-checks.md", "docs/instructors.md", "docs/cluster.md"}
NOT_FOR_LEARNERS = re.compile(r"# ---- For instructors ----\n.*?(?=# ---- Running ----\n)", re.DOTALL)


def class_files(root: Path, course: Course, stages: Iterable[Stage]) -> dict[str, bytes]:
    """The files of a class by their paths, without those made from templates. Raises UsageError."""
    files = {name: (root / name).read_bytes() for name in ROOT_FILES if (root / name).exists()}
    files["noxfile.py"] = noxfile(root).encode()
    for name in FOLDERS:
        files |= {path: data for path, data in below(root, root / name).items() if path not in FOR_AUTHORS}
    cut = []
    for stage in stages:
        folder = root / "stages" / stage.folder
        files |= below(root, folder)
        files |= class_checks(root, folder / CHECKS)
        cut.append(with_public_points(stage, folder / CHECKS))
    for path in (root / "stages").glob("*.py"):
        files[f"stages/{path.name}"] = path.read_bytes()
    files[COURSE_FILE] = written(course, cut).encode()
    return files


def class_checks(root: Path, checks: Path) -> dict[str, bytes]:
    """The public checks of a stage, what they need, and the mistakes they can name."""
    modules = public_modules(checks)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in modules}
    for path in checks.glob("__init__.py"):
        files[path.relative_to(root).as_posix()] = path.read_bytes()
    for name, text in mistakes_within_reach(checks, modules).items():
        files[(checks / name).relative_to(root).as_posix()] = text.encode()
    return files


def below(root: Path, folder: Path) -> dict[str, bytes]:
    """The files under a folder, without caches and what learners make there. Links are not followed."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if path.name in LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir():
            found |= below(root, path)
        elif path.suffix not in (".pyc", ".pyo"):
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def noxfile(root: Path) -> str:
    """The noxfile without the sessions that need solutions, tests or benchmarks."""
    text = (root / "noxfile.py").read_text(encoding="utf-8")
    cut, times = NOT_FOR_LEARNERS.subn("", text)
    if times != 1:
        raise UsageError(
            "noxfile.py: the part `# ---- For instructors ----` is not there as it was. Mend it."
        )
    return cut
