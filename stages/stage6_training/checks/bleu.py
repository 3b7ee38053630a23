"""BLEU as sacrebleu gives it, and as known mistakes do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sacrebleu.metrics import BLEU
from torch import Tensor

WORDS = "The a cat dog sat ran on under mat, table, in of night, day and old new house. street. with".split()


def corpora(draw: Any) -> tuple[list[str], list[str]]:
    """Four translations with mistakes in them, and their references."""
    hypotheses, references = [], []
    for length in draw.sizes(4, 8, 14):
        reference = [WORDS[index] for index in draw.permutation(len(WORDS)).tolist()[:length]]
        hypothesis = list(reference)
        hypothesis[draw.integer(0, 2)] = "house"
        if len(hypotheses) % 2:
            hypothesis = [*hypothesis[:-1], "and", "the", "day"]
        hypotheses.append(" ".join(hypothesis))
        references.append(" ".join(reference))
    return hypotheses, references


def bleu(hypotheses: list[str], references: list[str]) -> tuple[float, str]:
    """The score and its signature."""
    metric = BLEU()
    return metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature())


def wrong_bleus(hypotheses: list[str], references: list[str]) -> dict[str, list[Callable[[], Tensor]]]:
    """By code of the mistake, the score that it gives."""
    ways: dict[str, list[Callable[[], float]]] = {
        "bleu-swapped": [lambda: bleu(references, hypotheses)[0]],
        "bleu-references-misshaped": [
            lambda: BLEU().corpus_score(hypotheses, [[reference] for reference in references]).score,
            lambda: BLEU().corpus_score(hypotheses, references).score,
        ],
    }
    return {
        code: [lambda way=way: torch.tensor(way(), dtype=torch.float64) for way in several]
        for code, several in ways.items()
    }
