"""Runs a stage's demo, and says calmly which exercise it still misses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from grader.course import Stage, load_course
from grader.errors import UsageError
from grader.outline import outline
from grader.report.page import Page, look_of
from grader.report.story import short_name

FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+)(?:, in .+)?')
NO_SUCH_NAME = re.compile(
    r"cannot import name '(?P<name>\w+)' from '(?:stages|solutions)\.(?P<module>[\w.]+)'"
)
NO_SUCH_PACKAGE = re.compile(r"No module named '(?P<name>\w+)")
NO_PYTHON = ("SyntaxError", "IndentationError", "TabError")
STOPPED = 130
REFUSED = 2


class Stop(msgspec.Struct, frozen=True):
    """Where a demo stopped and why, as Python printed it."""

    error: str
    """The name of the exception."""
    message: str
    file: Path
    line: int


def run_demo(
    root: Path, stage: Stage, solutions: bool, argv: Sequence[str] = (), file: TextIO | None = None
) -> int:
    """Run the demo of `stage` on the learner's own code, or on the reference; returns its exit code.

    Pictures and lines that the demo prints go where they always go. What is said when it stops early goes to
    `file`, standard error by default. Raises `UsageError` where there is no demo to run.
    """
    tree = "solutions" if solutions else "stages"
    demo = root / tree / stage.folder / "demo.py"
    if not demo.is_file():
        mend = (
            "A class has no solutions: run it without --solutions." if solutions else "Put it back from git."
        )
        raise UsageError(f"{demo.relative_to(root).as_posix()} is not there. {mend}")
    arguments = argv[1:] if argv[:1] == ["--"] else argv
    command = [sys.executable, "-m", f"{tree}.{stage.folder}.demo", *arguments]
    report = sys.stderr if file is None else file
    code, held = _run(command, root, report)
    # A demo that refuses what it was given has said why, and so has one that was stopped.
    if code in (0, STOPPED) or (code == REFUSED and not held):
        report.write(held)
        return code
    _explain(held, root, stage, tree, report)
    return code


def _run(command: list[str], root: Path, report: TextIO) -> tuple[int, str]:
    """Run a command; what it says on standard error passes through, but a traceback is held back."""
    environment = {**os.environ, "PYTHON_COLORS": "0"}
    held: list[str] = []
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if held or line.startswith("Traceback (") or FRAME.match(line):
                held.append(line)
            else:
                report.write(line)
                report.flush()
        return process.wait(), "".join(held)
    except KeyboardInterrupt:
        process.wait()
        return STOPPED, "\nStopped.\n"


def _explain(held: str, root: Path, stage: Stage, tree: str, report: TextIO) -> None:
    """Say why the demo stopped and what to do; or show the whole traceback, where the reason is not plain."""
    page = Page(look_of(report))
    stop = _last_stop(held)
    reason = _reason(stop, root, stage, tree) if stop is not None else ""
    if reason:
        page.paragraph(reason)
        if tree == "stages" and (root / "solutions" / stage.folder / "demo.py").is_file():
            page.paragraph((f"To see it on the reference: {_session(stage)} -- --solutions", "dim"))
    else:
        for line in (held.rstrip("\n") or "The demo ended without a word.").split("\n"):
            page.line(line)
        if tree == "stages":
            page.blank()
            page.paragraph(f"The demo stopped. Next: nox -s {stage.name} looks at your code step by step.")
    report.write(page.text())
    report.flush()


def _last_stop(text: str) -> Stop | None:
    """The last exception of a printed traceback."""
    lines = text.split("\n")
    frames = [(number, found) for number, line in enumerate(lines) if (found := FRAME.match(line))]
    if not frames:
        return None
    at, frame = frames[-1]
    ending = next((line for line in lines[at + 1 :] if line.strip() and not line.startswith(" ")), "")
    error, _, message = ending.partition(": ")
    return Stop(error.rpartition(".")[2], message.strip(), Path(frame["path"]), int(frame["line"]))


def _reason(stop: Stop, root: Path, stage: Stage, tree: str) -> str:
    """Why it stopped and the next step, when the reason is a plain one; else empty."""
    place = f"{_shown(stop.file, root)}:{stop.line}"
    inside = stop.file.is_relative_to(root / tree)
    again = f"{_session(stage)} again"
    if stop.error in NO_PYTHON and inside:
        return f"{place} is not Python yet: {stop.message}. Next: correct that line, then run {again}."
    if stop.error == "NotImplementedError" and inside and not stop.message:
        name = outline(_text(stop.file)).at(stop.line)
        if name:
            what = f"{name} is not written yet ({place}), and this demo uses it."
            done = f"nox -s {_stage_of(stop.file, root, stage)} shows it as done"
            return f"{what} Next: write it. When {done}, run {again}."
    absent = NO_SUCH_NAME.search(stop.message)
    if stop.error == "ImportError" and absent:
        file = root.joinpath(tree, *absent["module"].split(".")).with_suffix(".py")
        what = f"{absent['name']} is not in {_shown(file, root)}, and this demo uses it."
        done = f"nox -s {_stage_of(file, root, stage)} shows it as done"
        return f"{what} Next: write it there. When {done}, run {again}."
    package = NO_SUCH_PACKAGE.search(stop.message)
    if stop.error == "ModuleNotFoundError" and package and package["name"] not in ("stages", "solutions"):
        what = f"The package {package['name']} is not installed here."
        return f"{what} Next: run {again}, without --no-venv: then it has the course's own environment."
    return ""


def _stage_of(file: Path, root: Path, otherwise: Stage) -> str:
    """The name of the stage that a file belongs to."""
    return next((each.name for each in load_course(root).stages if each.folder in file.parts), otherwise.name)


def _session(stage: Stage) -> str:
    return f"nox -s demo{short_name(stage.name)}"


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
