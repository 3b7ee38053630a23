"""A submission as Gradescope's `results.json` (gradescope-autograders.readthedocs.io/en/latest/specs)."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.gradebook import Entry, Grade
from grader.report.story import of_points, stage_heading
from grader.report.terminal import tell
from grader.report.visible import one_line
from grader.result import CheckResult


def render(entry: Entry) -> str:
    """The text of results.json.

    Every entry is visible, hidden checks too (with as much as `withheld` left of them): Gradescope shows no total
    to a learner for whom anything is invisible.
    """
    tests: list[dict[str, Any]] = []
    for number, grade in enumerate(entry.grades, start=1):
        if grade.result is None:
            tests.append(_ungraded(grade, str(number)))
        else:
            tests += [
                _test(grade, check, f"{number}.{index}")
                for index, check in enumerate(grade.result.checks, start=1)
            ]
    results: dict[str, Any] = {
        "score": round(entry.score, 4),
        "execution_time": round(sum(grade.result.seconds for grade in entry.grades if grade.result)),
        "output": _overview(entry),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"submission": one_line(entry.learner.submission), "max_score": entry.max_score},
    }
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def _overview(entry: Entry) -> str:
    lines = []
    for grade in entry.grades:
        heading = stage_heading(grade.stage, one_line(grade.title))
        if grade.score is None:
            lines.append(f"{heading}: {grade.state}. {one_line(grade.reason)}")
        else:
            lines.append(f"{heading}: {of_points(grade.score, grade.max_score)}")
        if grade.result is not None:
            lines += [f"Note: {one_line(note)}" for note in grade.result.notes]
    return "\n".join(lines)


def _test(grade: Grade, check: CheckResult, number: str) -> dict[str, Any]:
    told = "" if check.status == "passed" else tell(check)
    return {
        "name": f"{check.exercise}: {one_line(check.title)}",
        "name_format": "text",
        "number": number,
        "score": check.points,
        "max_score": check.max_points,
        "status": "passed" if check.status == "passed" else "failed",
        "output": told,
        "output_format": "text",
        "tags": [grade.stage, check.exercise, check.status],
        "visibility": "visible",
        "extra_data": {"id": check.id, "mistake": check.diagnosis.code if check.diagnosis else None},
    }


def _ungraded(grade: Grade, number: str) -> dict[str, Any]:
    return {
        "name": f"{stage_heading(grade.stage, one_line(grade.title))} was not graded",
        "name_format": "text",
        "number": number,
        "score": 0.0,
        "max_score": grade.max_score,
        "status": "failed",
        "output": one_line(grade.reason),
        "output_format": "text",
        "tags": [grade.stage, grade.state],
        "visibility": "visible",
        "extra_data": {"id": grade.stage, "mistake": None},
    }
