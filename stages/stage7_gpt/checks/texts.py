"""Texts that a table model writes, and what becomes of them under each known mistake of `generate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake, raising_means

from .filters import FLAWS, Filter, expect_filtered, keep

VOCAB, BLOCK = 9, 6


class Table(NamedTuple):
    """The tables of a `TableModel`, on the CPU."""

    after: Tensor
    first: Tensor

    def logits(self, window: Tensor) -> Tensor:
        """(batch, seq, vocab), as the model gives them."""
        return self.after[window] + self.first[window[:, :1]]


def new_table(draw: Any) -> Table:
    return Table(draw.normal(VOCAB, VOCAB, scale=2.0), draw.normal(VOCAB, VOCAB, scale=2.0))


def model_of(submission: Any, table: Table) -> Any:
    return submission.probes.TableModel(table.after, table.first, BLOCK)


def likeliest(table: Table, prompt: Tensor, count: int, part: Callable[[Tensor], Tensor]) -> Tensor:
    """The text that the largest logits write, where the model reads `part` of it."""
    tokens = prompt
    for _ in range(count):
        token = table.logits(part(tokens))[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, token], 1)
    return tokens


def expect_text(submission: Any, draw: Any, prompt_len: int, count: int) -> None:
    """At temperature 0 the largest logits write the text, from the last `BLOCK` tokens each time."""
    while True:
        table, prompt = new_table(draw), draw.integers(0, VOCAB, 3, prompt_len)
        right = likeliest(table, prompt, count, lambda tokens: tokens[:, -BLOCK:])
        front = likeliest(table, prompt, count, lambda tokens: tokens[:, :BLOCK])
        if prompt_len + count <= BLOCK + 1 or not torch.equal(right, front):
            break
    model = model_of(submission, table)
    with raising_means("generate-window-not-cropped", ["more than the block_size"], block_size=BLOCK):
        with raising_means("generate-divides-by-zero", ["inf", "nan", "division", "temperature"]):
            returned = submission.generate(model, prompt, count, temperature=0)
    expect(returned, "prompt and new tokens", dims="batch position").equals(right)


def expect_chances(submission: Any, draw: Any, case: Filter) -> None:
    """In many rows of the same prompt, the next token is as frequent as the filtered probabilities say."""
    rows = 4000
    while True:
        table, prompt = new_table(draw), draw.integers(0, VOCAB, 1, 3)
        logits = table.logits(prompt)[:, -1]
        if tells_apart(logits, case):
            break
    right = keep(logits, case).softmax(-1)[0]
    returned = submission.generate(
        model_of(submission, table),
        prompt.repeat(rows, 1),
        1,
        generator=submission.generator(draw.integer(0, 10**6)),
        **case.options(),
    )
    tokens = expect(returned, "the text", dims="batch position").tensor((rows, 4), dtype=torch.int64)
    if bool(((tokens < 0) | (tokens >= VOCAB)).any()):
        fail(f"generate writes tokens that are not in the vocabulary of {VOCAB}.")
    found = tokens[:, -1].bincount(minlength=VOCAB) / rows
    if fits(found, right, rows):
        return
    expect_filtered(submission, logits, case)  # if the filter is wrong, that is what the learner should read
    if case == Filter() and len(tokens[:, -1].unique()) == 1:
        mistake("generate-always-greedy", rows=rows)
    unfiltered = {"top_k": None, "top_p": None}
    for options in ({"temperature": 1.0}, {"top_k": None}, {"top_p": None}, unfiltered, Filter().options()):
        if fits(found, keep(logits, case._replace(**options)).softmax(-1)[0], rows):
            mistake("generate-settings-unused", case=str(case))
    worst = int((found - right).abs().argmax())
    fail(
        f"Of {rows} tokens that were drawn, {float(found[worst]):.1%} are token {worst}, expected "
        f"{float(right[worst]):.1%} ({case}).",
        "Draw from the softmax of filter_logits(logits of the last position), with torch.multinomial.",
    )


def tells_apart(logits: Tensor, case: Filter) -> bool:
    """Whether more than one token stays whatever goes wrong: a single one looks the same under several mistakes."""
    flaws = ["", *(flaw for several in FLAWS.values() for flaw in several)]
    return all(int((keep(logits, case._replace(flaw=flaw)).softmax(-1) > 0.01).sum()) > 1 for flaw in flaws)


def fits(found: Tensor, chances: Tensor, rows: int) -> bool:
    """Whether frequencies are within five standard deviations of the chances; what has no chance never occurs."""
    deviation = (chances * (1 - chances) / rows).sqrt()
    return bool(((found - chances).abs() <= 5 * deviation + 1e-9).all())


def expect_reproducible(submission: Any, draw: Any) -> None:
    """Two generators with one seed write one text, two with different seeds two."""
    table, prompt = new_table(draw), draw.integers(0, VOCAB, 2, 3)
    # Flat, so that two texts of 30 tokens are never equal by chance.
    model = model_of(submission, Table(table.after / 10, table.first / 10))
    seed = draw.integer(0, 10**6)
    first, again, other = (
        expect(
            submission.generate(model, prompt, 30, generator=submission.generator(number)),
            "the text",
            dims="batch position",
        ).tensor((2, 33), dtype=torch.int64)
        for number in (seed, seed, seed + 1)
    )
    if not torch.equal(first, again):
        mistake("generate-generator-unused", seed=seed)
    if torch.equal(first, other):
        fail(
            "generate writes the same text with two generators of different seeds.", "Pass the generator on."
        )


def expect_eval_mode(submission: Any, draw: Any) -> None:
    """Eval mode and no gradients inside; afterwards the old mode."""
    table, prompt = new_table(draw), draw.integers(0, VOCAB, 2, 3)
    for training in (True, False):
        model = model_of(submission, table)
        model.train(training)
        submission.generate(model, prompt, 4)
        calls = expect(model.calls, "the calls of the model").value()
        after = expect(model.training, "model.training afterwards").value()
        if not calls:
            fail("generate wrote four tokens without calling the model.", "Ask the model for each new token.")
        if any(in_training for _, in_training, _ in calls):
            mistake("generate-in-training-mode")
        if after != training:
            mistake("generate-mode-not-restored", before=training, after=after)
        if any(with_gradients for _, _, with_gradients in calls):
            fail("generate runs the model with gradients on.", "Run the loop under torch.no_grad().")
