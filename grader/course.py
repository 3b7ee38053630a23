"""The course as `stages/course.toml` describes it: its stages, their exercises, points and time limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from grader.errors import UsageError

COURSE_FILE = "stages/course.toml"

MODULE_FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.py")
STAGE_NAME = re.compile(r"[a-z][a-z0-9]*")
DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
GIVEN_FILES = ("__init__.py", "demo.py")


class CourseError(UsageError):
    """The course file cannot be used."""


class UnknownStage(UsageError):
    """The course has no stage of that name."""


class Exercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function or class that learners write."""

    name: str
    file: str
    """The module of the stage that it stands in, such as `attention.py`."""
    points: float
    forbidden: tuple[str, ...] = ()
    """Dotted names that may not be used inside this exercise, beside the course's own."""
    allowed: tuple[str, ...] = ()
    """Dotted names that the course forbids elsewhere and this exercise is about comparing with."""


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of `stages/`: one lesson and its exercises."""

    name: str
    folder: str
    title: str
    exercises: tuple[Exercise, ...] = msgspec.field(name="exercise")
    seconds_per_check: float = 10.0
    optimizers: bool = False
    """Whether its checks build optimisers: the first one of a process costs a second, so it is built in advance."""
    data: tuple[str, ...] = ()
    """Files that its checks read, as `data/zh_en/pairs.tsv`: when one changes, a class is graded anew."""
    deadline: datetime | None = None
    """When a class hands it in; shown to learners, nothing is refused because of it."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that learners edit, in the order in which the exercises come."""
        return tuple(dict.fromkeys(exercise.file for exercise in self.exercises))


class Course(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole course, in the order in which it is taken."""

    title: str
    stages: tuple[Stage, ...] = msgspec.field(name="stage")
    forbidden: tuple[str, ...] = ()
    """Dotted names that submissions may not use anywhere."""

    def stage(self, name: str) -> Stage:
        """The stage called `name`; its number (`3`) and its folder are understood too.

        Raises `UnknownStage`, whose text lists the stages there are.
        """
        for stage in self.stages:
            if name in (stage.name, stage.folder, stage.name.removeprefix("stage")):
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        raise UnknownStage(f"there is no stage {name!r}: choose one of {known}.")


def load_course(root: Path) -> Course:
    """Read `stages/course.toml` under `root`.

    Raises `CourseError` when it is missing, is not TOML, or does not describe a course.
    """
    entries = _read(root / COURSE_FILE)
    try:
        course = msgspec.convert(entries, Course)
    except msgspec.ValidationError as error:
        raise CourseError(_explain(str(error), entries)) from None
    _check_course(course)
    for stage in course.stages:
        if not (root / "stages" / stage.folder).is_dir():
            raise _wrong(
                stage.name, f"there is no folder stages/{stage.folder}", "Create it or correct `folder`"
            )
    return course


def _read(path: Path) -> dict[str, Any]:
    try:
        entries: dict[str, Any] = msgspec.toml.decode(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise CourseError(
            f"{path} is not there. Run the command in the folder that holds `stages`."
        ) from None
    except OSError as error:
        raise CourseError(f"{path} cannot be read ({error.strerror}). Check its permissions.") from None
    except UnicodeDecodeError:
        raise CourseError(f"{COURSE_FILE}: the text is not UTF-8. Save it as UTF-8.") from None
    except msgspec.DecodeError as error:
        raise CourseError(f"{COURSE_FILE}: this is not TOML: {error}. Correct it there.") from None
    return entries


def _check_course(course: Course) -> None:
    if not course.stages:
        raise _wrong("", "there is no stage", "Add a `[[stage]]`")
    _check_dotted("", course.forbidden)
    _check_distinct("", "stage", [stage.name for stage in course.stages])
    _check_distinct("", "folder", [stage.folder for stage in course.stages])
    for stage in course.stages:
        _check_stage(stage, course.forbidden)


def _check_stage(stage: Stage, forbidden: tuple[str, ...]) -> None:
    if not STAGE_NAME.fullmatch(stage.name):
        raise _wrong(
            f"stage {stage.name!r}", "this name does not fit a command", "Use lower-case letters and digits"
        )
    if not stage.folder.isidentifier():
        raise _wrong(
            stage.name, f"folder {stage.folder!r} cannot be imported", "Use letters, digits and underscores"
        )
    if not stage.exercises:
        raise _wrong(stage.name, "there is no exercise", "Add a `[[stage.exercise]]`")
    if not (math.isfinite(stage.seconds_per_check) and stage.seconds_per_check > 0):
        raise _wrong(stage.name, f"`seconds_per_check` is {stage.seconds_per_check}", "Give a number above 0")
    _check_distinct(stage.name, "exercise", [exercise.name for exercise in stage.exercises])
    for exercise in stage.exercises:
        _check_exercise(f"{stage.name}, {exercise.name}", exercise)
        _check_allowed(f"{stage.name}, {exercise.name}", exercise, forbidden)


def _check_exercise(where: str, exercise: Exercise) -> None:
    if not exercise.name.isidentifier():
        raise _wrong(
            where, "this is not the name of a function or class", "Use the name that stands in the file"
        )
    if not MODULE_FILE.fullmatch(exercise.file) or exercise.file in GIVEN_FILES:
        raise _wrong(
            where, f"`file` is {exercise.file!r}", "Name a module of the stage's folder, like 'attention.py'"
        )
    if not (math.isfinite(exercise.points) and exercise.points >= 0):
        raise _wrong(where, f"`points` is {exercise.points:g}", "Give a number, 0 or more")
    _check_dotted(where, exercise.forbidden)


def _check_allowed(where: str, exercise: Exercise, forbidden: tuple[str, ...]) -> None:
    for name in exercise.allowed:
        if name not in forbidden:
            raise _wrong(
                where, f"`allowed` has {name!r}, which the course does not forbid", "Correct or remove it"
            )


def _check_distinct(where: str, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _wrong(where, f"the {kind} {name!r} is listed twice", "Rename or remove one")
        seen.add(name)


def _check_dotted(where: str, names: Iterable[str]) -> None:
    for name in names:
        if not DOTTED_NAME.fullmatch(name):
            raise _wrong(
                where, f"`forbidden` has {name!r}", "Write the full dotted name, like 'torch.nn.Transformer'"
            )


def _wrong(where: str, what: str, mend: str) -> CourseError:
    place = f"{COURSE_FILE}: {where}: " if where else f"{COURSE_FILE}: "
    return CourseError(f"{place}{what}. {mend}.")


def _explain(message: str, entries: dict[str, Any]) -> str:
    """Say msgspec's message with the names that stand in the file instead of a path of indices."""
    problem, _, path = message.partition(" - at `$")
    where: list[str] = []
    node: Any = entries
    for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        node = node[key] if key else node[int(index)]
        if index and isinstance(node, dict):
            where[-1] = str(node.get("name", f"{where[-1]} {int(index) + 1}"))
        elif key:
            where.append(key)
    mend = (
        "Remove it or correct its name" if "unknown field" in problem else "Compare it with the other entries"
    )
    return str(
        _wrong(
            ", ".join(where),
            problem.removeprefix("Object ").removeprefix("contains ").replace("field", "key"),
            mend,
        )
    )
