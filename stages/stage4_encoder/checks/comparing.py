"""What came back from a submission beside what PyTorch makes of the same input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail
from grader.failure import CheckFailed

from .building import agrees, loaded, new_layer, new_layer_norm
from .oracles import Settings, Weights, number_of_layers, part, torch_encoder, torch_layer
from .wrong_encoders import (
    Parts,
    encoder_mistakes,
    feed_forward,
    feed_forward_mistakes,
    layer_mistakes,
    layer_norm,
    layer_norm_mistakes,
    wire,
)

STREAM = "batch seq d_model"

Makers = tuple[Any, Any]
"""The submission and the source of numbers: what parts are made from."""


def expect_layer_norm(
    output: Any,
    x: Tensor,
    weights: Weights,
    eps: float = 1e-5,
    further: dict[str, Any] | None = None,
    atol: float | None = None,
) -> None:
    """`output` is what F.layer_norm makes of `x`; `further` are outputs of more mistakes, by code."""
    arguments = (x, weights["weight"], weights["bias"], eps)
    expect(output, f"the normalised tokens for eps={eps}", dims=STREAM if x.dim() == 3 else None).equals(
        layer_norm(*arguments),
        mistakes=layer_norm_mistakes(*arguments) | (further or {}),
        facts={"d_model": x.size(-1), "eps": eps},
        atol=atol,
    )


def eps_is_right(submission: Any, draw: Any) -> None:
    """`LayerNorm` adds the eps that it was given, 1e-5 if none, inside the root.

    Tokens are small here. At variance 1, one eps cannot be told from another, nor from none.
    """
    for eps, scale in ((1e-5, 1e-3), (0.1, 1.0)):
        norm, weights = new_layer_norm(submission, draw, 6, eps)
        x = draw.normal(2, 3, 6, dtype=draw.exact, scale=scale)
        x[0, 1] = 3.0
        further = {"layer-norm-eps-ignored": _with_other_eps(x, weights, eps)}
        expect_layer_norm(norm(x), x, weights, eps, further)
    fresh = {"weight": torch.ones(6, dtype=draw.exact), "bias": torch.zeros(6, dtype=draw.exact)}
    x = draw.normal(2, 3, 6, dtype=draw.exact, scale=1e-3)
    further = {"layer-norm-eps-default": _with_other_eps(x, fresh, 1e-5)}
    expect_layer_norm(submission.LayerNorm(6).to(draw.exact)(x), x, fresh, further=further)


def _with_other_eps(x: Tensor, weights: Weights, eps: float) -> list[Tensor]:
    """What comes out with the numbers that people, and other libraries, write in place of `eps`."""
    usual = (1e-3, 1e-5, 1e-6, 1e-8, 1e-12)
    return [layer_norm(x, weights["weight"], weights["bias"], other) for other in usual if other != eps]


def expect_feed_forward(output: Any, x: Tensor, weights: Weights, activation: str) -> None:
    """`output` is linear2(activation(linear1(x)))."""
    expect(output, "the output of FeedForward", dims=STREAM).equals(
        feed_forward(x, weights, activation),
        mistakes=feed_forward_mistakes(x, weights, activation),
        facts=activation_facts(activation),
    )


def expect_layer(
    parts: Makers, output: Any, x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None
) -> bool:
    """`output` is what nn.TransformerEncoderLayer makes of `x`: True.

    Or it is what a right layer would make of it with the submission's own `LayerNorm` and `FeedForward`: False.
    Those have checks of their own, and a mistake in them need not cost the layer its points too.
    """
    masked = "" if mask is None else " with a mask"
    try:
        expect(output, f"the output of the {settings.order} layer{masked}", dims=STREAM).equals(
            torch_layer(x, weights, settings, mask).detach(),
            mistakes=layer_mistakes(x, weights, settings, mask),
            facts=settings_facts(settings),
        )
    except CheckFailed as failure:
        if not _is_made_by(
            output, lambda other: wire(OwnParts(*parts, weights, settings, mask), other, settings), x
        ):
            if failure.mistake is None:
                attention_is_right(parts, x, weights, settings)
            raise
        return False
    return True


def attention_is_right(parts: Makers, x: Tensor, weights: Weights, settings: Settings) -> None:
    """The `self_attn` of a layer does what PyTorch's attention does; a learner may have broken it in stage 1 or 2."""
    layer, _ = new_layer(*parts, settings, weights)
    causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    for mask in (None, causal):
        output, _ = layer.self_attn(x, x, x, *(() if mask is None else (mask,)))
        if not agrees(_plain(output), Parts(weights, settings, mask).attend(x), tolerance=1e-6):
            fail(
                "The self_attn inside your layer, called by itself, differs from nn.MultiheadAttention with the same "
                "weights. That is code of stage 2, or of stage 1 below it.",
                next_step="Mend stage 2 first: nox -s stage2 tells more.",
            )


