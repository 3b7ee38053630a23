"""The checks of the model of stage 7 that are held back from a class."""

from __future__ import annotations

import math

import torch

from grader.checks import check, expect, expect_error, fail, mistake

from .building import (
    BATCH,
    ODD_HEADS,
    SEQ,
    agrees,
    expect_block,
    expect_logits,
    expect_normed,
    expect_refused,
    load,
    new_block,
    new_config,
    new_gpt,
    random_weights,
)
from .dropout import attention_drops, branches_drop, embeddings_drop
from .model import GPT2, LLAMA, MIXED, MIXED_TOO, parameter_count
from .weights_of_gpt2 import expect_loaded, gpt2_state


@check("RMSNorm", points=2)
def test_rms_norm_adds_eps_inside_the_root(submission, draw):
    """RMSNorm divides by sqrt(mean(x²) + eps), with the eps it was given, 1e-6 without one."""
    for scale, options in ((1e-3, {}), (0.1, {"eps": 0.01})):
        x = draw.normal(2, 5, 12, dtype=draw.exact, scale=scale)
        expect_normed(submission.RMSNorm(12, **options).to(draw.exact), x, torch.ones(12), **options)


@check("RMSNorm", points=1)
def test_rms_norm_leaves_its_input_alone(submission, draw):
    """RMSNorm does not modify its input, and passes gradients to its weight."""
    norm = submission.RMSNorm(12).to(draw.exact)
    x = draw.normal(2, 5, 12, dtype=draw.exact)
    _, (after,) = submission.inputs_after(norm, x)
    if not agrees(expect(after, "the input after the call").tensor(), x):
        fail(
            "RMSNorm changes the tensor it is given, and in a block that is the stream itself.",
            "Look for -=, /= and *=, and methods that end in an underscore.",
        )
    found = submission.gradients(norm, x)
    if found.parameters.get("weight") is None:
        fail("No gradient reaches the weight of RMSNorm.", "Make it an nn.Parameter, and multiply by it.")


# GPTConfig


IMPOSSIBLE = (
    {"vocab_size": 0},
    {"block_size": 0},
    {"num_layers": 0},
    {"d_ff": 0},
    {"num_heads": 5},
    {"dropout": 1.5},
    {"dropout": -0.1},
    {"position": "sinusoidal"},
    {"norm": "batch"},
    {"mlp": "relu"},
    ODD_HEADS,
)


@check("GPTConfig", points=4)
def test_impossible_settings_are_refused(submission, draw):
    """Settings of which no model can be made raise ValueError with the value in the message; a config is frozen."""
    for changes in IMPOSSIBLE:
        expect_refused(submission, **changes)
    config = new_config(submission, GPT2)
    expect_error(AttributeError, lambda: submission.probes.change(config, "num_heads", 4))


# Block


@check("Block", points=4)
def test_a_block_of_llama(submission, draw):
    """With rotary positions, RMSNorm and SwiGLU, a block turns queries and keys, and only these, and has no bias."""
    for settings in (LLAMA, MIXED):
        block, weights = new_block(submission, draw, settings)
        x = draw.normal(BATCH, SEQ, settings.d_model, dtype=draw.exact)
        expect_block(block(x), weights, settings, x)


@check("Block", points=2)
def test_no_bias_means_none_at_all(submission, draw):
    """With bias=False a block has no bias, in its layer norms either."""
    settings = GPT2.but(bias=False, d_ff=20)
    block, weights = new_block(submission, draw, settings)
    x = draw.normal(BATCH, SEQ, settings.d_model, dtype=draw.exact)
    expect_block(block(x), weights, settings, x)


@check("Block", points=2)
def test_dropout_acts_on_both_branches(submission, draw):
    """In training, dropout acts on what each branch of a block returns, before it is added."""
    branches_drop(submission, draw)


@check("Block", points=2)
def test_dropout_acts_on_the_attention_weights(submission, draw):
    """In training, dropout acts on the attention weights too."""
    attention_drops(submission, draw)


