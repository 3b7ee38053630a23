"""The typed result of a grading run, from which every report is made."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = 1

Status = Literal[
    "passed",
    "failed",
    "error",
    "missing",
    "todo",
    "waiting",
    "timeout",
    "memory",
    "output",
    "crashed",
    "denied",
    "forbidden",
    "tampered",
    "rejected",
    "grader_error",
]


class Place(msgspec.Struct, frozen=True):
    """A line of the submission."""

    file: str
    line: int
    text: str = ""
    """The source line itself, stripped."""


class Diagnosis(msgspec.Struct, frozen=True):
    """A known mistake that explains what was returned."""

    code: str
    name: str
    seen: str
    """What was seen and what was expected, in one or two sentences."""
    why: str
    look_at: str
    place: Place | None = None


class Comparison(msgspec.Struct, frozen=True):
    """Small excerpts of what was expected and what was returned."""

    what: str
    dims: list[str]
    """A name for each axis of the whole tensor, or empty."""
    index: list[int]
    """Where the excerpt was taken: the leading indices that select the shown matrix."""
    expected: list[list[str]]
    actual: list[list[str]]
    """Rows of formatted numbers; an empty list where there is nothing to show."""
    expected_shape: list[int]
    actual_shape: list[int]
    largest_difference: float | None = None
    rows: list[int] = []
    """The index of each shown row along the last axis but one."""
    columns: list[int] = []
    """The index of each shown column along the last axis."""


class CheckResult(msgspec.Struct):
    """What became of one declared check."""

    id: str
    exercise: str
    title: str
    status: Status
    points: float
    max_points: float
    hidden: bool
    diagnosis: Diagnosis | None = None
    findings: list[str] = []
    """Sentences: what was seen, what was expected."""
    detail: Comparison | None = None
    traceback: list[Place] = []
    """The submission's own frames, outermost first."""
    error: str = ""
    """'ValueError: the message', when the submission raised."""
    output: str = ""
    """What the submission printed, cleaned and cut."""
    next_step: str = ""
    """The one thing to do next."""
    seconds: float = 0.0


class ExerciseResult(msgspec.Struct):
    """An exercise of the stage and where it stands."""

    name: str
    file: str
    line: int | None
    """Where it begins in the submission; None when it is not there."""
    status: Status
    points: float
    max_points: float


class StageResult(msgspec.Struct):
    """One stage of one submission, graded."""

    course: str
    stage: str
    title: str
    submission: str
    device: str
    seed: int
    earlier: Literal["own", "reference"]
    selection: str
    """The -k expression; empty when every check was run."""
    versions: dict[str, str]
    sandbox: str
    score: float
    max_score: float
    seconds: float
    exercises: list[ExerciseResult]
    checks: list[CheckResult]
    notes: list[str] = []
    """Remarks on the submission as a whole: files not taken, files that do not import ..."""
    folder: str = ""
    """The stage's folder below `stages/`, so that reports can name the lesson and the files."""
    schema_version: int = SCHEMA_VERSION
