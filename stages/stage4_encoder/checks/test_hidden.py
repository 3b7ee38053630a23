"""Checks of stage 4 that are held back from a class."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from grader.checks import check, expect, expect_error, fail, mistake

from . import test_public as public
from .building import (
    agrees,
    constant_branches,
    expect_gradients,
    loaded,
    new_encoder,
    new_layer,
    new_layer_norm,
    ring_mask,
)
from .comparing import STREAM, eps_is_right, expect_encoder, expect_layer, expect_layer_norm, settings_facts
from .defaults import CONSTANT_ATTENTION, WRITTEN_OUT, name_other_defaults
from .dropout import (
    BIAS,
    branch_stories,
    name_dropout_before_gelu,
    name_feed_forward_dropout,
    network_of_ones,
    output_for_ones,
    rate_of,
    same,
    tells,
)
from .oracles import (
    Settings,
    encoder_shapes,
    layer_shapes,
    leaves,
    parameter_gradients,
    torch_encoder,
    torch_layer,
)
from .parts import made_of
from .wrong_encoders import SURE_IN_ENCODER, SURE_IN_LAYER, encoder_mistakes

# LayerNorm


@check("LayerNorm", points=2)
def test_layer_norm_adds_eps_inside_the_root(submission, draw):
    """LayerNorm divides by sqrt(variance + eps), with the eps it was given; a constant token gives the bias."""
    eps_is_right(submission, draw)


@check("LayerNorm", points=2)
def test_layer_norm_survives_a_large_mean(submission, draw):
    """In float32, LayerNorm stays accurate when the mean is thousands of times larger than the spread."""
    with made_of(submission, draw, public.test_layer_norm_standardises_every_token):
        x = draw.normal(2, 3, 16, shift=5000.0)
        expected = F.layer_norm(x.double(), (16,)).float()
        output = expect(submission.LayerNorm(16)(x), "the normalised tokens", dims=STREAM)
        if agrees(output.tensor(shape=(2, 3, 16), dtype=torch.float32, finite=False), expected, 0.03):
            return
        exact = expect(
            submission.LayerNorm(16).to(draw.exact)(x.to(draw.exact)), "the normalised tokens"
        ).tensor()
        if draw.exact == torch.float64 and agrees(exact, expected, 1e-3):
            mistake("layer-norm-variance-cancels")
        output.equals(expected, atol=0.03)


@check("LayerNorm", points=1)
def test_layer_norm_takes_any_number_of_axes(submission, draw):
    """LayerNorm normalises the last axis, however many axes stand before it."""
    with made_of(submission, draw, eps_is_right):
        for shape in ((2, 3, 4, 6), (3, 6), (6,)):
            norm, weights = new_layer_norm(submission, draw, 6)
            x = draw.normal(*shape, dtype=draw.exact)
            variance, mean = torch.var_mean(x, dim=min(2, x.dim() - 1), correction=0, keepdim=True)
            third = (x - mean) * torch.rsqrt(variance + 1e-5) * weights["weight"] + weights["bias"]
            expect_layer_norm(norm(x), x, weights, further={"layer-norm-axis-from-front": third})


@check("LayerNorm", points=2)
def test_layer_norm_passes_gradients_through_its_statistics(submission, draw):
    """Gradients through LayerNorm equal those of F.layer_norm, for its input, weight and bias."""
    with made_of(submission, draw, test_layer_norm_leaves_its_input_alone, eps_is_right):
        norm, weights = new_layer_norm(submission, draw, 6)
        x, cotangent = draw.normal(2, 3, 6, dtype=draw.exact), draw.normal(2, 3, 6, dtype=draw.exact)
        inputs = leaves({"the input x": x, **weights})
        found = submission.gradients(norm, x, cotangent=cotangent)
        expect_layer_norm(found.output, x, weights)
        if not {"weight", "bias"} <= found.parameters.keys():
            mistake("layer-norm-not-trainable")
        expected = F.layer_norm(inputs["the input x"], (6,), inputs["weight"], inputs["bias"])
        expect_gradients(
            {"the input x": found.inputs[0], **found.parameters},
            parameter_gradients(expected, cotangent, inputs),
            "layer-norm-gradient-cut",
        )


@check("LayerNorm", points=1)
def test_layer_norm_leaves_its_input_alone(submission, draw):
    """LayerNorm does not modify its input."""
    norm, _ = new_layer_norm(submission, draw, 6)
    x = draw.normal(2, 3, 6, dtype=draw.exact)
    returned, (after,) = submission.inputs_after(norm, x)
    if not agrees(expect(after, "the input after the call").tensor(), x):
        mistake("layer-norm-in-place")
    expect(returned, "the output").tensor(shape=tuple(x.shape))


# FeedForward


@check("FeedForward", points=2)
def test_feed_forward_drops_hidden_features(submission, draw):
    """In training, FeedForward drops single hidden features, between its two linear maps."""
    network = network_of_ones(submission, draw, dropout=0.5)
    if len(output_for_ones(network, draw).unique()) == 1 and not same(output_for_ones(network, draw), 6.0):
        public.test_feed_forward_is_two_linear_maps_around_relu(submission, draw)
    network.train()
    name_feed_forward_dropout(output_for_ones(network, draw))
    network = network_of_ones(submission, draw, dropout=0.5, activation="gelu")
    network.train()
    name_dropout_before_gelu(output_for_ones(network, draw))
    network = network_of_ones(submission, draw)
    network.train()
    rate = rate_of(output_for_ones(network, draw) - BIAS)
    if rate != 0.1:
        mistake("ffn-default-dropout", seen=rate)


PARTS = (
    test_layer_norm_leaves_its_input_alone,
    *public.PARTS,
    test_layer_norm_adds_eps_inside_the_root,
    test_layer_norm_passes_gradients_through_its_statistics,
    test_feed_forward_drops_hidden_features,
)

LAYER_PARTS = (*PARTS, *public.LAYER)


# EncoderLayer: dropout


@check("EncoderLayer", points=2)
def test_layer_drops_from_the_branches(submission, draw):
    """In training, dropout acts on what each branch returns, before it is added, and never on the stream."""
    with made_of(submission, draw, *LAYER_PARTS):
        for norm_first in (True, False):
            settings = Settings(4, 2, 6, norm_first=norm_first)
            weights = constant_branches(draw.weights(layer_shapes(settings), draw.exact), draw)
            layer, _ = new_layer(submission, draw, settings, weights, dropout=0.5)
            layer.train()
            x = draw.normal(4, 5, 4, dtype=draw.exact)
            output = expect(layer(x), "the output in training", dims=STREAM).tensor(shape=(4, 5, 4))
            name_branch_dropout(output, branch_stories(x, weights, settings), settings)


def name_branch_dropout(output, stories, settings):
    """Ends the check unless the output shows dropout on both branches."""
    if tells(stories["branches"], output):
        return
    if tells(stories["nowhere"], output):
        mistake("encoder-branch-dropout-missing", where="neither of its two branches")
    for this, other in (("attention", "feed-forward"), ("feed-forward", "attention")):
        if tells(stories[f"{this} branch"], output):
            mistake(
                "encoder-branch-dropout-missing", where=f"the {this} branch, but not from the {other} branch"
            )
    if tells(stories["sums"], output) or tells(stories["norms"], output):
        mistake("encoder-dropout-on-stream", order=settings.order)
    fail(
        f"The output of the {settings.order} layer in training fits no dropout, at the rate 0.5, on its branches.",
        "Compare your lines with the two formulas in the docstring of EncoderLayer.",
    )


@check("EncoderLayer", points=2)
def test_layer_hands_dropout_on(submission, draw):
    """EncoderLayer hands its dropout rate on to self-attention and to FeedForward; at 0, training and eval agree."""
    settings = Settings(4, 2, 5)
    x = draw.normal(6, 5, 4, dtype=draw.exact)
    silent = {name: torch.zeros(shape, dtype=draw.exact) for name, shape in layer_shapes(settings).items()}
    # All scores 0, all values 1: attention gives the mean of five ones, and more or less if some are dropped.
    attention = {"self_attn.w_v.bias": torch.ones(4), "self_attn.w_o.weight": torch.eye(4)}
    # All hidden features 1, and each output their mean: the same for the other branch.
    network = {
        "feed_forward.linear1.bias": torch.ones(5),
        "feed_forward.linear2.weight": torch.full((4, 5), 0.2),
    }

    def branch(weights):
        layer, _ = new_layer(submission, draw, settings, silent | weights, dropout=0.5)
        layer.train()
        return expect(layer(x), "the output in training", dims=STREAM).tensor(shape=(6, 5, 4)) - x

    with made_of(submission, draw, *LAYER_PARTS, test_layer_drops_from_the_branches):
        if same(branch(attention), 0.0, 1.0, 2.0):
            mistake("encoder-attention-dropout-not-handed-on")
        fed = branch(network)
        if same(fed, 0.0, 1.0, 2.0) or not same(fed, *(0.4 * kept for kept in range(11))):
            mistake("encoder-ffn-dropout-not-handed-on")

        default, written_out = (
            loaded(submission.EncoderLayer(4, 2, 5, **settings), silent | CONSTANT_ATTENTION, draw)[0]
            for settings in ({}, WRITTEN_OUT)
        )
        name_other_defaults(default, written_out, x, "encoder-layer-defaults")

        layer, _ = new_layer(submission, draw, settings, dropout=0.0)
        in_eval = expect(layer(x), "the output in eval mode", dims=STREAM).tensor(shape=(6, 5, 4))
        layer.train()
        expect(layer(x), "the output with dropout=0 in training", dims=STREAM).equals(in_eval)


# EncoderLayer: properties


@check("EncoderLayer", points=1)
def test_layer_leaves_its_input_alone(submission, draw):
    """EncoderLayer does not modify its input."""
    with made_of(submission, draw, *PARTS):
        for norm_first in (True, False):
            layer, _ = new_layer(submission, draw, Settings(12, 3, 14, norm_first=norm_first))
            x, mask = draw.normal(2, 5, 12, dtype=draw.exact), ring_mask(draw, 2, 5)
            returned, (after, _) = submission.inputs_after(layer, x, mask)
            expect(returned, "the output", dims=STREAM).tensor(shape=tuple(x.shape))
            if not agrees(expect(after, "the input after the call").tensor(), x):
                mistake("encoder-adds-in-place")


@check("EncoderLayer", points=2)
def test_gradients_of_the_layer_equal_pytorch(submission, draw):
    """Gradients reach the input and every parameter of EncoderLayer, and equal PyTorch's."""
    with made_of(submission, draw, *LAYER_PARTS, test_layer_leaves_its_input_alone, sure=SURE_IN_LAYER):
        for norm_first in (True, False):
            settings = Settings(12, 3, 14, norm_first=norm_first)
            layer, weights = new_layer(submission, draw, settings)
            x, mask = draw.normal(2, 5, 12, dtype=draw.exact), ring_mask(draw, 2, 5)
            cotangent = draw.normal(2, 5, 12, dtype=draw.exact)
            inputs = leaves({"the input x": x, **weights})
            expected = torch_layer(inputs["the input x"], inputs, settings, mask)
            found = submission.gradients(layer, x, mask, cotangent=cotangent)
            exact = expect_layer((submission, draw), found.output, x, weights, settings, mask)
            expect_gradients(
                {"the input x": found.inputs[0], **found.parameters},
                parameter_gradients(expected, cotangent, inputs),
                "encoder-gradient-cut",
                exact,
            )


