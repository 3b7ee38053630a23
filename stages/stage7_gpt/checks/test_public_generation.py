"""The checks of generation, stage 7, that learners may read."""

from __future__ import annotations

import torch

from grader.checks import check, expect, raising_means

from .filters import Filter, expect_filtered, spread_logits
from .texts import VOCAB, expect_text, model_of, new_table


@check("filter_logits", points=2)
def test_the_temperature_divides_the_logits(submission, draw):
    """filter_logits divides by the temperature; without further settings it leaves nothing out."""
    for case in (Filter(), Filter(temperature=0.5), Filter(temperature=2.0)):
        expect_filtered(submission, spread_logits(draw), case)


@check("filter_logits", points=3)
def test_top_k_keeps_the_k_largest(submission, draw):
    """top_k keeps the k largest logits; a k larger than the vocabulary keeps all."""
    for top_k in (1, 3, 11):
        expect_filtered(submission, spread_logits(draw), Filter(top_k=top_k))
    with raising_means("top-k-above-vocabulary", ["selected index k out of range", "out of range"], vocab=11):
        expect_filtered(submission, spread_logits(draw), Filter(top_k=16))


@check("filter_logits", points=3)
def test_top_p_keeps_the_smallest_set_that_reaches_p(submission, draw):
    """top_p keeps the likeliest tokens up to the one with which their probabilities reach p."""
    # The table of the lesson: 0.5 + 0.35 + 0.1 reach 0.9, and 0.5 alone reaches 0.3.
    chances = torch.tensor([[0.1, 0.5, 0.05, 0.35], [0.35, 0.05, 0.5, 0.1]])
    for top_p in (0.9, 0.6, 0.3):
        expect_filtered(submission, chances.log(), Filter(top_p=top_p))


@check("generate", points=3)
def test_the_largest_logit_at_temperature_0(submission, draw):
    """At temperature 0, generate takes the largest logit of the last position; prompt and new tokens come back."""
    expect_text(submission, draw, prompt_len=2, count=3)


@check("generate", points=1)
def test_no_new_tokens(submission, draw):
    """With max_new_tokens=0, generate returns the prompt."""
    prompt = draw.integers(0, VOCAB, 2, 3)
    returned = submission.generate(model_of(submission, new_table(draw)), prompt, 0)
    expect(returned, "the text", dims="batch position").equals(prompt)
