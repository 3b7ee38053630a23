"""Wrong answers: what comes out when one of the known mistakes is in an otherwise right encoder.

Each table maps the code of a mistake to a function that makes it, on parts that are right otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .oracles import Settings, Weights, number_of_layers, part

Norm = Callable[[Tensor, Tensor, Tensor, float], Tensor]
Feed = Callable[[Tensor, Weights, str], Tensor]
Mistakes = dict[str, Callable[[], Tensor]]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
EPS = 1e-5


# LayerNorm


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = EPS) -> Tensor:
    """The right one."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _over(dims: tuple[int, ...]) -> Norm:
    """A norm over other axes than the last."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + eps) * weight + bias

    return norm


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: Tensor, correction: int = 0) -> Tensor:
    return x.var(-1, correction=correction, keepdim=True)


NORMS: dict[str, Norm] = {
    "layer-norm-unbiased": lambda x, w, b, eps: _centred(x) / (_variance(x, 1) + eps).sqrt() * w + b,
    "layer-norm-std": lambda x, w, b, eps: _centred(x) / (_variance(x, 1).sqrt() + eps) * w + b,
    "layer-norm-eps-outside": lambda x, w, b, eps: _centred(x) / (_variance(x).sqrt() + eps) * w + b,
    "layer-norm-eps-missing": lambda x, w, b, eps: _centred(x) / _variance(x).sqrt() * w + b,
    "layer-norm-over-sequence": _over((1,)),
    "layer-norm-over-sentence": _over((-2, -1)),
    "layer-norm-over-batch": _over((0, 1)),
    "layer-norm-not-centred": lambda x, w, b, eps: (
        x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * w + b
    ),
    "layer-norm-by-variance": lambda x, w, b, eps: _centred(x) / (_variance(x) + eps) * w + b,
    "layer-norm-no-scale-and-shift": lambda x, w, b, eps: _centred(x) / (_variance(x) + eps).sqrt(),
    "layer-norm-shift-first": lambda x, w, b, eps: (_centred(x) / (_variance(x) + eps).sqrt() + b) * w,
}


def layer_norm_mistakes(x: Tensor, weight: Tensor, bias: Tensor, eps: float = EPS) -> Mistakes:
    """What a wrong `LayerNorm` makes of `x`."""
    return {code: partial(norm, x, weight, bias, eps) for code, norm in NORMS.items()}


# FeedForward


def feed_forward(x: Tensor, w: Weights, activation: str) -> Tensor:
    """The right one, without dropout."""
    return _second(ACTIVATIONS[activation](_first(x, w)), w)


def _first(x: Tensor, w: Weights) -> Tensor:
    return F.linear(x, w["linear1.weight"], w["linear1.bias"])


def _second(hidden: Tensor, w: Weights) -> Tensor:
    return F.linear(hidden, w["linear2.weight"], w["linear2.bias"])


def _other_activation(x: Tensor, w: Weights, activation: str) -> Tensor:
    return feed_forward(x, w, "relu" if activation == "gelu" else "gelu")


def _tanh_gelu(x: Tensor, w: Weights, activation: str) -> Tensor:
    if activation != "gelu":
        raise ValueError("only with GELU")
    return _second(F.gelu(_first(x, w), approximate="tanh"), w)


FEEDS: dict[str, Feed] = {
    "ffn-no-activation": lambda x, w, activation: _second(_first(x, w), w),
    "ffn-activation-last": lambda x, w, activation: ACTIVATIONS[activation](_second(_first(x, w), w)),
    "ffn-activation-twice": lambda x, w, activation: ACTIVATIONS[activation](feed_forward(x, w, activation)),
    "ffn-gelu-tanh": _tanh_gelu,
    "ffn-activation-ignored": _other_activation,
}


def feed_forward_mistakes(x: Tensor, w: Weights, activation: str) -> Mistakes:
    """What a wrong `FeedForward` makes of `x`."""
    return {code: partial(feed, x, w, activation) for code, feed in FEEDS.items()}


# EncoderLayer


class Parts:
    """The pieces of one layer, as functions of the residual stream."""

    def __init__(self, weights: Weights, settings: Settings, mask: Tensor | None = None) -> None:
        self._weights, self._settings, self._mask = weights, settings, mask

    def attend(self, query: Tensor, key: Tensor | None = None) -> Tensor:
        """Self-attention; `key` where keys and values come from elsewhere than the queries."""
        key = query if key is None else key
        heads = [self._heads("w_q", query), self._heads("w_k", key), self._heads("w_v", key)]
        attended = F.scaled_dot_product_attention(*heads, attn_mask=self._mask)
        return self._project("w_o", attended.transpose(1, 2).flatten(2))

    def feed(self, x: Tensor) -> Tensor:
        """The feed-forward network."""
        return feed_forward(x, part(self._weights, "feed_forward."), self._settings.activation)

    def norm1(self, x: Tensor) -> Tensor:
        return layer_norm(x, self._weights["norm1.weight"], self._weights["norm1.bias"])

    def norm2(self, x: Tensor) -> Tensor:
        return layer_norm(x, self._weights["norm2.weight"], self._weights["norm2.bias"])

    def _project(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self._weights[f"self_attn.{name}.weight"], self._weights[f"self_attn.{name}.bias"])

    def _heads(self, name: str, x: Tensor) -> Tensor:
        return self._project(name, x).unflatten(-1, (self._settings.num_heads, -1)).transpose(1, 2)


Wiring = Callable[[Parts, Tensor], Tensor]


def two_branches(first: Wiring, second: Callable[[Parts, Tensor, Tensor], Tensor]) -> Wiring:
    """A layer out of its halves: `second` sees what `first` made, and the layer's input."""
    return lambda p, x: second(p, first(p, x), x)