@check("EncoderLayer", points=1)
def test_batch_rows_do_not_see_each_other(submission, draw):
    """Also in training, changing one sentence of a batch changes nothing in the others."""
    with made_of(submission, draw, *PARTS, *public.LAYER_PARTS, test_layer_hands_dropout_on):
        for norm_first in (True, False):
            layer = submission.EncoderLayer(12, 3, 14, dropout=0.0, norm_first=norm_first).to(draw.exact)
            layer.train()
            x = draw.normal(3, 5, 12, dtype=draw.exact)
            changed = x.clone()
            changed[1] = draw.normal(5, 12, dtype=draw.exact, scale=3.0)
            before = expect(layer(x), "the output", dims=STREAM).tensor(shape=(3, 5, 12))
            after = expect(layer(changed), "the output", dims=STREAM).tensor(shape=(3, 5, 12))
            if not agrees(after[[0, 2]], before[[0, 2]]):
                mistake("encoder-batch-norm")


@check("EncoderLayer", points=1)
def test_layer_refuses_heads_that_do_not_fit(submission, draw):
    """Heads that do not divide d_model raise ValueError with both numbers in the message."""
    expect_error(ValueError, lambda: submission.EncoderLayer(10, 3, 14), mentions=["10", "3"])


LAYER = (
    *public.LAYER,
    test_layer_drops_from_the_branches,
    test_gradients_of_the_layer_equal_pytorch,
)


