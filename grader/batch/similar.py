"""Which submissions are alike beyond what everybody was given: places to look, no verdict.

Code is compared as copydetect does it: without comments and spaces, with every name made the same, in overlapping
pieces of which some are kept (winnowing; Schleimer, Wilkerson and Aiken, SIGMOD 2003). Pieces of the skeleton, of the
reference and of what many have are left out.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any

import msgspec

from grader.batch.archive import NotTaken
from grader.batch.intake import Submitted, opened
from grader.course import Course, Stage
from grader.errors import UsageError
from grader.sources import Taken, submission_base, take_stage

PIECE = 25
"""Characters of a piece, once names are made the same: shorter passages are alike by chance."""

WINDOW = 6
"""One of so many pieces in a row is kept, so that any passage of 30 characters is found."""

COMMON_SHARE = 0.2
COMMON_LEAST = 10
"""What more than this share of the class, and more than so many, have in a file is common knowledge."""

LEAST_CHARACTERS = 200
"""Pairs that share less than this are not listed: some five lines, names and spaces apart."""

NO_COPYDETECT = (
    "batch similar needs copydetect, which is not installed. "
    "Install it: python -m pip install -c constraints.txt copydetect"
)


class Passage(msgspec.Struct, frozen=True):
    """A file in which two submissions are alike; the longest passage's lines in either."""

    file: str
    lines: tuple[tuple[int, int], tuple[int, int]]
    characters: int
    """How much is alike in the file, names and spaces apart."""


class Pair(msgspec.Struct, frozen=True):
    """Two submissions that are alike."""

    first: str
    second: str
    shares: tuple[float, float]
    """How much of either's own code the other has, too."""
    passages: list[Passage]

    @property
    def characters(self) -> int:
        return sum(passage.characters for passage in self.passages)


class Found(msgspec.Struct, frozen=True):
    """What a comparison of a class came to."""

    compared: int
    pairs: list[Pair]
    """Those that share the most code first."""
    left_out: dict[str, list[str]]
    """What could not be read, by submission, and why."""


def similar(
    root: Path, course: Course, stages: list[Stage], submitted: list[Submitted], work: Path, least: float
) -> Found:
    """Compares all with all, file by file; lists the pairs of which one shares `least` of its own code with the other.

    Raises UsageError when copydetect is not there.
    """
    left_out: dict[str, list[str]] = {}
    prints: dict[str, dict[str, Any]] = defaultdict(dict)
    """The fingerprints of each submission by file."""
    for one in submitted:
        try:
            with opened(one, course, work) as folder:
                taken = modules(stages, submission_base(folder, course))
        except (NotTaken, UsageError) as error:
            left_out[one.name] = [str(error)]
            continue
        if taken.notes:
            left_out[one.name] = taken.notes
        for file, text in taken.sources.items():
            prints[file][one.name] = fingerprint(text)
    for stage in stages:
        pieces = given(root, stage)
        for file, by_name in prints.items():
            if Path(file).parent.name == stage.folder:
                leave_out(by_name.values(), pieces)
    pairs = compared(prints)
    listed = [pair for pair in pairs if max(pair.shares) >= least and pair.characters >= LEAST_CHARACTERS]
    listed.sort(key=lambda pair: (-pair.characters, pair.first, pair.second))
    names = {name for by_name in prints.values() for name in by_name}
    return Found(len(names), listed, left_out)


def modules(stages: list[Stage], base: Path) -> Taken:
    """What a submission brings to the stages, and notes of what could not be read."""
    taken = Taken("", {}, {}, [])
    for stage in stages:
        take_stage(taken, stage, base / stage.folder, False)
    return taken


def given(root: Path, stage: Stage) -> set[int]:
    """All pieces of what learners are given for a stage, and of the reference."""
    pieces: set[int] = set()
    for tree in ("stages", "solutions"):
        for path in sorted((root / tree / stage.folder).glob("*.py")):
            pieces |= fingerprint(path.read_text(encoding="utf-8"), window=1).hashes
    return pieces


def fingerprint(text: str, window: int = WINDOW) -> Any:
    """The pieces of a module and where each stands."""
    try:
        from copydetect import CodeFingerprint
    except ImportError:
        raise UsageError(NO_COPYDETECT) from None
    return CodeFingerprint("module.py", PIECE, window, language="python", fp=io.StringIO(text))


def leave_out(prints: Iterable[Any], pieces: set[int]) -> None:
    """Takes out of a file's fingerprints what was given, and what many have."""
    prints = list(prints)
    having = Counter(piece for one in prints for piece in one.hashes)
    most = max(COMMON_LEAST, COMMON_SHARE * len(prints))
    pieces = pieces | {piece for piece, count in having.items() if count > most}
    for one in prints:
        one.hashes -= pieces
        one.hash_idx = {piece: places for piece, places in one.hash_idx.items() if piece in one.hashes}
        one.token_coverage = len(
            {place + step for at in one.hash_idx.values() for place in at for step in range(PIECE)}
        )


def compared(prints: dict[str, dict[str, Any]]) -> list[Pair]:
    """All pairs that share anything."""
    own: Counter[str] = Counter()
    """How much code each submission has that is its own."""
    passages: dict[tuple[str, str], list[Passage]] = defaultdict(list)
    for file, by_name in sorted(prints.items()):
        owners: dict[int, list[str]] = defaultdict(list)
        for name, one in sorted(by_name.items()):
            own[name] += one.token_coverage
            for piece in one.hashes:
                owners[piece].append(name)
        together = {pair for names in owners.values() for pair in combinations(names, 2)}
        for first, second in sorted(together):
            passages[(first, second)].append(passage(file, by_name[first], by_name[second]))
    found = []
    for (first, second), shared in passages.items():
        shared.sort(key=lambda one: -one.characters)
        characters = sum(one.characters for one in shared)
        shares = (min(1.0, characters / own[first]), min(1.0, characters / own[second]))
        found.append(Pair(first, second, shares, shared))
    return found


def passage(file: str, first: Any, second: Any) -> Passage:
    """What two modules share, and the lines of the longest passage in either."""
    from copydetect.detector import compare_files

    characters, _, slices = compare_files(first, second)
    lines = (longest(first.raw_code, slices[0]), longest(second.raw_code, slices[1]))
    return Passage(file, lines, int(characters))


def longest(text: str, slices: Any) -> tuple[int, int]:
    """The first and the last line of the longest of some passages, given as beginnings and ends."""
    start, end = max(zip(slices[0], slices[1], strict=True), key=lambda ends: ends[1] - ends[0])
    ends_of_lines = list(accumulate(map(len, text.splitlines(keepends=True))))
    return tuple(min(bisect_right(ends_of_lines, at), len(ends_of_lines) - 1) + 1 for at in (start, end - 1))  # type: ignore[return-value]
