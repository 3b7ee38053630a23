"""Objects of a submission with random weights in them, and what several checks ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from grader.checks import mistake

from .oracles import Settings, Weights, encoder_shapes, feed_forward_shapes, layer_norm_shapes, layer_shapes


def new_layer_norm(submission: Any, draw: Any, d_model: int, eps: float = 1e-5) -> tuple[Any, Weights]:
    """A `LayerNorm` and the random weights in it."""
    norm = submission.LayerNorm(d_model, eps)
    if not norm.shapes():
        mistake("layer-norm-not-trainable")
    if "running_mean" in norm.shapes():
        mistake("layer-norm-over-batch")
    return loaded(norm, draw.weights(layer_norm_shapes(d_model), draw.exact), draw)


def new_feed_forward(
    submission: Any, draw: Any, d_model: int, d_ff: int, **options: Any
) -> tuple[Any, Weights]:
    """A `FeedForward` in eval mode and the random weights in it."""
    weights = draw.weights(feed_forward_shapes(d_model, d_ff), draw.exact)
    return loaded(submission.FeedForward(d_model, d_ff, **options), weights, draw)


def new_layer(
    submission: Any, draw: Any, settings: Settings, weights: Weights | None = None, dropout: float = 0.1
) -> tuple[Any, Weights]:
    """An `EncoderLayer` in eval mode and the weights in it, random ones if none are given."""
    if weights is None:
        weights = draw.weights(layer_shapes(settings), draw.exact)
    layer = submission.EncoderLayer(
        settings.d_model,
        settings.num_heads,
        settings.d_ff,
        dropout=dropout,
        norm_first=settings.norm_first,
        activation=settings.activation,
    )
    name_batch_norm(layer)
    return loaded(layer, weights, draw)


def new_encoder(
    submission: Any, draw: Any, settings: Settings, num_layers: int, dropout: float = 0.1
) -> tuple[Any, Weights]:
    """An `Encoder` in eval mode and the random weights in it; a last norm that is in the wrong place is named."""
    weights = draw.weights(encoder_shapes(num_layers, settings), draw.exact)
    encoder = submission.Encoder(
        num_layers,
        settings.d_model,
        settings.num_heads,
        settings.d_ff,
        dropout=dropout,
        norm_first=settings.norm_first,
        activation=settings.activation,
    )
    name_batch_norm(encoder)
    found, last_norm = set(encoder.shapes()), {"norm.weight", "norm.bias"}
    if not found - last_norm:
        mistake("encoder-layers-in-plain-list")
    difference = set(weights) ^ found
    if difference == last_norm and settings.norm_first:
        mistake("encoder-final-norm-missing")
    if difference == last_norm:
        mistake("encoder-final-norm-with-post-norm")
    return loaded(encoder, weights, draw)


def loaded(module: Any, weights: Weights, draw: Any) -> tuple[Any, Weights]:
    """The module in eval mode, with these weights in it, in the widest float type of the device."""
    module.to(draw.exact)
    module.load_state_dict(weights)
    module.eval()
    return module, weights


def name_batch_norm(module: Any) -> None:
    """Ends the check where a module keeps running means: only batch norm does."""
    if any(name.endswith("running_mean") for name in module.shapes()):
        mistake("encoder-batch-norm")


def constant_branches(weights: Weights, draw: Any) -> Weights:
    """The same weights, but each branch gives one constant vector, whatever goes in: only its bias is left.

    What dropout does inside a branch has no effect then; what it does to the branch can be read off.
    """
    changed = dict(weights)
    for branch in ("self_attn.w_o", "feed_forward.linear2"):
        changed[f"{branch}.weight"] = torch.zeros_like(weights[f"{branch}.weight"])
        changed[f"{branch}.bias"] = draw.normal(*weights[f"{branch}.bias"].shape, dtype=draw.exact)
    return changed


def ring_mask(draw: Any, batch: int, seq: int) -> Tensor:
    """A random mask `(batch, 1, seq, seq)` with something visible and something hidden in each row and column."""
    mask = draw.integers(0, 2, batch, 1, seq, seq).bool()
    here = torch.arange(seq)
    mask[..., here, here] = True
    mask[..., here, (here + 1) % seq] = False
    return mask


def agrees(found: Tensor | None, expected: Tensor, tolerance: float = 1e-7) -> bool:
    """Equal up to rounding."""
    if found is None or found.shape != expected.shape:
        return False
    return torch.allclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance)


def expect_gradients(
    found: Mapping[str, Tensor | None], expected: Mapping[str, Tensor], code: str, exact: bool = True
) -> None:
    """All gradients are the expected ones, where the output is known to be right.

    Then only something that was cut out of the graph can make a gradient wrong: `code` names it. (Statistics that are
    taken in float32 are right, too, so the comparison is not closer than that.) When the
    output is not `exact`, because a part is wrong, the gradients only have to be there.
    """
    wrong = [
        name
        for name, gradient in expected.items()
        if found.get(name) is None or (exact and not agrees(found[name], gradient, tolerance=1e-5))
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        mistake(code, where=", ".join(wrong[:3]) + more, count=len(wrong), total=len(expected))
