"""Submissions that are alike, as a list to read and as a table for a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grader.batch.similar import Found, Pair, Passage
from grader.report.csv import line
from grader.report.story import count
from grader.report.visible import one_line, without_commands

MOST_PASSAGES = 5
"""Files that are named for a pair in the list."""

HEADER = ("first", "second", "share of first", "share of second", "file", "lines of first", "lines of second")


def listing(found: Found, most: int) -> str:
    """The first so many pairs."""
    lines = [
        f"{count(found.compared, 'submission')} compared: {count(len(found.pairs), 'pair')} alike beyond what was "
        "given, the reference, and what many have."
    ]
    if found.pairs:
        lines.append("These are places to look, no verdict: read both before you say anything.")
    for pair in found.pairs[:most]:
        lines += ["", *described(pair)]
    if len(found.pairs) > most:
        lines += ["", f"{len(found.pairs) - most} more are listed with --most {len(found.pairs)}."]
    for name, reasons in found.left_out.items():
        lines += ["", *(f"Not compared: {one_line(name)}: {one_line(reason)}" for reason in reasons)]
    return without_commands("\n".join(lines) + "\n")


def described(pair: Pair) -> Iterator[str]:
    first, second = one_line(pair.first), one_line(pair.second)
    yield f"{first} and {second}: {pair.shares[0]:.0%} and {pair.shares[1]:.0%} of their own code"
    for passage in pair.passages[:MOST_PASSAGES]:
        mine, theirs = (spelled(ends) for ends in passage.lines)
        yield f"  {one_line(passage.file)}: lines {mine} and {theirs}"
    if len(pair.passages) > MOST_PASSAGES:
        yield f"  and in {count(len(pair.passages) - MOST_PASSAGES, 'more file')}"


def table(found: Found) -> Iterator[str]:
    """CSV: a line for each file in which two submissions are alike."""
    yield line(HEADER)
    for pair in found.pairs:
        for passage in pair.passages:
            yield line(cells(pair, passage))


def cells(pair: Pair, passage: Passage) -> Iterable[str | float]:
    shares = (round(share, 3) for share in pair.shares)
    return (pair.first, pair.second, *shares, passage.file, *(spelled(ends) for ends in passage.lines))


def spelled(ends: tuple[int, int]) -> str:
    """'14-51', with a dash that no spreadsheet takes for a date or a difference."""
    return f"{ends[0]}–{ends[1]}" if ends[1] > ends[0] else str(ends[0])
