"""Small tables in which the way to search decides what is found."""

from __future__ import annotations

import math
from typing import Any

from .searching import Rows, Search, beam_search, telling, wrong_search
from .tables import EOS, Table, random_table, table, words

Toys = tuple[list[Table], Search, Rows, dict[str, list[Rows]]]
"""The tables, how to search in them, what is found, and what known mistakes find."""


def short_or_long(draw: Any, short: float, ratio: float) -> Table:
    """<eos> at once with probability `short`, or four words and <eos>, whose log-probability is `ratio` times that.

    Apart from these two sentences nothing is likely.
    """
    text = words(draw)[:4]
    sure = 0.99
    first = math.exp(ratio * math.log(short)) / sure**4
    rows = {(): {EOS: short, text[0]: first}}
    for length in range(1, 4):
        rows[tuple(text[:length])] = {text[length]: sure}
    rows[tuple(text)] = {EOS: sure}
    return table(draw, rows)


def detours(draw: Any) -> list[Table]:
    """Where the best sentence is not the one that begins best; which mistake shows where, the comments say."""
    a, b, c, *_ = words(draw)
    return [
        # Copies of one hypothesis find what greedy finds: they never see b.
        table(draw, {(): {a: 0.5, b: 0.4}, (a,): {a: 0.34, b: 0.33, c: 0.3}, (b,): {EOS: 0.98}}),
        # With probabilities instead of their logarithms every further token makes the sum larger.
        table(draw, {(): {a: 0.45, EOS: 0.5}, (a,): {EOS: 0.9}}),
        # What goes on after <eos> loses probability: the other sentence overtakes it.
        table(draw, {(): {a: 0.38, EOS: 0.6}, (a,): {EOS: 0.9}}),
        # The hypotheses change places: the second becomes the first.
        table(draw, {(): {a: 0.5, b: 0.4}, (a,): {a: 0.4, b: 0.35}, (b,): {c: 0.97}, (b, c): {EOS: 0.97}}),
    ]


def overtaken(draw: Any) -> Table:
    """<eos> at once is the best sentence in the end; half-way, divided by the penalty, two others are better."""
    a, b, c, d, e = words(draw)
    rows = {(): {EOS: 0.4, a: 0.5}, (a,): {b: 0.97}, (a, b): {c: 0.97}, (a, b, c): {d: 0.47, e: 0.43}}
    return table(draw, rows)


def detour_toys(draw: Any) -> Toys:
    """The detours, without a length penalty."""
    while True:
        toys = _toys(detours(draw), Search(max_len=6, beam=2, length_penalty=0.0))
        if toys and all(code in toys[3] for code in DETOURS):
            return toys


DETOURS = (
    "beam-starts-with-copies",
    "beam-sums-probabilities",
    "beam-sums-logits",
    "decode-goes-on-after-eos",
    "beam-ends-early",
    "beam-parents-ignored",
)


def length_toys(draw: Any) -> Toys:
    """Short or long, with a length penalty of 2: it makes up for a ratio of up to
    (10 / 6) ** 2 = 2.78."""
    while True:
        tables = [short_or_long(draw, short, ratio) for short, ratio in RATIOS]
        tables += [detours(draw)[0], overtaken(draw)]
        tables = [tables[index] for index in draw.permutation(len(tables)).tolist()]
        toys = _toys(tables, Search(max_len=7, beam=2, length_penalty=2.0))
        if toys and all(code in toys[3] for code in LENGTHS):
            return toys


RATIOS = [(0.05, 0.25), (0.3, 0.6), (0.4, 1.2), (0.6, 2.6), (0.6, 3.0), (0.6, 5.0)]

LENGTHS = (
    "beam-penalty-left-out",
    "beam-penalty-multiplied",
    "beam-length-off-by-one",
    "beam-penalty-inside",
    "beam-ends-early",
)


def random_toys(draw: Any) -> Toys:
    """Random tables, drawn until they tell the mistakes of searching apart."""
    while True:
        chosen = words(draw)[:3]
        tables = [random_table(draw, 4, chosen) for _ in range(3)]
        toys = _toys(tables, Search(max_len=7, beam=3, length_penalty=0.6))
        if toys and all(code in toys[3] for code in SEARCHES):
            return toys


SEARCHES = (
    "beam-starts-with-copies",
    "beam-parents-ignored",
)


def _toys(tables: list[Table], search: Search) -> Toys | None:
    """None where rounding, or whether unfinished hypotheses may win, would decide what is found."""
    found = beam_search(tables, search)
    if found.margin < 1e-4:
        return None
    finished_first = beam_search(
        tables, Search(search.max_len, search.beam, search.length_penalty, "finished-first")
    )
    if finished_first.rows != found.rows:
        return None
    return tables, search, found.rows, telling(found.rows, wrong_search(tables, search))
