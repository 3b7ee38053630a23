"""Pieces of Markdown in which nothing of a submission can become a heading, a link, an image or HTML."""

from __future__ import annotations

import re

from grader.report.story import points, standing
from grader.report.visible import one_line, visible
from grader.result import StageResult

SPECIAL = re.compile(
    r"""[\\`*{}\[\]<>|~$&@#]     # these anywhere
    | (?<!\w)_ | _(?!\w)        # an underscore, but not within d_k
    | ^[+=-] | (?<=^\d)[.)]     # a list or a line under a heading
    | :(?=//) | (?<=www)\.      # a link without brackets
    """,
    re.VERBOSE,
)


def escaped(text: str) -> str:
    """A line of text that shows as it is."""
    return SPECIAL.sub(lambda found: "\\" + found[0], one_line(text))


def prose(text: str) -> str:
    """A sentence of the grader: what stands between backticks stays code, all else shows as it is."""
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(f"`{part}`" if index % 2 else escaped(part) for index, part in enumerate(parts) if part)


def fenced(text: str, language: str = "text") -> str:
    """A block of code that no line of it can end."""
    shown = visible(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}\n"


def code(text: str) -> str:
    """A name or place as code within a line."""
    shown = one_line(text).replace("`", "'")
    return f"`{shown}`" if shown else ""


def exercise_table(result: StageResult) -> str:
    """A line for each exercise: where it stands, and its points."""
    lines = ["| exercise | | points |", "| --- | --- | ---: |"]
    lines += [
        f"| {code(exercise.name)} | {standing(exercise)} | {points(exercise.points, exercise.max_points)} |"
        for exercise in result.exercises
    ]
    return "\n".join(lines) + "\n"
