"""The loss of a GPT."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.checks import expect

from .building import BATCH, SEQ, TOLERANCE, new_gpt
from .model import GPT2, run_gpt


def expect_loss(submission: Any, draw: Any) -> None:
    """The loss is that of every target; with 0 among the targets, and none of them a token of the input again."""
    model, weights = new_gpt(submission, draw, GPT2)
    tokens = draw.integers(0, GPT2.vocab_size, BATCH, SEQ)
    targets = draw.integers(0, GPT2.vocab_size, BATCH, SEQ)
    targets[0, 2] = targets[1, 5] = 0
    logits = run_gpt(weights, GPT2, tokens)
    _, loss = model(tokens, targets)
    expect(loss, "the loss").equals(
        cross_entropy(logits, targets),
        mistakes={
            "gpt-loss-shifted-again": lambda: cross_entropy(logits[:, :-1], targets[:, 1:]),
            "gpt-loss-ignores-zero": lambda: cross_entropy(logits, targets, ignore_index=0),
        },
        atol=TOLERANCE,
        rtol=TOLERANCE,
    )
    _, nothing = model(tokens)
    expect(nothing, "the loss without targets").equals(None)


def cross_entropy(logits: Tensor, targets: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), **options)