@check("Block", points=1)
def test_a_block_leaves_its_input_alone(submission, draw):
    """A block does not modify its input, takes a transposed one, and takes a single token."""
    block, weights = new_block(submission, draw, GPT2)
    for x in (
        draw.normal(SEQ, BATCH, GPT2.d_model, dtype=draw.exact).transpose(0, 1),
        draw.normal(1, 1, GPT2.d_model, dtype=draw.exact),
    ):
        output, (after,) = submission.inputs_after(block, x)
        if not agrees(expect(after, "the input after the call").tensor(), x):
            fail("A block changes the tensor it is given.", "Write x = x + branch instead of x += branch.")
        expect_block(output, weights, GPT2, x)


# GPT


@check("GPT", points=4)
def test_the_logits_of_a_llama(submission, draw):
    """With rotary positions, RMSNorm, SwiGLU and no bias, a GPT gives Llama's logits; and so with every mixture."""
    for settings in (LLAMA, MIXED, MIXED_TOO):
        model, weights = new_gpt(submission, draw, settings)
        tokens = draw.integers(0, settings.vocab_size, BATCH, settings.block_size)
        expect_logits(model(tokens), weights, settings, tokens)
        count = sum(value.numel() for value in model.parameters().values())
        if count != parameter_count(settings):
            fail(f"The model has {count:,} parameters, expected {parameter_count(settings):,}.")


@check("GPT", points=3)
def test_the_first_weights_are_those_of_gpt2(submission, draw):
    """Fresh weights have standard deviation 0.02, at the end of a branch 0.02 / sqrt(2 * num_layers); biases are 0."""
    changes = {"vocab_size": 101, "d_model": 60, "num_layers": 6, "d_ff": 130}
    for settings in (GPT2.but(**changes), LLAMA.but(**changes)):
        parameters = submission.GPT(new_config(submission, settings)).parameters()
        scaled = 0.02 / math.sqrt(2 * settings.num_layers)
        for name, value in parameters.items():
            if "norm" in name:
                expected = torch.zeros_like(value) if name.endswith("bias") else torch.ones_like(value)
                expect(value, f"{name} of a fresh model").equals(expected)
            elif name.endswith("bias"):
                expect(value, f"{name} of a fresh model").equals(torch.zeros_like(value))
            else:
                ends_branch = name.endswith(("w_o.weight", "linear2.weight", "w_down.weight"))
                expect_spread(name, value, scaled if ends_branch else 0.02, settings.num_layers)


def expect_spread(name, value, expected, num_layers):
    """Ends the check unless a fresh matrix is normal around 0 with the expected standard deviation."""
    found = float(value.double().std())
    if abs(found / expected - 1) < 0.15 and abs(float(value.double().mean())) < expected / 5:
        return
    facts = {"tensor": name, "seen": found, "expected": expected, "num_layers": num_layers}
    if name in ("token_embed.weight", "head.weight", "positions.embedding.weight") and found > 0.5:
        mistake("gpt-embedding-init", **facts)
    if expected < 0.02 and abs(found / 0.02 - 1) < 0.15:
        mistake("gpt-residual-init-unscaled", **facts)
    fail(
        f"{name} of a fresh model has standard deviation {found:.4f} around {float(value.mean()):.4f}, "
        f"expected {expected:.4f} around 0.",
        "Compare with the docstring of GPT.__init__: what is drawn, and from where.",
    )


@check("GPT", points=1)
def test_dropout_acts_on_the_embeddings(submission, draw):
    """In training, dropout acts on the embeddings, with learned positions and with rotary ones."""
    embeddings_drop(submission, draw)


