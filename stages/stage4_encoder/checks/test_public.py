"""Checks of stage 4 that learners may read."""

from __future__ import annotations

import torch

from grader.checks import check, expect, expect_error, mistake

from .building import (
    agrees,
    constant_branches,
    new_encoder,
    new_feed_forward,
    new_layer,
    new_layer_norm,
    ring_mask,
)
from .comparing import (
    STREAM,
    eps_is_right,
    expect_encoder,
    expect_feed_forward,
    expect_layer,
    expect_layer_norm,
    settings_facts,
)
from .dropout import network_of_ones, output_for_ones
from .oracles import Settings, encoder_shapes, layer_shapes
from .parts import made_of
from .wrong_encoders import SURE_IN_ENCODER, SURE_IN_LAYER, encoder_mistakes

# LayerNorm


@check("LayerNorm", points=2)
def test_layer_norm_standardises_every_token(submission, draw):
    """A fresh LayerNorm gives every token mean 0 and biased variance 1 over its own features."""
    with made_of(submission, draw, eps_is_right):
        norm = submission.LayerNorm(6).to(draw.exact)
        x = draw.normal(2, 3, 6, dtype=draw.exact, scale=2.0, shift=0.7)
        fresh = {"weight": torch.ones(6, dtype=draw.exact), "bias": torch.zeros(6, dtype=draw.exact)}
        # Not so closely that one eps could be told from another: that is another check's question.
        expect_layer_norm(norm(x), x, fresh, atol=1e-5)


@check("LayerNorm", points=1)
def test_layer_norm_scales_and_shifts_each_feature(submission, draw):
    """LayerNorm multiplies each feature by its weight, then adds its bias."""
    with made_of(submission, draw, eps_is_right):
        norm, weights = new_layer_norm(submission, draw, 6)
        x = draw.normal(2, 3, 6, dtype=draw.exact)
        expect_layer_norm(norm(x), x, weights)


# FeedForward


@check("FeedForward", points=1)
def test_feed_forward_drops_nothing_in_eval_or_at_rate_0(submission, draw):
    """FeedForward drops nothing in eval mode, and nothing at all with dropout=0."""
    network = network_of_ones(submission, draw, dropout=0.5)
    if len(output_for_ones(network, draw).unique()) > 1:
        mistake("ffn-dropout-in-eval")
    network = network_of_ones(submission, draw, dropout=0.0)
    network.train()
    if len(output_for_ones(network, draw).unique()) > 1:
        mistake("ffn-dropout-rate-ignored", asked=0, seen="another rate")


@check("FeedForward", points=2)
def test_feed_forward_is_two_linear_maps_around_relu(submission, draw):
    """FeedForward is linear2(relu(linear1(x))) when nothing else is asked for."""
    with made_of(submission, draw, test_feed_forward_drops_nothing_in_eval_or_at_rate_0):
        network, weights = new_feed_forward(submission, draw, 6, 10)
        x = draw.normal(2, 3, 6, dtype=draw.exact)
        expect_feed_forward(network(x), x, weights, "relu")


@check("FeedForward", points=1)
def test_feed_forward_can_use_gelu(submission, draw):
    """With activation="gelu", FeedForward uses the exact GELU, the one with erf."""
    with made_of(submission, draw, test_feed_forward_drops_nothing_in_eval_or_at_rate_0):
        network, weights = new_feed_forward(submission, draw, 6, 10, activation="gelu")
        x = draw.normal(2, 3, 6, dtype=draw.exact)
        expect_feed_forward(network(x), x, weights, "gelu")


@check("FeedForward", points=1)
def test_feed_forward_refuses_unknown_activations(submission, draw):
    """An unknown activation raises ValueError with its name in the message."""
    x = draw.normal(2, 3, 6)
    expect_error(
        ValueError,
        lambda: submission.FeedForward(6, 10, activation="swish")(x),
        mentions=["swish"],
        mistake="ffn-unknown-activation",
    )


PARTS = (
    test_layer_norm_standardises_every_token,
    test_layer_norm_scales_and_shifts_each_feature,
    test_feed_forward_is_two_linear_maps_around_relu,
    test_feed_forward_can_use_gelu,
    test_feed_forward_drops_nothing_in_eval_or_at_rate_0,
)


# EncoderLayer


@check("EncoderLayer", points=2)
def test_layer_drops_nothing_in_eval_or_at_rate_0(submission, draw):
    """EncoderLayer drops nothing from its branches in eval mode, and nothing at all with dropout=0."""
    with made_of(submission, draw, *PARTS):
        for norm_first in (True, False):
            settings = Settings(4, 2, 6, norm_first=norm_first)
            weights = constant_branches(draw.weights(layer_shapes(settings), draw.exact), draw)
            x = draw.normal(4, 5, 4, dtype=draw.exact)
            for rate, code in ((0.5, "encoder-dropout-in-eval"), (0.0, "encoder-dropout-rate-ignored")):
                layer, _ = new_layer(submission, draw, settings, weights, dropout=rate)
                if rate == 0.0:
                    layer.train()
                first, second = (
                    expect(layer(x), "the output", dims=STREAM).tensor(shape=(4, 5, 4)) for _ in range(2)
                )
                if not agrees(first, second):
                    mistake(code)


