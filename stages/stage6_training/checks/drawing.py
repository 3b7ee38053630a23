"""What sampling should draw from a known distribution, and from which generator."""

from __future__ import annotations

from typing import Any

import torch

from grader.checks import expect, fail, mistake

from .tables import EOS, SOS, VOCAB, Table, model_of, words

ROWS = 2000
"""So many draws show a probability to about one in a hundred."""


def expect_distribution(submission: Any, draw: Any, temperature: float) -> None:
    """Of many sentences, as many begin with each token as its probability says."""
    logits = torch.full((VOCAB,), -8.0, dtype=torch.float64)
    logits[words(draw)[:4]] = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    shifted = logits + draw.normal(1, dtype=torch.float64, scale=3.0)
    model, src = model_of(submission, draw, [Table({}, shifted.tolist())])
    generator = submission.generator(draw.integer(0, 1000))
    returned = submission.sample(
        model, src.expand(ROWS, -1).contiguous(), 2, temperature=temperature, generator=generator
    )
    ids = expect(returned, "the ids", dims="batch position").tensor(shape=(ROWS, 2))
    if ids.is_floating_point() or not bool(((ids >= 0) & (ids < VOCAB)).all()):
        fail(f"The ids: expected whole numbers from 0 to {VOCAB - 1}.", "Return token ids.")
    seen = torch.bincount(ids[:, 1].long(), minlength=VOCAB).double() / ROWS
    surest = torch.zeros(VOCAB, dtype=torch.float64)
    surest[int(logits.argmax())] = 1.0
    expect(seen, f"how often each token comes first at temperature {temperature}", dims="token").equals(
        (logits / temperature).softmax(-1),
        atol=0.07,
        rtol=0.0,
        mistakes={
            "sample-takes-the-likeliest": surest,
            "sample-temperature-multiplied": (logits * temperature).softmax(-1),
            "sample-temperature-ignored": logits.softmax(-1),
        },
        facts={"temperature": temperature},
    )


def expect_generator_used(submission: Any, draw: Any) -> None:
    """The same seed gives the same sentences, another seed gives others."""
    logits = draw.normal(VOCAB, dtype=torch.float64, scale=0.3)
    logits[EOS] = -9.0
    model, src = model_of(submission, draw, [Table({}, logits.tolist()) for _ in range(4)])
    drawn = [
        expect(
            submission.sample(model, src, 9, temperature=1.3, generator=submission.generator(seed)), "the ids"
        ).tensor()
        for seed in (3, 3, 4)
    ]
    if any(ids.dim() != 2 for ids in drawn):
        fail(f"The ids have {drawn[0].dim()} axes, expected two: (batch, length).")
    first, again, other = (ids.tolist() for ids in drawn)
    if any(row[:1] != [SOS] for row in first):
        fail("The ids: every row should begin with <sos>, id 1.")
    if first != again:
        mistake(
            "sample-generator-ignored",
            what="Two generators with the same seed gave different sentences; they should give the same",
        )
    if first == other:
        mistake(
            "sample-generator-ignored",
            what="Generators with the seeds 3 and 4 gave the same sentences; they should give different ones",
        )
