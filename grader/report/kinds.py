"""The reports there are, and how much of hidden checks they tell."""

from __future__ import annotations

from enum import Enum


class Kind(str, Enum):
    """What a report is made for."""

    gradescope = "gradescope"
    junit = "junit"
    github = "github"
    csv = "csv"
    canvas = "canvas"
    feedback = "feedback"
    jsonl = "jsonl"
    html = "html"


class Hidden(str, Enum):
    """How much of a hidden check is told."""

    full = "full"
    """As much as of a public one."""
    titles = "titles"
    """What it asks for, and whether that holds."""
    points = "points"
    """The points of all hidden checks of an exercise together."""
