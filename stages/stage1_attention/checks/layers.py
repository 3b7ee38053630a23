"""The layer of this stage: weights that are known, and what each mistake hands on to attention."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from grader.checks import mistake

Weights = dict[str, Tensor]


def shapes(d_model: int, d_k: int) -> dict[str, tuple[int, ...]]:
    """The parameters of the contract."""
    return {
        f"{name}.{part}": shape
        for name in ("w_q", "w_k", "w_v")
        for part, shape in (("weight", (d_k, d_model)), ("bias", (d_k,)))
    }


def layer_and_input(submission: Any, draw: Any) -> tuple[Any, Weights, Tensor]:
    """The learner's layer with random weights, the weights, and an input `(2, seq, d_model)`."""
    seq, d_k, d_model = draw.sizes(3, 5, 13)
    layer = submission.SingleHeadAttention(d_model, d_k)
    layer.to(draw.exact)
    weights = draw.weights(shapes(d_model, d_k), dtype=draw.exact)
    layer.load_state_dict(weights)
    shared = sorted(weights.keys() - layer.parameters().keys())
    if shared:
        mistake("single-head-shared-projection", shared=" and ".join(shared))
    return layer, weights, draw.normal(2, seq, d_model, dtype=draw.exact)


def project(weights: Weights, name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].mT + weights[f"{name}.bias"]


def projections(weights: Weights, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, each `(batch, seq, d_k)`."""
    return project(weights, "w_q", x), project(weights, "w_k", x), project(weights, "w_v", x)


def layer_mistakes(
    weights: Weights, x: Tensor, mask: Tensor | None
) -> dict[str, tuple[Tensor, Tensor, Tensor, Tensor | None]]:
    """The arguments of attention as each mistake hands them on."""
    query, key, value = projections(weights, x)
    narrower = math.sqrt(query.size(-1) / x.size(-1))  # turns / sqrt(d_k) into / sqrt(d_model)
    others = {
        "single-head-value-from-w_k": (query, key, key, mask),
        "single-head-value-not-projected": (query, key, x, mask),
        "single-head-key-from-w_q": (query, query, value, mask),
        "single-head-query-and-key-swapped": (key, query, value, mask),
        "single-head-scaled-by-sqrt-d_model": (query * narrower, key, value, mask),
        "single-head-activation": (query.relu(), key.relu(), value.relu(), mask),
    }
    if mask is not None:
        others["single-head-ignores-mask"] = (query, key, value, None)
    return others