LAYER_PARTS = (*PARTS, test_layer_drops_nothing_in_eval_or_at_rate_0)


@check("EncoderLayer", points=3)
def test_pre_norm_layer_equals_pytorch(submission, draw):
    """With norm_first=True, EncoderLayer puts its parts together as nn.TransformerEncoderLayer does."""
    with made_of(submission, draw, *LAYER_PARTS, sure=SURE_IN_LAYER):
        settings = Settings(12, 3, 14, norm_first=True)
        layer, weights = new_layer(submission, draw, settings)
        x = draw.normal(2, 5, 12, dtype=draw.exact)
        expect_layer((submission, draw), layer(x), x, weights, settings)


@check("EncoderLayer", points=3)
def test_post_norm_layer_equals_pytorch(submission, draw):
    """With norm_first=False, EncoderLayer puts its parts together as nn.TransformerEncoderLayer does."""
    with made_of(submission, draw, *LAYER_PARTS, sure=SURE_IN_LAYER):
        settings = Settings(12, 3, 14, norm_first=False, activation="gelu")
        layer, weights = new_layer(submission, draw, settings)
        x = draw.normal(2, 5, 12, dtype=draw.exact)
        expect_layer((submission, draw), layer(x), x, weights, settings)


@check("EncoderLayer", points=2)
def test_layer_hands_the_mask_to_attention(submission, draw):
    """EncoderLayer hands its mask to self-attention as it is, in both orders."""
    with made_of(submission, draw, *LAYER_PARTS, sure=SURE_IN_LAYER):
        for norm_first in (True, False):
            settings = Settings(12, 3, 14, norm_first=norm_first)
            layer, weights = new_layer(submission, draw, settings)
            x, mask = draw.normal(2, 5, 12, dtype=draw.exact), ring_mask(draw, 2, 5)
            expect_layer((submission, draw), layer(x, mask), x, weights, settings, mask)


LAYER = (
    test_layer_drops_nothing_in_eval_or_at_rate_0,
    test_pre_norm_layer_equals_pytorch,
    test_post_norm_layer_equals_pytorch,
    test_layer_hands_the_mask_to_attention,
)


# Encoder


@check("Encoder", points=2)
def test_encoder_equals_pytorch(submission, draw):
    """A pre-norm Encoder runs its layers one after the other, then its last norm, as nn.TransformerEncoder does."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14, norm_first=True)
        encoder, weights = new_encoder(submission, draw, settings, num_layers=3)
        x = draw.normal(2, 5, 12, dtype=draw.exact)
        expect_encoder((submission, draw), encoder(x), x, weights, settings)


@check("Encoder", points=2)
def test_layers_do_not_share_weights(submission, draw):
    """Every layer of the Encoder has weights of its own."""
    encoder = submission.Encoder(3, 12, 2, 10)
    parameters, shapes = encoder.parameters(), encoder.shapes()
    expected = [name for name in encoder_shapes(3, Settings(12, 2, 10)) if name.startswith("layers.")]
    if not any(name.startswith("layers.") for name in shapes):
        mistake("encoder-layers-in-plain-list")
    # A parameter that stands in several places is listed once among the parameters, each time in the state dict.
    for name in expected:
        first = "layers.0." + name.split(".", 2)[2]
        if name in shapes and name not in parameters and first in parameters:
            mistake("encoder-layers-shared")
    missing = [name for name in expected if name not in shapes]
    expect(missing, "the list of weights of three layers that are missing").equals([])


@check("Encoder", points=2)
def test_padding_changes_nothing(submission, draw):
    """Padding a sentence, on either side, does not change what the Encoder makes of its real tokens."""
    with made_of(submission, draw, *PARTS, *LAYER, sure=SURE_IN_ENCODER):
        settings = Settings(12, 3, 14, norm_first=True)
        encoder, weights = new_encoder(submission, draw, settings, num_layers=3)
        for side in ("right", "left"):
            real = draw.tokens([6, 4], vocab=20, side=side) != 0
            x, mask = draw.normal(2, 6, 12, dtype=draw.exact), real[:, None, None, :]
            alone = torch.zeros_like(x)
            for row in range(2):
                sentence = expect(
                    encoder(x[row, real[row]][None]), "the output for one sentence", dims=STREAM
                )
                alone[row, real[row]] = sentence.tensor(shape=(1, int(real[row].sum()), 12))[0]
            expect(encoder(x, mask), f"the output for sentences padded on the {side}", dims=STREAM).equals(
                alone,
                only=real[:, :, None],
                mistakes=encoder_mistakes(x, weights, settings, mask),
                facts=settings_facts(settings),
            )
