"""Models that are tables, so that what greedy decoding, beam search and sampling give is known by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

PAD, SOS, EOS, UNK = range(4)
VOCAB = 9
WORDS = range(4, VOCAB)

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """The logits after each beginning of a target, which is written without <sos>."""

    rows: Mapping[Prefix, Sequence[float]]
    otherwise: Sequence[float]

    def logits(self, prefix: Prefix) -> Sequence[float]:
        """The logits of what comes after `prefix`."""
        return self.rows.get(prefix, self.otherwise)


def log_softmax(logits: Sequence[float]) -> list[float]:
    """The log-probabilities of logits."""
    largest = max(logits)
    total = largest + math.log(sum(math.exp(value - largest) for value in logits))
    return [value - total for value in logits]


def table(draw: Any, probabilities: Mapping[Prefix, Mapping[int, float]], after: int | None = None) -> Table:
    """A table with these probabilities; what a row does not name shares the rest, unevenly.

    A beginning that is not named is followed by anything, or nearly surely by the token `after`.
    Logits are log-probabilities plus any number: each row has another one.
    """
    rows = {prefix: _logits(draw, named) for prefix, named in probabilities.items()}
    return Table(rows, _logits(draw, {} if after is None else {EOS: 1e-12, after: 0.999}))


def _logits(draw: Any, named: Mapping[int, float]) -> list[float]:
    rest = 1.0 - sum(named.values())
    shares = draw.normal(VOCAB, dtype=torch.float64, scale=0.2).exp()
    shares[list(named)] = 0.0
    probabilities = rest * shares / shares.sum()
    for token, probability in named.items():
        probabilities[token] = probability
    return (probabilities.log() + draw.normal(1, dtype=torch.float64, scale=2.0)).tolist()


def certain(draw: Any, text: Sequence[int]) -> Table:
    """A table that writes `text` nearly surely, and another word again and again after it.

    <eos> is next to impossible in every other place: no hypothesis of a beam finishes there.
    """
    rows = {tuple(text[:length]): {EOS: 1e-12, token: 0.999} for length, token in enumerate(text)}
    return table(draw, rows, after=next(word for word in WORDS if word != text[-1]))


def random_table(draw: Any, depth: int, words: Sequence[int]) -> Table:
    """A table in which anything may happen, with three words and <eos>, for `depth` tokens; then it ends."""
    rows = {}
    for length in range(depth):
        for prefix in product(words, repeat=length):
            logits = draw.normal(VOCAB, dtype=torch.float64) - 12.0
            logits[[*words, EOS]] += 12.0
            rows[prefix] = logits.tolist()
    return Table(rows, _logits(draw, {EOS: 0.9}))


def words(draw: Any) -> list[int]:
    """The five words in a random order."""
    return [WORDS[index] for index in draw.permutation(len(WORDS)).tolist()]


def model_of(submission: Any, draw: Any, tables: Sequence[Table]) -> tuple[Any, Tensor]:
    """The model with these tables beside the submission, and the sources that stand for them, padded."""
    numbers = [7 + index for index in draw.permutation(len(tables)).tolist()]
    wire = {
        str(number): {
            "otherwise": list(table.otherwise),
            **{" ".join(map(str, (SOS, *prefix))): list(row) for prefix, row in table.rows.items()},
        }
        for number, table in zip(numbers, tables)
    }
    model = submission.probes.TableModel(wire)
    model.to(draw.exact)
    model.to(torch.device(submission.device))
    lengths = draw.sizes(len(tables), 2, len(tables) + 4)
    src = draw.tokens(lengths, vocab=30, low=7 + len(tables))
    src[:, 0] = torch.tensor(numbers)
    return model, src


Decode = Callable[[Any, Any, Tensor, int], Any]
"""Runs an exercise: (submission, model, src, max_len) -> what it returned."""