# Encoder


@check("Encoder", points=2)
def test_post_norm_encoder_equals_pytorch(submission, draw):
    """A post-norm Encoder hands its settings on and ends without a further norm, as nn.TransformerEncoder does."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14, norm_first=False, activation="gelu")
        encoder, weights = new_encoder(submission, draw, settings, num_layers=2)
        x = draw.normal(2, 5, 12, dtype=draw.exact)
        expect_encoder((submission, draw), encoder(x), x, weights, settings)


@check("Encoder", points=1)
def test_encoder_takes_every_kind_of_batch(submission, draw):
    """Encoder takes a transposed tensor, a single sentence, and sentences of a single token."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14)
        encoder, weights = new_encoder(submission, draw, settings, num_layers=2)
        sequence_first = draw.normal(5, 2, 12, dtype=draw.exact)
        for x in (
            sequence_first.transpose(0, 1),
            sequence_first[:, :1].transpose(0, 1),
            sequence_first[:, 1:],
        ):
            expect_encoder((submission, draw), encoder(x), x, weights, settings)


@check("Encoder", points=2)
def test_no_position_sees_a_later_one(submission, draw):
    """With a causal mask, also beside padding, no position of a post-norm Encoder sees a later one."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14, norm_first=False)
        encoder, weights = new_encoder(submission, draw, settings, num_layers=3)
        real = draw.tokens([6, 5], vocab=20) != 0
        mask = real[:, None, None, :] & torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
        x = draw.normal(2, 6, 12, dtype=draw.exact)
        changed = torch.cat([x[:, :3], draw.normal(2, 3, 12, dtype=draw.exact)], dim=1)
        before, after = encoder(x, mask), encoder(changed, mask)
        expect(after, "the output after the tokens 3, 4 and 5 changed", dims=STREAM).equals(
            expect(before, "the output under a causal mask", dims=STREAM).tensor(
                shape=(2, 6, 12), finite=False
            ),
            only=torch.arange(6)[:, None] < 3,
            mistakes=encoder_mistakes(changed, weights, settings, mask),
            facts=settings_facts(settings),
        )
        expect_encoder((submission, draw), before, x, weights, settings, mask, real)


@check("Encoder", points=2)
def test_gradients_reach_every_layer(submission, draw):
    """Gradients reach every parameter of every layer of the Encoder, and equal PyTorch's."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14)
        encoder, weights = new_encoder(submission, draw, settings, num_layers=3)
        x, cotangent = draw.normal(2, 5, 12, dtype=draw.exact), draw.normal(2, 5, 12, dtype=draw.exact)
        inputs = leaves({"the input x": x, **weights})
        expected = torch_encoder(inputs["the input x"], inputs, settings)
        found = submission.gradients(encoder, x, cotangent=cotangent)
        exact = expect_encoder((submission, draw), found.output, x, weights, settings)
        expect_gradients(
            {"the input x": found.inputs[0], **found.parameters},
            parameter_gradients(expected, cotangent, inputs),
            "encoder-stack-gradient-cut",
            exact,
        )