@check("GPT", points=2)
def test_no_logits_depend_on_later_tokens(submission, draw):
    """Changing a token changes no logits before it, in training mode too."""
    for settings in (GPT2, LLAMA):
        model, _ = new_gpt(submission, draw, settings)
        model.train()
        tokens = draw.integers(0, settings.vocab_size, BATCH, SEQ)
        changed = tokens.clone()
        changed[:, 4:] = (tokens[:, 4:] + 1) % settings.vocab_size
        before, after = (
            expect(next(iter(model(each))), "the logits").tensor((BATCH, SEQ, settings.vocab_size))
            for each in (tokens, changed)
        )
        if not agrees(before[:, :4], after[:, :4]):
            mistake("gpt-not-causal")


@check("GPT", points=2)
def test_too_many_tokens_are_refused(submission, draw):
    """block_size tokens are taken; one more raises ValueError with both numbers in the message."""
    for settings in (GPT2, LLAMA):
        model, weights = new_gpt(submission, draw, settings)
        tokens = draw.integers(0, settings.vocab_size, 1, settings.block_size + 1)
        expect_error(ValueError, lambda model=model, tokens=tokens: model(tokens), mentions=["12", "11"])
        expect_logits(model(tokens[:, :-1]), weights, settings, tokens[:, :-1])


@check("GPT", points=1)
def test_gradients_reach_every_parameter(submission, draw):
    """The loss sends a gradient to every parameter of a GPT."""
    model, _ = new_gpt(submission, draw, LLAMA)
    tokens = draw.integers(0, LLAMA.vocab_size, BATCH, LLAMA.block_size)
    found = submission.gradients(model, tokens, tokens, of=1)
    without = [name for name, value in found.parameters.items() if value is None]
    if without:
        fail(f"No gradient reaches {', '.join(without[:4])}.", "Is every module that you make also used?")


# load_gpt2


@check("load_gpt2", points=2)
def test_other_forms_of_the_state_dict(submission, draw):
    """The state dict of a bare GPT2Model is taken, also one with old masks in it, and one whose head is its own."""
    state = gpt2_state(draw, GPT2)
    bare = {
        name.removeprefix("transformer."): value for name, value in state.items() if name != "lm_head.weight"
    }
    bare["h.0.attn.bias"] = torch.ones(1, 1, 11, 11, dtype=torch.bool).tril()
    bare["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    expect_loaded(submission, draw, GPT2, bare, state)
    settings = GPT2.but(tie_weights=False)
    expect_loaded(submission, draw, settings, gpt2_state(draw, settings))


@check("load_gpt2", points=3)
def test_weights_that_do_not_fit_are_refused(submission, draw):
    """Other shapes, missing layers, layers too many and a model unlike GPT-2 raise ValueError and change nothing."""
    state = gpt2_state(draw, GPT2)
    weights = random_weights(draw, GPT2)
    model = submission.GPT(new_config(submission, GPT2))
    load(model, weights, draw)
    larger = gpt2_state(draw, GPT2.but(vocab_size=19))
    longer = gpt2_state(draw, GPT2.but(block_size=13))
    shallower = gpt2_state(draw, GPT2.but(num_layers=1))
    deeper = gpt2_state(draw, GPT2.but(num_layers=3))
    for wrong, what, mentions in (
        (larger, "a vocabulary of 19 tokens, not 17", ["19", "17"]),
        (longer, "13 positions, not 11", ["13", "11"]),
        (shallower, "1 layer, not 2", []),
        (deeper, "3 layers, not 2", []),
    ):
        expect_error(
            ValueError,
            lambda wrong=wrong: submission.load_gpt2(model, wrong),
            mentions=mentions,
            mistake="gpt2-misfit-unchecked",
            facts={"what": what},
        )
    for settings in (LLAMA, GPT2.but(bias=False)):
        other = submission.GPT(new_config(submission, settings))
        expect_error(
            ValueError,
            lambda other=other: submission.load_gpt2(other, state),
            mistake="gpt2-misfit-unchecked",
            facts={"what": "weights for a model that is not built like GPT-2"},
        )
    tokens = draw.integers(0, GPT2.vocab_size, BATCH, SEQ)
    expect_logits(model(tokens), weights, GPT2, tokens)
