"""What greedy decoding and beam search should write with known tables, and what known mistakes make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from .tables import EOS, PAD, SOS, Prefix, log_softmax

Rows = list[list[int]]
"""Ids for each source, <sos> first; <pad> at the end may be left out."""


class Source(Protocol):
    """Gives the logits after each beginning of a target."""

    def logits(self, prefix: Prefix) -> Sequence[float]: ...


# Greedy


def greedy(sources: Sequence[Source], max_len: int, wrong: str = "") -> Rows:
    """The most probable token, again and again; `wrong` names a way to do it wrong."""
    limit = max_len + {"one-too-many": 1, "one-too-few": -1}.get(wrong, 0)
    rows: Rows = [[SOS] for _ in sources]
    while len(rows[0]) < limit:
        finished = [EOS in row for row in rows]
        if (any if wrong == "first-row-ends-all" else all)(finished) and wrong != "goes-on-always":
            break
        for source, row, is_finished in zip(sources, rows, finished):
            prefix = () if wrong == "first-position" else tuple(row[1:])
            logits = list(source.logits(prefix))
            token = logits.index(max(logits))
            if is_finished and not wrong.startswith("goes-on"):
                token = EOS if wrong == "eos-again" else PAD
            row.append(token)
    return rows


WRONG_WRITING = {
    "decode-goes-on-after-eos": ["goes-on", "goes-on-always"],
    "decode-no-pad-after-eos": ["eos-again"],
    "decode-first-row-ends-all": ["first-row-ends-all"],
    "decode-first-position": ["first-position"],
    "decode-max-len-off-by-one": ["one-too-many", "one-too-few"],
}


def wrong_writing(sources: Sequence[Source], max_len: int) -> dict[str, list[Rows]]:
    """By code of the mistake, what it writes."""
    return {code: [greedy(sources, max_len, wrong) for wrong in ways] for code, ways in WRONG_WRITING.items()}


# Beam search


@dataclass(frozen=True)
class Hypothesis:
    """A beginning of a target, with the sum of its log-probabilities."""

    tokens: Prefix = ()
    total: float = 0.0
    length: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Search:
    """The settings of a beam search, and a way to do it wrong."""

    max_len: int
    beam: int
    length_penalty: float
    wrong: str = ""

    def score(self, hypothesis: Hypothesis) -> float:
        """What the hypotheses are compared by in the end."""
        total, length, power = hypothesis.total, hypothesis.length, self.length_penalty
        if self.wrong == "no-penalty":
            return total
        if self.wrong == "multiplied":
            return total * ((5 + length) / 6) ** power
        if self.wrong == "counts-sos":
            length += 1
        if self.wrong == "without-eos":
            length -= hypothesis.finished
        return total / ((5 + length) / 6) ** power

    def step(self, source: Source, hypotheses: list[Hypothesis]) -> list[tuple[int, Hypothesis]]:
        """Every continuation of every hypothesis, with the index of the hypothesis."""
        found = []
        for index, hypothesis in enumerate(hypotheses):
            if hypothesis.finished and not self.wrong.startswith("goes-on"):
                found.append((index, replace(hypothesis, tokens=(*hypothesis.tokens, PAD))))
                continue
            logits = list(source.logits(hypothesis.tokens))
            gains = logits if self.wrong == "logits" else log_softmax(logits)
            for token, log_prob in enumerate(gains):
                gain = 2.718281828459045**log_prob if self.wrong == "probabilities" else log_prob
                total, length, ended = hypothesis.total + gain, hypothesis.length + 1, token == EOS
                if self.wrong == "goes-on-though-finished" and hypothesis.finished:
                    length, ended = hypothesis.length, True
                found.append((index, Hypothesis((*hypothesis.tokens, token), total, length, ended)))
        return found

    def ends(self, beams: list[list[Hypothesis]]) -> bool:
        """Whether the search is over."""
        if self.wrong == "ends-with-any":
            return any(hypothesis.finished for beam in beams for hypothesis in beam)
        if self.wrong == "ends-with-one-each":
            return all(any(hypothesis.finished for hypothesis in beam) for beam in beams)
        return all(hypothesis.finished for beam in beams for hypothesis in beam)


@dataclass(frozen=True)
class Found:
    """The result of a beam search."""

    rows: Rows
    margin: float
    """The smallest difference that decided something: where it is tiny, rounding could decide otherwise."""


def beam_search(sources: Sequence[Source], search: Search) -> Found:
    """The best hypothesis for each source, all sources step by step together."""
    start = [Hypothesis()] * (search.beam if search.wrong == "copies" else 1)
    beams = [list(start) for _ in sources]
    margins = [float("inf")]
    while len(beams[0][0].tokens) + 1 < search.max_len and not search.ends(beams):
        for number, source in enumerate(sources):
            hypotheses = beams[number]
            candidates = search.step(source, hypotheses)
            by = search.score if search.wrong == "divides-inside" else (lambda one: one.total)
            candidates.sort(key=lambda pair: -by(pair[1]))
            kept = candidates[: search.beam]
            if len(candidates) > search.beam:
                margins.append(kept[-1][1].total - candidates[search.beam][1].total)
            if search.wrong == "own-prefix":
                kept = [
                    (index, replace(one, tokens=(*_own(hypotheses, rank).tokens, one.tokens[-1])))
                    for rank, (index, one) in enumerate(kept)
                ]
            beams[number] = [hypothesis for _, hypothesis in kept]
    rows = []
    for hypotheses in beams:
        if search.wrong == "finished-first" and any(one.finished for one in hypotheses):
            hypotheses = [one for one in hypotheses if one.finished]
        ranked = sorted(hypotheses, key=search.score, reverse=True)
        if len(ranked) > 1:
            margins.append(search.score(ranked[0]) - search.score(ranked[1]))
        rows.append([SOS, *ranked[0].tokens])
    return Found(rows, min(margins))


def _own(hypotheses: list[Hypothesis], rank: int) -> Hypothesis:
    return hypotheses[min(rank, len(hypotheses) - 1)]


WRONG_SEARCH = {
    "beam-starts-with-copies": ["copies"],
    "beam-sums-probabilities": ["probabilities"],
    "beam-sums-logits": ["logits"],
    "decode-goes-on-after-eos": ["goes-on", "goes-on-though-finished"],
    "beam-ends-early": ["ends-with-any", "ends-with-one-each"],
    "beam-parents-ignored": ["own-prefix"],
    "beam-penalty-inside": ["divides-inside"],
    "beam-penalty-left-out": ["no-penalty"],
    "beam-penalty-multiplied": ["multiplied"],
    "beam-length-off-by-one": ["counts-sos", "without-eos"],
}


def wrong_search(sources: Sequence[Source], search: Search) -> dict[str, list[Rows]]:
    """By code of the mistake, what it writes."""

    def rows(wrong: str) -> list[Rows]:
        together = beam_search(sources, replace(search, wrong=wrong)).rows
        if not wrong.startswith("ends-with"):
            return [together]
        # And one source after the other.
        each = [beam_search([source], replace(search, wrong=wrong)).rows[0] for source in sources]
        return [together, each]

    return {code: [row for wrong in ways for row in rows(wrong)] for code, ways in WRONG_SEARCH.items()}


def full_search(source: Source, max_len: int, length_penalty: float) -> list[int]:
    """The best of everything that can be written in `max_len` ids."""
    search = Search(max_len, 1, length_penalty)
    open_ones, closed = [Hypothesis()], []
    while open_ones:
        hypothesis = open_ones.pop()
        if hypothesis.finished or len(hypothesis.tokens) + 1 == max_len:
            closed.append(hypothesis)
        else:
            open_ones += [one for _, one in search.step(source, [hypothesis])]
    return [SOS, *max(closed, key=search.score).tokens]


def telling(right: Rows, wrong: dict[str, list[Rows]]) -> dict[str, list[Rows]]:
    """The mistakes that show, and that no other mistake looks like."""
    width = 2 + max(len(row) for several in [[right], *wrong.values()] for rows in several for row in rows)
    answer = str(padded(right, width))
    looks = {
        code: {str(padded(rows, width)) for rows in several} - {answer} for code, several in wrong.items()
    }
    return {
        code: wrong[code]
        for code, own in looks.items()
        if own and not any(own & other for name, other in looks.items() if name != code)
    }


def padded(rows: Rows, width: int) -> Rows:
    """Rows of one length."""
    return [[*row, *[PAD] * (width - len(row))] for row in rows]
