"""The checks of the model of stage 7 that learners may read."""

from __future__ import annotations

from functools import partial

from grader.checks import check, expect, fail, mistake

from .building import (
    BATCH,
    SEQ,
    agrees,
    expect_block,
    expect_logits,
    expect_normed,
    expect_refused,
    new_block,
    new_config,
    new_gpt,
)
from .losses import expect_loss
from .model import GPT2, parameter_count, swiglu
from .weights_of_gpt2 import expect_loaded, gpt2_state


@check("RMSNorm", points=3)
def test_rms_norm_divides_by_the_root_mean_square(submission, draw):
    """RMSNorm gives x / sqrt(mean(x²) + eps) * weight, for each token by itself."""
    norm = submission.RMSNorm(12).to(draw.exact)
    weight = draw.normal(12, dtype=draw.exact)
    norm.load_state_dict({"weight": weight})
    x = draw.normal(2, 5, 12, dtype=draw.exact, scale=3.0, shift=1.0)
    expect_normed(norm, x, weight)


@check("SwiGLU", points=3)
def test_swiglu_gates_one_map_by_the_other(submission, draw):
    """SwiGLU gives w_down(silu(w_gate(x)) * w_up(x)), and has no bias."""
    network = submission.SwiGLU(12, 20).to(draw.exact)
    weights = draw.weights(
        {"w_gate.weight": (20, 12), "w_up.weight": (20, 12), "w_down.weight": (12, 20)}, draw.exact
    )
    network.load_state_dict(weights)
    x = draw.normal(2, 5, 12, dtype=draw.exact, scale=2.0)
    run = partial(swiglu, weights, x)
    expect(network(x), "the output of SwiGLU", dims="batch position feature").equals(
        run(),
        mistakes={
            "swiglu-silu-of-product": lambda: run("product"),
            "swiglu-silu-on-up": lambda: run("up"),
        },
    )


@check("GPTConfig", points=2)
def test_a_config_keeps_its_settings_and_knows_its_words(submission, draw):
    """A GPTConfig keeps its settings, is a GPT-2 without further ones, and raises ValueError for an unknown word."""
    made = submission.GPTConfig(vocab_size=17, block_size=11, d_model=12, num_heads=3, num_layers=2)
    config = expect(made, "a GPTConfig").value()
    for name, value in GPT2.arguments().items():
        if name != "d_ff":  # None, or 4 * d_model already
            expect(getattr(config, name), f"{name} of the config").equals(value)
    expect_refused(submission, mlp="relu")


@check("Block", points=4)
def test_a_block_of_gpt2(submission, draw):
    """A block as in GPT-2 normalises, attends and adds, normalises, runs its tanh-GELU network and adds."""
    block, weights = new_block(submission, draw, GPT2)
    x = draw.normal(BATCH, SEQ, GPT2.d_model, dtype=draw.exact)
    expect_block(block(x), weights, GPT2, x)


@check("Block", points=2)
def test_a_block_does_not_look_ahead(submission, draw):
    """Changing a token changes nothing at the positions before it, in a block."""
    block, _ = new_block(submission, draw, GPT2)
    x = draw.normal(BATCH, SEQ, GPT2.d_model, dtype=draw.exact)
    changed = x.clone()
    changed[:, 4:] = draw.normal(BATCH, SEQ - 4, GPT2.d_model, dtype=draw.exact)
    before, after = (expect(block(each), "the output").tensor(tuple(x.shape)) for each in (x, changed))
    if not agrees(before[:, :4], after[:, :4]):
        mistake("gpt-not-causal")
    if agrees(before[:, 5:], after[:, 5:]):
        fail("The output of a block is the same for other inputs.")


@check("GPT", points=4)
def test_the_logits_of_a_gpt2(submission, draw):
    """A GPT with GPT-2's settings gives GPT-2's logits, for every position."""
    model, weights = new_gpt(submission, draw, GPT2)
    tokens = draw.integers(0, GPT2.vocab_size, BATCH, SEQ)
    expect_logits(model(tokens), weights, GPT2, tokens)


@check("GPT", points=3)
def test_the_loss_counts_every_target(submission, draw):
    """The loss is the mean cross-entropy of logits and targets, as they stand; without targets it is None."""
    expect_loss(submission, draw)


@check("GPT", points=3)
def test_tied_weights_are_one_parameter(submission, draw):
    """token_embed and head share one parameter when tie_weights is True; the number of parameters is right."""
    for settings in (GPT2, GPT2.but(tie_weights=False)):
        model = submission.GPT(new_config(submission, settings))
        parameters = model.parameters()
        both = {"token_embed.weight", "head.weight"}
        if settings.tie_weights and both <= parameters.keys():
            mistake("gpt-tied-by-copy", vocab=settings.vocab_size, d_model=settings.d_model)
        count = sum(value.numel() for value in parameters.values())
        expected = parameter_count(settings)
        if count != expected:
            tied = "tied" if settings.tie_weights else "not tied"
            fail(
                f"A GPT with {tied} weights has {count:,} parameters, expected {expected:,}.",
                "Compare the modules and their biases with the docstrings of Block and GPT.",
            )


@check("load_gpt2", points=4)
def test_the_weights_of_gpt2_fit(submission, draw):
    """With the weights of a Hugging Face GPT-2 a GPT gives the logits of that GPT-2."""
    expect_loaded(submission, draw, GPT2, gpt2_state(draw, GPT2))
