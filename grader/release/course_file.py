"""The course file of a class: the chosen stages, with the points that their public checks give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from grader.course import Course, Exercise, Stage
from grader.declared import declared_checks


def with_public_points(stage: Stage, checks: Path) -> Stage:
    """The stage with each exercise worth what its public checks give."""
    points: dict[str, float] = {}
    for declared in declared_checks(checks, stage.name):
        if not declared.hidden:
            points[declared.exercise] = points.get(declared.exercise, 0) + declared.points
    exercises = tuple(
        msgspec.structs.replace(exercise, points=points.get(exercise.name, 0)) for exercise in stage.exercises
    )
    return msgspec.structs.replace(stage, exercises=exercises)


def written(course: Course, stages: Iterable[Stage]) -> str:
    """The text of a course file."""
    head: dict[str, object] = {"title": course.title}
    if course.forbidden:
        head["forbidden"] = course.forbidden
    lines = ["# The stages of this class. Points are those of the checks in this repository.", ""]
    lines += fields(head)
    for stage in stages:
        lines += ["", "[[stage]]", *fields(changed(stage, leave=("exercise",)))]
        for exercise in stage.exercises:
            lines += ["", "[[stage.exercise]]", *fields(changed(exercise))]
    return "\n".join(lines) + "\n"


def changed(entry: Stage | Exercise, leave: tuple[str, ...] = ()) -> dict[str, object]:
    """The fields of an entry that are not as they would be without being written."""
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(entry):
        value = getattr(entry, field.name)
        if field.encode_name not in leave and value != field.default:
            values[field.encode_name] = value
    return values


def fields(values: Mapping[str, object]) -> list[str]:
    """Each value as a line of TOML."""
    return [f"{name} = {toml(value)}" for name, value in values.items()]


def toml(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, (int, float)):
        return f"{value:g}"
    return value.isoformat()  # type: ignore[attr-defined, no-any-return]
