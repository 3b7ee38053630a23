"""The Transformer by hand: every command of the course.

Learners need the first part of this list; arguments follow after `--`. Each session is a thin call of
`python -m grader`, and all of them share one environment, which is installed on first use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import nox
from nox.command import CommandFailed
from nox.project import load_toml
from nox.virtualenv import PassthroughEnv

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["course"]

ROOT = Path(__file__).parent
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"

# What every session runs: the shared environment's interpreter, or under --no-venv the one at hand.
python = str(ROOT / ".nox/environment" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
at_hand = False

shared = nox.session(venv_backend="none", requires=["environment"])


# ---- For learners ----


@shared
def course(session: nox.Session) -> None:
    """See how far you are in every stage, and what comes next."""
    grader(session, "course")


def stages() -> list[tuple[str, str]]:
    """Name and title of each stage; none when course.toml is broken, which `nox -s course` then explains."""
    try:
        return [(stage["name"], stage["title"]) for stage in load_toml(ROOT / "stages/course.toml")["stage"]]
    except Exception:
        return []


def add_session(name: str, description: str, *command: str) -> None:
    def call(session: nox.Session) -> None:
        grader(session, *command)

    call.__doc__ = description
    nox.session(call, name=name, venv_backend="none", requires=["environment"])


for name, title in stages():
    add_session(name, f"{title}: grade your code.", "grade", name)


@shared
def watch(session: nox.Session) -> None:
    """Grade again on every save, and move on to the next exercise."""
    grader(session, "watch")


@shared
def hint(session: nox.Session) -> None:
    """Get the next hint for the first unfinished exercise of a stage: -- 3"""
    grader(session, "hint")


for name, title in stages():
    add_session(name.replace("stage", "demo"), f"{title}: pictures of your code at work.", "demo", name)


@shared
def reset(session: nox.Session) -> None:
    """Begin a stage (-- 3) or one exercise (-- 3 rotary_table) anew; a copy of yours is kept."""
    grader(session, "reset")


@shared
def corpus(session: nox.Session) -> None:
    """Make the large corpus of stage 6, 10,000 sentence pairs, in data/generated."""
    run(session, "data.generate", *session.posargs)


@shared
def gym(session: nox.Session) -> None:
    """Find out what is wrong with eight broken training runs: -- 3, then -- 3 --answer 2"""
    # On the reference where there is one, so that each run is broken in the one way it is meant to be.
    tree = "solutions" if (ROOT / "solutions/stage6_training/gym").is_dir() else "stages"
    run(session, f"{tree}.stage6_training.gym", *session.posargs)


# ---- For instructors ----


@shared
def batch(session: nox.Session) -> None:
    """Grade a class, and go on where an earlier run stopped: -- SUBMISSIONS --out GRADES"""
    if any(argument.split("=")[0] == "--scheduler" for argument in session.posargs):
        add_extra(session, "cluster")
    if session.posargs[:1] == ["similar"]:
        add_extra(session, "similar")
    grader(session, "batch")


@shared
def report(session: nox.Session) -> None:
    """Make a report of a class: -- csv GRADES --to grades.csv"""
    grader(session, "report")


@shared
def release(session: nox.Session) -> None:
    """Cut the repository of a class, without solutions and hidden checks: -- DEST"""
    grader(session, "release")


# ---- For contributors ----


@shared
def tests(session: nox.Session) -> None:
    """Test the engine, the solutions, and that the checks name every known mistake."""
    add_tools(session)
    # One process for each core; those that are done early take tests from the others.
    run(session, "pytest", "--numprocesses", "auto", "--dist", "worksteal", *session.posargs)


@shared
def lint(session: nox.Session) -> None:
    """Check style and types, that skeletons match solutions, and that points add up."""
    add_tools(session)
    run_all(
        session,
        ("-m", "ruff", "check", "."),
        # Learners' files may have words that only jaxtyping knows; the checks beside them may not.
        ("-m", "ruff", "check", "--isolated", "--select", "F821", *map(str, ROOT.glob("stages/*/checks"))),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-m", "grader", "skeleton"),
        ("-m", "pytest", "-q", "tests/test_points.py"),
    )


@shared
def bench(session: nox.Session) -> None:
    """Run every benchmark; fails when a ratio is above its limit."""
    add_tools(session)
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    run_all(session, *((f"benchmarks/{file.name}", *session.posargs) for file in files))


# ---- Running ----


def grader(session: nox.Session, *command: str) -> None:
    """Run `python -m grader` with the arguments that follow after `--`."""
    run(session, "grader", *command, *session.posargs)


def run(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a module; an exit code above 1 (wrong usage, a fault of the grader) becomes that of nox."""
    try:
        session.run(python, "-m", module, *arguments, external=True, stderr=None, interrupt_timeout=5)
    except CommandFailed as error:
        code = getattr(error, "return_code", None) or 1
        if code > 1:
            raise SystemExit(code) from None
        raise