def _pre1(p: Parts, x: Tensor) -> Tensor:
    return x + p.attend(p.norm1(x))


def _post1(p: Parts, x: Tensor) -> Tensor:
    return p.norm1(x + p.attend(x))


def _pre2(p: Parts, a: Tensor, x: Tensor) -> Tensor:
    return a + p.feed(p.norm2(a))


def _post2(p: Parts, a: Tensor, x: Tensor) -> Tensor:
    return p.norm2(a + p.feed(a))


pre_norm = two_branches(_pre1, _pre2)
post_norm = two_branches(_post1, _post2)
norm_on_branch = two_branches(lambda p, x: x + p.norm1(p.attend(x)), lambda p, a, x: a + p.norm2(p.feed(a)))


def _residual_around_norm(p: Parts, x: Tensor) -> Tensor:
    x = p.norm1(x)
    x = x + p.attend(x)
    x = p.norm2(x)
    return x + p.feed(x)


PRE_NORM: dict[str, Wiring] = {
    "encoder-residual-around-norm": _residual_around_norm,
    "encoder-norm-order": post_norm,
    "encoder-norm-on-branch": norm_on_branch,
    "encoder-attention-residual-missing": two_branches(lambda p, x: p.attend(p.norm1(x)), _pre2),
    "encoder-ffn-residual-missing": two_branches(_pre1, lambda p, a, x: p.feed(p.norm2(a))),
    "encoder-residuals-missing": two_branches(
        lambda p, x: p.attend(p.norm1(x)), lambda p, a, x: p.feed(p.norm2(a))
    ),
    "encoder-ffn-residual-from-input": two_branches(_pre1, lambda p, a, x: x + p.feed(p.norm2(a))),
    "encoder-branches-in-parallel": two_branches(_pre1, lambda p, a, x: a + p.feed(p.norm2(x))),
    "encoder-norm1-twice": two_branches(_pre1, lambda p, a, x: a + p.feed(p.norm1(a))),
    "encoder-norms-swapped": two_branches(
        lambda p, x: x + p.attend(p.norm2(x)), lambda p, a, x: a + p.feed(p.norm1(a))
    ),
    "encoder-norm1-unused": two_branches(lambda p, x: x + p.attend(x), _pre2),
    "encoder-norm2-unused": two_branches(_pre1, lambda p, a, x: a + p.feed(a)),
    "encoder-norm-on-query-only": two_branches(lambda p, x: x + p.attend(p.norm1(x), x), _pre2),
}

