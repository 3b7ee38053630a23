"""What the known mistakes of this stage give, by their code."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .oracles import merge, project, split, torch_attention, under_mask

Candidates = dict[str, Callable[[], Tensor]]

IN_THE_WEIGHTS = (
    "split-by-view",
    "split-interleaved",
    "attention-across-heads",
    "scaled-by-sqrt-d-model",
    "heads-unscaled",
    "heads-scaled-twice",
    "heads-softmax-over-heads",
    "heads-softmax-over-queries",
    "key-value-exchanged",
    "key-value-ignored",
    "key-through-w-q",
    "relu-on-projections",
    "heads-mask-ignored",
    "heads-mask-inverted",
)
"""Mistakes that change the attention weights."""

AFTER_THE_WEIGHTS = (
    "split-by-view",
    "split-interleaved",
    "attention-across-heads",
    "merge-without-transpose",
    "merge-other-order",
    "heads-averaged",
    "no-output-projection",
    "relu-on-projections",
    "relu-on-output",
    "residual-inside",
    "key-value-exchanged",
    "key-value-ignored",
    "value-ignored",
    "value-through-w-k",
)
"""Mistakes that change the output also where the attention weights are right."""


def weight_mistakes(*args: Any) -> Candidates:
    """What each mistake makes of the attention weights; arguments as of `torch_attention`."""
    found: Candidates = {code: partial(wrong_weights, code, *args) for code in IN_THE_WEIGHTS}
    return found | {"weights-averaged": lambda: torch_attention(*args)[1].mean(dim=1)}


def mask_mistakes(actual: Tensor, unmasked: Tensor, mask: Tensor) -> Candidates:
    """What each mistake with a mask makes of attention weights that were right without it."""

    def hidden_queries() -> Tensor:
        rows = mask.mT.expand_as(unmasked)  # a query with nothing to see gets zeros or equal weights
        return nearest(actual, [torch.where(rows, unmasked, fill) for fill in (0.0, 1 / unmasked.shape[-1])])

    return {
        "heads-mask-ignored": lambda: unmasked,
        "heads-mask-inverted": lambda: under_mask(unmasked, ~mask),
        "mask-hides-queries": hidden_queries,
        "mask-lost-an-axis": lambda: under_mask(unmasked, mask.squeeze()),
        "mask-of-the-first-head": lambda: under_mask(unmasked, mask[:, :1]),
    }


def output_mistakes(actual: Tensor, *args: Any, given: Tensor | None = None) -> Candidates:
    """What each mistake makes of the output; `actual` is what came back, arguments as of `wrong_outputs`."""
    codes = AFTER_THE_WEIGHTS if given is not None else dict.fromkeys((*AFTER_THE_WEIGHTS, *IN_THE_WEIGHTS))

    def candidate(code: str) -> Tensor:
        return nearest(actual, wrong_outputs(code, *args, given=given))

    return {code: partial(candidate, code) for code in codes}


def nearest(actual: Tensor, forms: Iterable[Tensor]) -> Tensor:
    """Of the forms that a mistake comes in, the one that is closest to what came back."""
    fitting = [form for form in forms if form.shape == actual.shape]
    if not fitting:
        raise ValueError("no form of this mistake has the shape of what came back")
    return min(fitting, key=lambda form: float((form - actual).abs().nan_to_num(torch.inf).max()))


# The layer, step by step


def wrong_weights(
    code: str,
    weights: dict[str, Tensor],
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    query, key, _ = wrong_projections(code, weights, num_heads, query, key, value)
    d_k = query.shape[-1]
    scale = {
        "scaled-by-sqrt-d-model": math.sqrt(num_heads * d_k),
        "heads-unscaled": 1.0,
        "heads-scaled-twice": float(d_k),
    }
    scores = query @ key.mT / scale.get(code, math.sqrt(d_k))
    if mask is not None and code != "heads-mask-ignored":
        hidden = mask if code == "heads-mask-inverted" else ~mask
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim={"heads-softmax-over-heads": 1, "heads-softmax-over-queries": 2}.get(code, 3))


def wrong_outputs(
    code: str,
    weights: dict[str, Tensor],
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    given: Tensor | None = None,
) -> list[Tensor]:
    """The output, in every form that the mistake comes in, by the `given` attention weights where they fit."""
    attention = wrong_weights(code, weights, num_heads, query, key, value, mask)
    # Of the mistakes in both, only the weights tell an exchanged value from an ignored one.
    if given is not None and given.shape == attention.shape and not code.startswith("key-value-"):
        attention = given
    heads = attention @ wrong_projections(code, weights, num_heads, query, key, value)[2]
    outputs = wrong_merges(code, heads)
    if code != "no-output-projection":
        outputs = [project(weights, "w_o", x) for x in outputs if x.shape[-1] == query.shape[-1]]
    if code == "relu-on-output":
        outputs = [x.relu() for x in outputs]
    if code == "residual-inside":
        outputs = [x + query for x in outputs]
    return outputs


def wrong_projections(
    code: str, weights: dict[str, Tensor], num_heads: int, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, projected and split."""
    if code == "key-value-exchanged":
        key, value = value, key
    if code == "key-value-ignored":
        key = value = query
    if code == "value-ignored":
        value = key
    key_name = "w_q" if code == "key-through-w-q" else "w_k"
    value_name = "w_k" if code == "value-through-w-k" else "w_v"
    projected = [
        project(weights, name, x) for name, x in (("w_q", query), (key_name, key), (value_name, value))
    ]
    if code == "relu-on-projections":
        projected = [x.relu() for x in projected]
    if code == "attention-across-heads":
        first, second, third = (x.unflatten(-1, (num_heads, -1)) for x in projected)
    else:
        first, second, third = (WRONG_SPLITS.get(code, split)(x, num_heads) for x in projected)
    return first, second, third


def wrong_merges(code: str, heads: Tensor) -> list[Tensor]:
    if code == "attention-across-heads":
        return [heads.flatten(2)]
    if code == "split-by-view":
        return [merge(heads), merge_by_view(heads)]  # merged rightly, or by view too
    return WRONG_MERGES[code](heads) if code in WRONG_MERGES else [merge(heads)]


# The two functions


def split_by_view(x: Tensor, num_heads: int) -> Tensor:
    batch, seq, d_model = x.shape
    return x.reshape(batch, num_heads, seq, d_model // num_heads)


def split_interleaved(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def merge_by_view(x: Tensor) -> Tensor:
    batch, num_heads, seq, d_k = x.shape
    return x.reshape(batch, seq, num_heads * d_k)


def merges_in_another_order(x: Tensor) -> list[Tensor]:
    """The features of the heads interleaved; features and positions exchanged."""
    batch, num_heads, seq, d_k = x.shape
    return [x.permute(0, 2, 3, 1).flatten(2), x.transpose(2, 3).reshape(batch, seq, num_heads * d_k)]


def merges_into_one(x: Tensor) -> list[Tensor]:
    """The mean or the sum of the heads, of one head's width or repeated until the width is right again."""
    narrow = [x.mean(dim=1), x.sum(dim=1)]
    return [*narrow, *(one.repeat(1, 1, x.shape[1]) for one in narrow)]


WRONG_SPLITS = {"split-by-view": split_by_view, "split-interleaved": split_interleaved}
WRONG_MERGES = {
    "merge-without-transpose": lambda x: [merge_by_view(x)],
    "merge-other-order": merges_in_another_order,
    "heads-averaged": merges_into_one,
}