@check("Encoder", points=1)
def test_encoder_hands_dropout_on(submission, draw):
    """Encoder hands its dropout rate on: at 0 training and eval agree, at 0.5 two runs in training differ."""
    settings = Settings(12, 3, 14)
    x = draw.normal(2, 5, 12, dtype=draw.exact)

    def output(encoder):
        return expect(encoder(x), "the output of the encoder", dims=STREAM).tensor(shape=(2, 5, 12))

    with made_of(submission, draw, *LAYER, test_layer_hands_dropout_on):
        at_rate_0, _ = new_encoder(submission, draw, settings, num_layers=2, dropout=0.0)
        in_eval = output(at_rate_0)
        at_rate_0.train()
        half, _ = new_encoder(submission, draw, settings, num_layers=2, dropout=0.5)
        half.train()
        if not agrees(output(at_rate_0), in_eval) or agrees(output(half), output(half)):
            mistake("encoder-stack-dropout-lost")

        settings = Settings(4, 2, 5)
        default, written_out = (submission.Encoder(2, 4, 2, 5, **options) for options in ({}, WRITTEN_OUT))
        if "norm.weight" in written_out.shapes() and "norm.weight" not in default.shapes():
            mistake("encoder-stack-defaults", argument="norm_first", seen=False, default=True)
        silent = {
            name: torch.zeros(shape, dtype=draw.exact) for name, shape in encoder_shapes(2, settings).items()
        }
        constant = {f"layers.0.{name}": value for name, value in CONSTANT_ATTENTION.items()}
        for encoder in (default, written_out):
            loaded(encoder, silent | constant, draw)
        x = draw.normal(6, 5, 4, dtype=draw.exact)
        name_other_defaults(default.layers[0], written_out.layers[0], x, "encoder-stack-defaults")
