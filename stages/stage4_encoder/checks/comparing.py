"""What came back from a submission beside what PyTorch makes of the same input."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from grader.checks import expect

from .oracles import Settings, Weights, torch_encoder, torch_layer
from .wrong_encoders import (
    encoder_mistakes,
    feed_forward,
    feed_forward_mistakes,
    layer_mistakes,
    layer_norm,
    layer_norm_mistakes,
)

STREAM = "batch seq d_model"


def expect_layer_norm(
    output: Any, x: Tensor, weights: Weights, eps: float = 1e-5, further: Weights | None = None
) -> None:
    """`output` is what F.layer_norm makes of `x`; `further` are outputs of more mistakes, by code."""
    arguments = (x, weights["weight"], weights["bias"], eps)
    expect(output, f"the normalised tokens for eps={eps}", dims=STREAM if x.dim() == 3 else None).equals(
        layer_norm(*arguments),
        mistakes=layer_norm_mistakes(*arguments) | (further or {}),
        facts={"d_model": x.size(-1)},
    )


def expect_feed_forward(output: Any, x: Tensor, weights: Weights, activation: str) -> None:
    """`output` is linear2(activation(linear1(x)))."""
    expect(output, "the output of FeedForward", dims=STREAM).equals(
        feed_forward(x, weights, activation),
        mistakes=feed_forward_mistakes(x, weights, activation),
        facts=activation_facts(activation),
    )


def expect_layer(
    output: Any, x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None
) -> None:
    """`output` is what nn.TransformerEncoderLayer makes of `x`."""
    masked = "" if mask is None else " with a mask"
    expect(output, f"the output of the {settings.order} layer{masked}", dims=STREAM).equals(
        torch_layer(x, weights, settings, mask).detach(),
        mistakes=layer_mistakes(x, weights, settings, mask),
        facts=settings_facts(settings),
    )


def expect_encoder(
    output: Any,
    x: Tensor,
    weights: Weights,
    settings: Settings,
    num_layers: int,
    mask: Tensor | None = None,
    real: Tensor | None = None,
) -> None:
    """`output` is what nn.TransformerEncoder makes of `x`, where `real` (batch, seq) is True."""
    masked = "" if mask is None else " with a mask"
    expect(output, f"the output of the {settings.order} encoder{masked}", dims=STREAM).equals(
        torch_encoder(x, weights, settings, num_layers, mask).detach(),
        only=None if real is None else real[:, :, None],
        mistakes=encoder_mistakes(x, weights, settings, mask),
        facts=settings_facts(settings),
    )


def activation_facts(activation: str) -> dict[str, Any]:
    """What the texts of mistakes.toml say of an activation."""
    return {"asked": activation, "other": "relu" if activation == "gelu" else "gelu"}


def settings_facts(settings: Settings) -> dict[str, Any]:
    """What the texts of mistakes.toml say of a layer."""
    other = "post-norm" if settings.norm_first else "pre-norm"
    return {
        **activation_facts(settings.activation),
        "d_model": settings.d_model,
        "norm_first": settings.norm_first,
        "order": settings.order,
        "other_order": other,
    }
