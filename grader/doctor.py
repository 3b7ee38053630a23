"""`python -m grader doctor`: what this machine offers, each thing tried and not only looked up."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path

from grader.sandbox.hold import exposed
from grader.sandbox.probes import Findings, probe

PACKAGES = (
    "torch",
    "pytest",
    "nox",
    "numpy",
    "tokenizers",
    "sacrebleu",
    "msgspec",
    "safetensors",
    "jaxtyping",
)

ADVICE = "Grade only code that you trust here, or grade inside a container: docs/security.md has a ready command line."


def examine(root: Path, without: frozenset[str] = frozenset()) -> list[str]:
    """The report, a line a fact."""
    lines = [
        f"Python {platform.python_version()} on {platform.system()} {platform.release()} ({platform.machine()})"
    ]
    lines += ["", "Packages"] + [f"  {name}: {version(name)}" for name in PACKAGES]
    lines += ["", "Devices", *(f"  {line}" for line in devices())]
    lines += ["", "Sandbox"]
    if sys.platform != "linux":
        lines += [
            f"  none: {sys.platform} offers neither Landlock nor seccomp; time, memory and output are limited.",
            ADVICE,
        ]
        return lines
    return lines + sandbox_lines(root, probe(root / "stages" / "course.toml", without))


def sandbox_lines(root: Path, found: Findings) -> list[str]:
    """What holds, and what could be done in spite of it."""
    lines = [f"  {found.held.describe()}"]
    readable = exposed(root / "stages")
    for one in found.probes:
        lines.append(f"  {'refused ' if one.refused else 'POSSIBLE'}  {one.what} ({one.answer})")
    if readable:
        lines.append(f"  The course lies in {readable}, which must stay readable. Clone it elsewhere.")
    if found.held.level != "full" or readable or not all(one.refused for one in found.probes):
        lines += ["", ADVICE]
    return lines


def version(name: str) -> str:
    """A package's version, or what to do where it is not there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed: run any nox session once, or `python -m pip install -e .`"


def devices() -> list[str]:
    """The devices that torch can compute on, each tried in a process of its own."""
    lines = []
    for name in ("cpu", "cuda", "mps"):
        program = f"import torch; torch.ones(2, device={name!r}).sum().item(); print('ok')"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        lines.append(f"{name}: {'works' if done.stdout.strip() == 'ok' else 'not here'}")
    return lines
