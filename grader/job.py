"""What a driver hands to a judge, and what the judge reports back."""

from __future__ import annotations

from typing import Literal

import msgspec

from grader.declared import Declared
from grader.result import CheckResult


class Job(msgspec.Struct, tag="job", tag_field="kind"):
    """One stage of one submission, to be graded."""

    stage: str
    folder: str
    checks: str
    """The folder of the checks."""
    sources: dict[str, str]
    display: dict[str, str]
    """The file names that tracebacks carry: the paths themselves, or real paths for --debug."""
    exercises: dict[str, str]
    """Exercise -> path of its file, for this stage and all earlier ones."""
    own: list[str]
    """The stage's own exercises."""
    declared: list[Declared]
    earlier: Literal["own", "reference"]
    device: str
    seed: int
    seconds_per_check: float
    selection: str = ""
    only: list[str] | None = None
    """The ids of the checks to run; None is all of them."""
    forbidden: dict[str, list[str]] = {}
    """The ready-made names that each of the stage's exercises may not use."""
    optimizers: bool = False
    """Whether the checks build optimisers."""
    require_sandbox: bool = False
    """Refuse to grade where a submission could read the course or reach the network."""


def is_given(path: str, job: Job) -> bool:
    """Whether a module of the job is the course's own: an earlier stage of the reference, or tools of the checks."""
    if path == f"{job.folder}/probes.py":
        return True
    return job.earlier == "reference" and not path.startswith(f"{job.folder}/")


class CheckDone(msgspec.Struct, tag="done", tag_field="kind"):
    result: CheckResult


class PassedSoFar(msgspec.Struct, tag="passed_so_far", tag_field="kind"):
    """A check passed where others ran before. How it counts is known once all have run: its `CheckDone` comes then."""

    result: CheckResult


class Deselected(msgspec.Struct, tag="deselected", tag_field="kind"):
    """Checks that -k left out."""

    ids: list[str]


class Refused(msgspec.Struct, tag="refused", tag_field="kind"):
    """Nothing can be graded so: a line that says what to do (exit 2)."""

    reason: str


class Fault(msgspec.Struct, tag="fault", tag_field="kind"):
    """The grader failed (exit 3)."""

    reason: str


class Finished(msgspec.Struct, tag="finished", tag_field="kind"):
    versions: dict[str, str]
    sandbox: str


Message = CheckDone | PassedSoFar | Deselected | Refused | Fault | Finished
"""What a judge reports, one JSON frame each."""
