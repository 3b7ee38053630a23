"""Decoder layers and decoders with one known flaw each, to compare with what came back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from grader.checks import expect

from .oracles import Weights, count_layers, part

Answer = Callable[[], Tensor]


class Layer(NamedTuple):
    """How a decoder layer is wired; the defaults are right."""

    branches: tuple[str, ...] = ("self", "cross", "feed_forward")
    norms: tuple[str, ...] = ("norm1", "norm2", "norm3")
    cross: str = "memory"  # "target": keys and values from the target; "swapped": the memory asks
    cross_reads: str = (
        "query"  # what "target" and "swapped" take of the target: "query" is normed, "stream" is not
    )
    memory_norm: str = ""
    self_mask: str = "tgt"  # or "memory" or ""
    cross_mask: str = "memory"  # or "tgt" or ""
    weights: tuple[str, str] = ("self_attn", "cross_attn")
    order: str = ""  # "flipped": pre-norm for post-norm and the other way round; "pre", "post": always
    without_residual: tuple[str, ...] = ()
    residual: str = (
        "stream"  # "normed": the skip path carries the norm; "norm of branch": x + norm(branch(x))
    )
    activation: str = ""


class Stack(NamedTuple):
    """How a decoder runs its layers; the defaults are right."""

    tgt_mask: str = "all"  # or "first" or "none"
    memory_mask: str = "all"
    memory: str = "all"  # "first": later layers look at the stream instead
    chained: bool = True
    layer: int | None = None  # one layer in place of all
    final_norm: bool = True
    order: str = ""
    activation: str = ""


SOUND_LAYER, SOUND_STACK = Layer(), Stack()

LAYER_FLAWS: dict[str, list[Layer]] = {
    "memory-ignored": [
        Layer(cross="target"),
        Layer(cross="target", cross_reads="stream"),
        Layer(cross="target", cross_mask="tgt"),
        Layer(cross="target", cross_mask=""),
        Layer(branches=("self", "feed_forward"), norms=("norm1", "norm3")),
        Layer(branches=("self", "feed_forward"), norms=("norm1", "norm2")),
    ],
    "cross-attention-roles-swapped": [
        Layer(cross="swapped"),
        Layer(cross="swapped", cross_reads="stream"),
    ],
    "target-mask-in-cross-attention": [Layer(cross_mask="tgt")],
    "memory-mask-unused": [Layer(cross_mask="")],
    "target-mask-unused": [Layer(self_mask="")],
    "decoder-masks-swapped": [Layer(self_mask="memory", cross_mask="tgt")],
    "norm3-unused": [Layer(norms=("norm1", "norm2", "norm2")), Layer(norms=("norm1", "norm2", "norm1"))],
    "decoder-norm-reused": [
        Layer(norms=("norm1", "norm1", "norm3")),
        Layer(norms=("norm1", "norm1", "norm1")),
    ],
    "decoder-residual-from-norm": [Layer(residual="normed")],
    "decoder-norm-on-branch": [Layer(residual="norm of branch")],
    "decoder-residual-missing": [
        Layer(without_residual=("cross",)),
        Layer(without_residual=("self",)),
        Layer(without_residual=("feed_forward",)),
        Layer(without_residual=("self", "cross", "feed_forward")),
    ],
    "decoder-norm-order-ignored": [Layer(order="flipped"), Layer(order="pre"), Layer(order="post")],
    "decoder-activation-ignored": [Layer(activation="relu"), Layer(activation="gelu")],
    "memory-normalised": [Layer(memory_norm="norm2"), Layer(memory_norm="norm1")],
    "cross-attention-first": [
        Layer(branches=("cross", "self", "feed_forward"), norms=("norm2", "norm1", "norm3")),
        Layer(branches=("cross", "self", "feed_forward")),
    ],
    "cross-attention-shares-weights": [
        Layer(weights=("cross_attn", "cross_attn")),
        Layer(weights=("self_attn", "self_attn")),
    ],
    "decoder-feed-forward-missing": [
        Layer(branches=("self", "cross"), norms=("norm1", "norm2")),
    ],
}

STACK_FLAWS: dict[str, list[Stack]] = {
    "decoder-masks-not-handed-on": [
        Stack(tgt_mask=tgt, memory_mask=memory)
        for tgt in ("all", "first", "none")
        for memory in ("all", "first", "none")
        if (tgt, memory) != ("all", "all")
    ],
    "decoder-memory-not-handed-on": [Stack(memory="first"), Stack(memory="first", memory_mask="first")],
    "decoder-layers-not-chained": [Stack(chained=False)],
    "decoder-layers-shared": [Stack(layer=-1), Stack(layer=0)],
    "decoder-final-norm-missing": [Stack(final_norm=False)],
    "decoder-settings-not-handed-on": [
        Stack(order="pre"),
        Stack(order="post"),
        Stack(activation="relu"),
        Stack(order="pre", activation="relu"),
    ],
}


class Case(NamedTuple):
    """The weights and settings of a decoder layer or a decoder, and what it is called with."""

    weights: Weights
    num_heads: int
    norm_first: bool
    x: Tensor
    memory: Tensor
    tgt_mask: Tensor | None = None
    memory_mask: Tensor | None = None
    activation: str = "relu"


def attend(
    weights: Weights, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, num_heads: int
) -> Tensor:
    """Multi-head attention by PyTorch's function; the mask is the course's, True = may attend."""

    def heads(name: str, x: Tensor) -> Tensor:
        projected = F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])
        return projected.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    q, k, v = heads("w_q", query), heads("w_k", key), heads("w_v", value)
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2])
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
    return F.linear(found, weights["w_o.weight"], weights["w_o.bias"])


def norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])


def feed(weights: Weights, x: Tensor, activation: str) -> Tensor:
    """The feed-forward network, without dropout."""
    one, two = part(weights, "linear1"), part(weights, "linear2")
    hidden = getattr(F, activation)(F.linear(x, one["weight"], one["bias"]))
    return F.linear(hidden, two["weight"], two["bias"])


def run_layer(case: Case, flaw: Layer = SOUND_LAYER) -> Tensor:
    """What a layer wired like `flaw` gives."""
    weights, memory = case.weights, case.memory
    masks = {"tgt": case.tgt_mask, "memory": case.memory_mask, "": None}
    pre = {"": case.norm_first, "flipped": not case.norm_first, "pre": True, "post": False}[flaw.order]
    own, cross = (part(weights, name) for name in flaw.weights)
    if flaw.memory_norm:
        memory = norm(weights, flaw.memory_norm, memory)

    def branch(name: str, stream: Tensor, query: Tensor) -> Tensor:
        if name == "self":
            return attend(own, query, query, query, masks[flaw.self_mask], case.num_heads)
        if name == "cross":
            target = query if flaw.cross_reads == "query" else stream
            asks, answers = {
                "memory": (query, memory),
                "target": (query, target),
                "swapped": (memory, target),
            }[flaw.cross]
            return attend(cross, asks, answers, answers, masks[flaw.cross_mask], case.num_heads)
        return feed(part(weights, "feed_forward"), query, flaw.activation or case.activation)

    stream = case.x
    for name, norm_name in zip(flaw.branches, flaw.norms, strict=True):
        skip = 0.0 if name in flaw.without_residual else 1.0
        if flaw.residual == "norm of branch":
            stream = skip * stream + norm(weights, norm_name, branch(name, stream, stream))
        elif pre:
            query = norm(weights, norm_name, stream)
            kept = query if flaw.residual == "normed" else stream
            stream = skip * kept + branch(name, stream, query)
        else:
            stream = norm(weights, norm_name, skip * stream + branch(name, stream, stream))
    return stream


def run_stack(case: Case, flaw: Stack = SOUND_STACK) -> Tensor:
    """What a decoder run like `flaw` gives."""
    count = count_layers(case.weights)
    wiring = Layer(order=flaw.order, activation=flaw.activation)
    stream = case.x
    for index in range(count):
        given = ("all", "first") if index == 0 else ("all",)
        one = case._replace(
            weights=part(case.weights, f"layers.{index if flaw.layer is None else flaw.layer % count}"),
            x=stream if flaw.chained else case.x,
            memory=case.memory if flaw.memory in given else stream,
            tgt_mask=case.tgt_mask if flaw.tgt_mask in given else None,
            memory_mask=case.memory_mask if flaw.memory_mask in given else None,
        )
        stream = run_layer(one, wiring)
    return norm(case.weights, "norm", stream) if case.norm_first and flaw.final_norm else stream


def nearest(
    returned: Any, run: Callable[..., Tensor], case: Any, flaws: list[Any], only: Tensor | None = None
) -> Tensor:
    """The answer closest to what came back, of those under several flaws: there are many ways to go wrong."""
    value = expect(returned, "the output").value()
    best, least = None, float("inf")
    for flaw in flaws:
        try:
            guess = run(case, flaw)
        except (RuntimeError, IndexError, ValueError):
            continue  # this way does not work on these sizes
        distance = largest_difference(value, guess, only)
        if best is None or distance < least:
            best, least = guess, distance
    if best is None:
        raise ValueError("no way of making this mistake works on these sizes")
    return best


def largest_difference(value: Any, guess: Tensor, only: Tensor | None) -> float:
    """Infinite where there is nothing to compare; `only` says which positions count."""
    if not isinstance(value, Tensor) or value.shape != guess.shape:
        return float("inf")
    difference = (value.double() - guess.double()).abs().nan_to_num(float("inf"))
    return float((difference if only is None else difference.masked_fill(~only, 0.0)).max())


def layer_mistakes(returned: Any, case: Case) -> dict[str, Answer]:
    """What a decoder layer returns under each known mistake."""
    return {code: partial(nearest, returned, run_layer, case, flaws) for code, flaws in LAYER_FLAWS.items()}


def stack_mistakes(returned: Any, case: Case) -> dict[str, Answer]:
    """What a decoder of right layers returns under each known mistake."""
    return {code: partial(nearest, returned, run_stack, case, flaws) for code, flaws in STACK_FLAWS.items()}