POST_NORM: dict[str, Wiring] = {
    "encoder-norm-order": pre_norm,
    "encoder-norm-on-branch": norm_on_branch,
    "encoder-attention-residual-missing": two_branches(lambda p, x: p.norm1(p.attend(x)), _post2),
    "encoder-ffn-residual-missing": two_branches(_post1, lambda p, a, x: p.norm2(p.feed(a))),
    "encoder-residuals-missing": two_branches(
        lambda p, x: p.norm1(p.attend(x)), lambda p, a, x: p.norm2(p.feed(a))
    ),
    "encoder-ffn-residual-from-input": two_branches(_post1, lambda p, a, x: p.norm2(x + p.feed(a))),
    "encoder-branches-in-parallel": two_branches(_post1, lambda p, a, x: p.norm2(a + p.feed(x))),
    "encoder-norm1-twice": two_branches(_post1, lambda p, a, x: p.norm1(a + p.feed(a))),
    "encoder-norms-swapped": two_branches(
        lambda p, x: p.norm2(x + p.attend(x)), lambda p, a, x: p.norm1(a + p.feed(a))
    ),
    "encoder-norm1-unused": two_branches(lambda p, x: x + p.attend(x), _post2),
    "encoder-norm2-unused": two_branches(_post1, lambda p, a, x: a + p.feed(a)),
}

MASKS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "encoder-mask-not-forwarded": lambda mask: None,
    "encoder-mask-on-queries": lambda mask: mask.mT,
    "encoder-mask-inverted": lambda mask: ~mask,
}


SURE_IN_LAYER = {*PRE_NORM, *POST_NORM, *MASKS}
"""Mistakes of a layer that no mistake of its parts can look like."""


def wire(parts: Parts, x: Tensor, settings: Settings) -> Tensor:
    """One layer, put together rightly."""
    return (pre_norm if settings.norm_first else post_norm)(parts, x)


def layer(
    x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None, wiring: Wiring | None = None
) -> Tensor:
    """One layer of right parts, put together rightly unless `wiring` does it otherwise."""
    parts = Parts(weights, settings, mask)
    return wire(parts, x, settings) if wiring is None else wiring(parts, x)


def with_other_activation(settings: Settings) -> Settings:
    """What a whole computes that does not hand its activation on, or hands on the wrong one."""
    return dataclasses.replace(settings, activation="relu" if settings.activation == "gelu" else "gelu")


def layer_mistakes(x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None) -> Mistakes:
    """What a layer with one mistake in it makes of `x`."""
    wirings = PRE_NORM if settings.norm_first else POST_NORM
    found: Mistakes = {
        code: partial(layer, x, weights, settings, mask, wiring) for code, wiring in wirings.items()
    }
    if mask is not None:
        found |= {code: partial(layer, x, weights, settings, change(mask)) for code, change in MASKS.items()}
    found["encoder-activation-not-handed-on"] = partial(
        layer, x, weights, with_other_activation(settings), mask
    )
    return found


# Encoder


def encoder(
    x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None, mistake: str = ""
) -> Tensor:
    """A stack of right layers, with one of the mistakes below."""
    count = number_of_layers(weights)
    in_layers = settings
    if mistake == "encoder-stack-order-lost":
        in_layers = dataclasses.replace(settings, norm_first=not settings.norm_first)
    if mistake == "encoder-stack-activation-lost":
        in_layers = with_other_activation(settings)
    in_every_layer = mistake == "encoder-final-norm-in-every-layer" and settings.norm_first

    stream = x
    for index in range(count):
        source = count - 1 if mistake == "encoder-layers-shared" else index
        start = x if mistake == "encoder-layers-not-chained" else stream
        stream = layer(start, part(weights, f"layers.{source}."), in_layers, mask)
        if in_every_layer:
            stream = layer_norm(stream, weights["norm.weight"], weights["norm.bias"])
        if mistake == "encoder-mask-first-layer-only":
            mask = None
    if settings.norm_first and not in_every_layer and mistake != "encoder-final-norm-missing":
        stream = layer_norm(stream, weights["norm.weight"], weights["norm.bias"])
    return stream


SURE_IN_ENCODER = (
    "encoder-final-norm-missing",
    "encoder-final-norm-with-post-norm",
    "encoder-final-norm-in-every-layer",
    "encoder-layers-shared",
    "encoder-layers-not-chained",
    "encoder-mask-first-layer-only",
)
"""Mistakes of a stack that no mistake of its layers can look like."""

NOT_HANDED_ON = ("encoder-stack-order-lost", "encoder-stack-activation-lost")


def encoder_mistakes(x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None) -> Mistakes:
    """What a stack with one mistake in it makes of `x`."""
    codes = (*SURE_IN_ENCODER, *NOT_HANDED_ON)
    found: Mistakes = {code: partial(encoder, x, weights, settings, mask, code) for code in codes}
    if mask is not None:
        found["encoder-stack-mask-lost"] = partial(encoder, x, weights, settings)
    return found
