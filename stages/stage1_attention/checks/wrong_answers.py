"""What each known mistake gives instead of the right answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .oracles import remaining

Ways = dict[str, Callable[[], Tensor]]


def wrong_weights(query: Tensor, key: Tensor, value: Tensor, found: Any) -> Ways:
    """Unmasked weights as each mistake of scale or axis gives them; `found` is what came back."""
    raw = query @ key.mT
    d_k = query.size(-1)
    scores = raw / math.sqrt(d_k)
    ways: Ways = {
        "unscaled": lambda: raw.softmax(-1),
        "scaled-by-d_k": lambda: (raw / d_k).softmax(-1),
        "scaled-by-sqrt-d_v": lambda: (raw / math.sqrt(value.size(-1))).softmax(-1),
        "scaled-by-sqrt-length": lambda: (raw / math.sqrt(key.size(-2))).softmax(-1),
        "multiplied-by-sqrt-d_k": lambda: (raw * math.sqrt(d_k)).softmax(-1),
        "scores-returned": lambda: scores,
        "wrong-scale": lambda: fitted_weights(found, raw),
    }
    if raw.dim() == 4:  # with fewer axes, axis 1 is the axis of the queries or of the keys
        ways["softmax-over-queries"] = lambda: scores.softmax(-2)
        ways["softmax-over-heads"] = lambda: scores.softmax(1)
    return ways


def fitted_scale(weights: Any, raw: Tensor) -> float:
    """The s for which `weights` come nearest to softmax(s q·k): the slope of their logarithms."""
    if not isinstance(weights, Tensor) or weights.shape != raw.shape:
        return math.nan
    logs = weights.double().log()
    logs, raw = logs - logs.mean(-1, keepdim=True), raw.double() - raw.double().mean(-1, keepdim=True)
    return float((logs * raw).sum() / (raw * raw).sum())


def fitted_weights(weights: Any, raw: Tensor) -> Tensor:
    """softmax(s q·k) with the fitted s; raises ValueError where no s fits at all."""
    scale = fitted_scale(weights, raw)
    if not math.isfinite(scale):
        raise ValueError("no weights to fit a scale to")
    return (scale * raw).softmax(-1)


def scale_facts(query: Tensor, key: Tensor, value: Tensor, found: Any) -> dict[str, float]:
    """The numbers that the messages about scales name."""
    d_k, d_v, k_len = query.size(-1), value.size(-1), key.size(-2)
    return {
        "d_k": d_k,
        "sqrt_d_k": math.sqrt(d_k),
        "d_v": d_v,
        "sqrt_d_v": math.sqrt(d_v),
        "k_len": k_len,
        "sqrt_k_len": math.sqrt(k_len),
        "scale": fitted_scale(found, query @ key.mT),
        "right_scale": 1 / math.sqrt(d_k),
    }


def wrong_masked_weights(query: Tensor, key: Tensor, mask: Tensor, unmasked: Tensor) -> Ways:
    """Masked weights as each mistake with a mask gives them, from the function's own unmasked weights."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    mask = mask.bool().expand(scores.shape)
    return {
        "mask-has-no-effect": lambda: unmasked,
        "mask-inverted": lambda: remaining(unmasked, ~mask),
        "mask-after-softmax": lambda: unmasked * mask,
        "masked-scores-zero": lambda: scores.masked_fill(~mask, 0.0).softmax(-1),
        "mask-added": lambda: (scores + mask).softmax(-1),
    }


def wrong_padding_masks(tokens: Tensor, pad_id: int) -> Ways:
    """Padding masks as each mistake gives them."""
    real = tokens != pad_id
    places, lengths = torch.arange(tokens.size(1)), real.sum(1, keepdim=True)
    return {
        "padding-mask-inverted": lambda: ~real[:, None, None, :],
        "padding-mask-on-query-axis": lambda: real[:, None, :, None],
        "padding-mask-two-axes": lambda: real,
        "padding-mask-three-axes": lambda: real[:, None, :],
        "padding-mask-ignores-pad_id": lambda: (tokens != 0)[:, None, None, :],
        "padding-mask-greater-than": lambda: (tokens > pad_id)[:, None, None, :],
        "padding-mask-assumes-right-padding": lambda: (places < lengths)[:, None, None, :],
    }


def wrong_causal_masks(length: int) -> Ways:
    """Causal masks as each mistake gives them."""
    square = torch.ones(length, length, dtype=torch.bool)
    return {
        "causal-mask-hides-itself": lambda: square.tril(-1)[None, None],
        "causal-mask-peeks-ahead": lambda: square.tril(1)[None, None],
        "causal-mask-upper-triangle": lambda: square.triu()[None, None],
        "causal-mask-inverted": lambda: square.triu(1)[None, None],
        "causal-mask-two-axes": lambda: square.tril(),
        "causal-mask-three-axes": lambda: square.tril()[None],
    }
