"""A part of the submissions, so that several machines share them: `--shard 2/5`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from grader.errors import UsageError

Item = TypeVar("Item")


def parse_shard(text: str) -> tuple[int, int]:
    """K and N of 'K/N'; raises UsageError."""
    match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {text}: write K/N with K from 1 to N, as --shard 2/5.")
    return number, of


def part(items: Sequence[Item], number: int, of: int) -> list[Item]:
    """Every N-th of them, beginning with the K-th: the parts are disjoint, together all, and of equal size."""
    return list(items[number - 1 :: of])