def expect_encoder(
    parts: Makers,
    output: Any,
    x: Tensor,
    weights: Weights,
    settings: Settings,
    mask: Tensor | None = None,
    real: Tensor | None = None,
) -> bool:
    """`output` is what nn.TransformerEncoder makes of `x`, where `real` (batch, seq) is True: True.

    Or it is what a right stack would make of it with the submission's own layers: False.
    """
    masked = "" if mask is None else " with a mask"
    only = None if real is None else real[:, :, None]
    try:
        expect(output, f"the output of the {settings.order} encoder{masked}", dims=STREAM).equals(
            torch_encoder(x, weights, settings, mask).detach(),
            only=only,
            mistakes=encoder_mistakes(x, weights, settings, mask),
            facts=settings_facts(settings),
        )
    except CheckFailed:
        if not _is_made_by(
            output, lambda other: _through_own_layers(*parts, other, weights, settings, mask), x, only
        ):
            raise
        return False
    return True


class OwnParts(Parts):
    """The submission's own norms and feed-forward network, made anew with right arguments, and PyTorch's attention."""

    def __init__(
        self, submission: Any, draw: Any, weights: Weights, settings: Settings, mask: Tensor | None
    ) -> None:
        super().__init__(weights, settings, mask)
        network = submission.FeedForward(settings.d_model, settings.d_ff, activation=settings.activation)
        self._network, _ = loaded(network, part(weights, "feed_forward."), draw)
        self._norm1, _ = loaded(submission.LayerNorm(settings.d_model), part(weights, "norm1."), draw)
        self._norm2, _ = loaded(submission.LayerNorm(settings.d_model), part(weights, "norm2."), draw)

    def feed(self, x: Tensor) -> Tensor:
        return _plain(self._network(x))

    def norm1(self, x: Tensor) -> Tensor:
        return _plain(self._norm1(x))

    def norm2(self, x: Tensor) -> Tensor:
        return _plain(self._norm2(x))


def _through_own_layers(
    submission: Any, draw: Any, x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None
) -> Tensor:
    """The submission's own layers, made anew with right arguments, one after the other, and its norm."""
    for index in range(number_of_layers(weights)):
        layer, _ = new_layer(submission, draw, settings, part(weights, f"layers.{index}."))
        x = _plain(layer(x, mask))
    if not settings.norm_first:
        return x
    norm, _ = loaded(submission.LayerNorm(settings.d_model), part(weights, "norm."), draw)
    return _plain(norm(x))


def _plain(output: Any) -> Tensor:
    return expect(output, "the output of a part").tensor()


def _is_made_by(output: Any, made: Callable[[Tensor], Tensor], x: Tensor, only: Tensor | None = None) -> bool:
    """The output equals what `made` gives for `x`, if that is one vector a token and has to do with `x` at all."""
    try:
        seen, expected, otherwise = _plain(output), made(x), made(x.flip(-1))
    except (CheckFailed, RuntimeError):
        return False
    if not seen.shape == expected.shape == otherwise.shape == x.shape or agrees(expected, otherwise):
        return False
    if only is not None:
        seen, expected = seen.masked_fill(~only, 0.0), expected.masked_fill(~only, 0.0)
    return agrees(seen, expected)


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
