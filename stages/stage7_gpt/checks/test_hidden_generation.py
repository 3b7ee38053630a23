"""The checks of generation, stage 7, that are held back from a class."""

from __future__ import annotations

import torch

from grader.checks import check, expect, expect_error, fail

from .building import new_gpt
from .filters import Filter, expect_filtered, expect_inputs_kept, spread_logits
from .model import LLAMA, run_gpt
from .texts import (
    VOCAB,
    expect_chances,
    expect_eval_mode,
    expect_reproducible,
    expect_text,
    model_of,
    new_table,
)


@check("filter_logits", points=2)
def test_ties_of_top_k_stay(submission, draw):
    """Tokens that are equal to the k-th largest logit stay too; what was minus infinity stays so."""
    logits = torch.tensor([[1.0, 3.0, -2.0, 3.0, 3.0, 0.5], [-1.0, -1.0, 2.0, -1.0, 5.0, -torch.inf]])
    order = draw.permutation(6)
    for top_k in (2, 3, 6):
        expect_filtered(submission, logits[:, order], Filter(top_k=top_k))


@check("filter_logits", points=3)
def test_top_p_at_its_edges(submission, draw):
    """A tiny top_p keeps the likeliest token, 1 keeps all; random rows keep what they should."""
    for top_p in (0.01, 0.25, 0.5, 0.75, 0.95):
        case = Filter(top_p=top_p)
        expect_filtered(submission, spread_logits(draw, case=case), case)
    expect_filtered(submission, spread_logits(draw) / 4, Filter(top_p=1.0))


@check("filter_logits", points=2)
def test_temperature_then_top_k_then_top_p(submission, draw):
    """The temperature comes first, then top_k, then top_p, on the probabilities of what is left by then."""
    for case in (
        Filter(temperature=2.5, top_p=0.6),
        Filter(temperature=0.4, top_k=5, top_p=0.9),
        Filter(top_k=4, top_p=0.7),
        Filter(temperature=1.7, top_k=3, top_p=0.5),
    ):
        for _ in range(3):
            expect_filtered(submission, spread_logits(draw, case=case), case)


@check("filter_logits", points=1)
def test_the_logits_are_left_alone(submission, draw):
    """filter_logits does not modify its input."""
    for case in (Filter(temperature=0.5), Filter(top_k=3), Filter(top_p=0.5), Filter(2.0, 5, 0.8)):
        expect_inputs_kept(submission, spread_logits(draw, case=case), case)


@check("filter_logits", points=2)
def test_bad_filters_are_refused(submission, draw):
    """A negative temperature, top_k below 1 and top_p outside (0, 1] raise ValueError with the value."""
    logits = spread_logits(draw)
    for options in ({"temperature": -0.5}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_p": -0.25}):
        ((name, value),) = options.items()
        expect_error(
            ValueError,
            lambda options=options: submission.filter_logits(logits, **options),
            mentions=[str(value)],
            mistake="filter-settings-unchecked",
            facts={"setting": f"{name}={value}"},
        )


# generate


@check("generate", points=3)
def test_the_window_slides(submission, draw):
    """The model reads the last block_size tokens of a text that is longer; the whole text comes back."""
    expect_text(submission, draw, prompt_len=3, count=9)
    expect_text(submission, draw, prompt_len=8, count=4)


@check("generate", points=3)
def test_tokens_are_drawn_from_the_filtered_probabilities(submission, draw):
    """Each token is drawn with the probability that filter_logits leaves it."""
    for case in (Filter(), Filter(temperature=0.5), Filter(temperature=3.0, top_k=6, top_p=0.9)):
        expect_chances(submission, draw, case)


@check("generate", points=2)
def test_a_generator_reproduces_the_text(submission, draw):
    """generate takes all its random numbers from the generator it is given."""
    expect_reproducible(submission, draw)


@check("generate", points=2)
def test_generate_runs_in_eval_mode(submission, draw):
    """generate runs in eval mode without gradients, and leaves the model in the mode it was in."""
    expect_eval_mode(submission, draw)


@check("generate", points=2)
def test_bad_prompts_and_settings_are_refused(submission, draw):
    """An empty prompt and settings out of range raise ValueError, the latter with their value."""
    model, prompt = model_of(submission, new_table(draw)), draw.integers(0, VOCAB, 2, 3)
    cases = [
        (prompt, 2, {"temperature": -0.5}, "-0.5"),
        (prompt, 2, {"top_p": 1.5}, "1.5"),
        (prompt, 2, {"top_p": 0.0}, "0"),
        (prompt, -1, {}, "-1"),
        (prompt[:, :0], 2, {}, ""),
    ]
    for tokens, count, options, value in cases:
        expect_error(
            ValueError,
            lambda tokens=tokens, count=count, options=options: submission.generate(
                model, tokens, count, **options
            ),
            mentions=[value],
        )


@check("generate", points=2)
def test_a_gpt_writes(submission, draw):
    """With your GPT, generate writes what its logits find likeliest, past block_size, and leaves the prompt alone."""
    settings = LLAMA.but(dropout=0.5)
    while True:
        model, weights = new_gpt(submission, draw, settings)
        prompt = text = draw.integers(0, settings.vocab_size, 2, 9)
        margin = 1.0
        for _ in range(5):
            logits = run_gpt(weights, settings, text[:, -settings.block_size :])[:, -1]
            first, second = logits.topk(2).values.unbind(-1)
            margin = min(margin, float((first - second).min()))
            text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)
        if margin > 1e-3:
            break
    model.train()
    returned, (after,) = submission.inputs_after(submission.generate, model, prompt, 5, 0.0)
    expect(returned, "the text", dims="batch position").equals(text)
    if not torch.equal(expect(after, "the prompt after the call").tensor(), prompt):
        fail("generate changes the prompt it is given.", "Make a new tensor with torch.cat.")