def run_all(session: nox.Session, *commands: tuple[str, ...]) -> None:
    """Run one command after the other, and fail in the end when any did."""
    failed = []
    for command in commands:
        try:
            session.run(python, *command, external=True)
        except CommandFailed:
            failed.append(" ".join(command))
    if failed:
        session.error(f"failed: {'; '.join(failed)}")


# ---- The environment that all sessions share ----


@nox.session(venv_backend="virtualenv", reuse_venv=True)
def environment(session: nox.Session) -> None:
    """Install PyTorch and the other packages, about 1 GB. The other sessions do it when it is needed."""
    global python, at_hand
    if isinstance(session.virtualenv, PassthroughEnv):
        python, at_hand = interpreter_at_hand(), True
        refuse_if_lacking(requirements())
    else:
        python = shutil.which("python", path=session.bin) or python
        install(session, "environment", requirements())


def add_tools(session: nox.Session) -> None:
    """Add what only contributors need to the shared environment."""
    for extra in ("cluster", "similar", "dev"):
        add_extra(session, extra)


def add_extra(session: nox.Session, extra: str) -> None:
    """Add what an extra of pyproject.toml asks for to the shared environment."""
    if at_hand:
        refuse_if_lacking(requirements(extra))
    else:
        install(session, extra, requirements(extra))


def requirements(extra: str = "") -> list[str]:
    """What pyproject.toml asks for: the dependencies, or those of an extra."""
    project = load_toml(ROOT / "pyproject.toml")["project"]
    packages: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return packages


def install(session: nox.Session, what: str, packages: list[str]) -> None:
    """Install packages at the versions of constraints.txt, unless a stamp says that just this was done."""
    stamp = Path(python).parents[1] / f"{what}.stamp"
    wanted = fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    session.log(INSTALLING[what])
    pip = (python, "-m", "pip", "install", "--constraint", "constraints.txt")
    try:
        if what == "environment":
            install_torch(session, pip)
        session.run(*pip, *packages, external=True)
    except CommandFailed:
        end(3, INSTALL_FAILED)
    stamp.write_text(wanted)


def fingerprint() -> str:
    """Changes whenever an installed environment may have become the wrong one."""
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    parts += [os.path.realpath(python).encode(), os.environ.get("TORCH_INDEX_URL", "").encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def install_torch(session: nox.Session, pip: tuple[str, ...]) -> None:
    """Install PyTorch itself when it should not come from pip's usual index.

    On Linux that one has the CUDA build, three times as large; the CPU build is taken where PyTorch's own
    index can be reached. TORCH_INDEX_URL names another index; empty, it stands for pip's usual one.
    """
    index = os.environ.get("TORCH_INDEX_URL")
    if index:
        session.run(*pip, "--force-reinstall", "--no-deps", "--index-url", index, "torch", external=True)
    elif index is None and sys.platform == "linux" and can_reach(CPU_BUILDS):
        command = (*pip, "--no-deps", "--index-url", CPU_BUILDS, "torch")
        session.run(*command, external=True, success_codes=[0, 1])  # without it, the usual index follows


def can_reach(index: str) -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(f"{index}/torch/", timeout=5):
            return True
    except OSError:
        return False


def interpreter_at_hand() -> str:
    """The interpreter that runs nox if it has PyTorch, else the one that `python` starts."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    return shutil.which("python") or shutil.which("python3") or sys.executable


def refuse_if_lacking(packages: list[str]) -> None:
    """End with the command that mends it when the interpreter at hand lacks a package."""
    names = [re.split(r"[<>=]", package)[0] for package in packages if not re.search("^nox|;", package)]
    look = (
        "import sys, importlib.metadata as installed\n"
        "for name in sys.argv[1:]:\n"
        "    try: installed.distribution(name)\n"
        "    except installed.PackageNotFoundError: print(name)"
    )
    answer = subprocess.run([python, "-c", look, *names], capture_output=True, text=True, check=False)
    if answer.returncode:
        end(2, f"{python} does not run: {answer.stderr.strip()}")
    if lacking := answer.stdout.split():
        end(2, LACKING.format(python=python, lacking=" ".join(lacking), these=", ".join(lacking)))


def end(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


INSTALLING = {
    "environment": "Installing PyTorch and the other packages; the first time it is about 1 GB and a few minutes.",
    "cluster": "Installing Dask, to grade on a cluster.",
    "similar": "Installing copydetect, to find submissions that are alike.",
    "dev": "Installing the tools for contributors.",
}

INSTALL_FAILED = """\
The packages could not be installed; the reason stands above. Nothing of yours was changed.
Check the network and run the same command again: it goes on where it stopped.
If that does not help, delete the folder .nox, and check that `python --version` is between 3.10 and 3.14."""

LACKING = """\
{python} lacks {these}.
Install what is missing:  {python} -m pip install {lacking}
Or leave out --no-venv:   nox then makes an environment of its own."""
