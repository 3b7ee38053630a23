"""Multi-head attention with and without a cache, written down plainly, and what known mistakes make of it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake, raising_means

from .caches import new_cache
from .counting import rows_of

BATCH, SEQ, D_MODEL, HEADS = 2, 8, 12, 3
DIMS = "batch query d_model"
WEIGHT_DIMS = "batch heads query key"

Weights = dict[str, Tensor]


def attend(
    weights: Weights, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and attention weights of multi-head attention."""

    def heads(x: Tensor, name: str) -> Tensor:
        x = x @ weights[f"{name}.weight"].mT + weights[f"{name}.bias"]
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    scores = heads(query, "w_q") @ heads(key, "w_k").mT / math.sqrt(query.shape[-1] // HEADS)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    found = scores.softmax(-1)
    output = (found @ heads(value, "w_v")).transpose(1, 2).flatten(2)
    return output @ weights["w_o.weight"].mT + weights["w_o.bias"], found


def make(submission: Any, draw: Any) -> tuple[Any, Weights]:
    """A CachedAttention with random weights."""
    attention = submission.CachedAttention(D_MODEL, HEADS)
    attention.to(draw.exact)
    names = [f"{name}.{kind}" for name in ("w_q", "w_k", "w_v", "w_o") for kind in ("weight", "bias")]
    weights = draw.weights(
        {name: (D_MODEL, D_MODEL)[: 1 + name.endswith("weight")] for name in names}, draw.exact
    )
    attention.load_state_dict(weights)
    attention.eval()
    attention.requires_grad_(False)  # a cache is for writing: it need not be able to carry gradients
    return attention, weights


def causal(length: int) -> Tensor:
    """The causal mask (length, length)."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def in_chunks(submission: Any, draw: Any, lengths: list[int], padding: list[int] | None = None) -> None:
    """A check: a text that comes in chunks gives the rows of one causal attention over all of it.

    With `padding`, row i begins with so many tokens that a mask hides.
    """
    attention, weights = make(submission, draw)
    x = draw.normal(BATCH, SEQ, D_MODEL, dtype=draw.exact)
    real = torch.arange(SEQ) >= torch.tensor(padding or [0] * BATCH)[:, None]  # (batch, seq)
    real = real[:, None, None]
    seen = torch.eye(SEQ, dtype=torch.bool) | (
        causal(SEQ) & real
    )  # padding sees itself; its rows do not count
    output, attended = attend(weights, x, x, x, seen)
    cache = new_cache(submission, draw.exact, BATCH, HEADS, SEQ + 3, D_MODEL // HEADS)
    past = 0
    for new in lengths:
        end = past + new
        chunk, rows = x[:, past:end], slice(past, end)
        before = x[:, :end]
        allowed = causal(SEQ)[rows, :end]
        square = torch.ones(new, end, dtype=torch.bool).tril()
        hidden = real[..., :end]
        every = torch.ones_like(allowed)
        ways = {
            "causal-mask-missing-with-cache": every & hidden if padding else every,
            "causal-mask-of-new-tokens": square & hidden if padding else square,
        }
        if padding:
            ways["mask-ignored-with-cache"] = allowed
        facts = {"past": past, "new": new, "length": end}

        def wrong(which: int, ways=ways, chunk=chunk, before=before) -> dict[str, Any]:
            return {
                code: lambda mask=mask: attend(weights, chunk, before, before, mask)[which].nan_to_num()
                for code, mask in ways.items()
            }

        words = ["broadcast", "expand", "size", "shape"] if past and new > 1 else ["no message"]
        with raising_means("causal-mask-of-new-tokens", words, **facts):
            returned, found = attention(chunk, mask=hidden if padding else None, cache=cache)
        counts = real[:, 0, 0, rows, None]  # (batch, new, 1)
        expect(returned, f"the output of tokens {past} ... {end - 1}", dims=DIMS).equals(
            output[:, rows], wrong(0), facts, only=counts
        )
        expect(found, f"the attention weights of tokens {past} ... {end - 1}", dims=WEIGHT_DIMS).equals(
            attended[:, :, rows, :end], wrong(1), facts, only=counts[:, None]
        )
        past = end


def without_cache(submission: Any, draw: Any) -> None:
    """A check: without a cache nothing is new."""
    attention, weights = make(submission, draw)
    x, other = (draw.normal(BATCH, length, D_MODEL, dtype=draw.exact) for length in (5, 7))
    output, attended = attend(weights, x, x, x, None)
    hidden = {"causal-without-cache": lambda: attend(weights, x, x, x, causal(5))[0]}
    returned, found = attention(x)
    expect(returned, "the output without a cache", dims=DIMS).equals(output, hidden)
    expect(found, "the attention weights without a cache", dims=WEIGHT_DIMS).equals(attended)
    value = draw.normal(BATCH, 7, D_MODEL, dtype=draw.exact)
    mask = draw.mask(BATCH, 1, 5, 7)
    for arguments in ((x, other, value, mask), (x, other, other, None)):
        output, attended = attend(weights, *arguments)
        returned, found = attention(*arguments)
        expect(returned, "the output of cross-attention", dims=DIMS).equals(output)
        expect(found, "the attention weights of cross-attention", dims=WEIGHT_DIMS).equals(attended)
    returned, _ = attention(x, other)
    expect(returned, "the output with a key alone", dims=DIMS).equals(
        attend(weights, x, other, other, None)[0]
    )


def projects_new_tokens_only(submission: Any, draw: Any) -> None:
    """A check: of a cached text no row goes through a projection again."""
    attention, _ = make(submission, draw)
    cache = new_cache(submission, draw.exact, BATCH, HEADS, SEQ, D_MODEL // HEADS)
    rows = []
    for new in (1, 5, 1):
        x = draw.normal(BATCH, new, D_MODEL, dtype=draw.exact)
        _, operators = submission.operators(attention, x, cache=cache)
        rows.append(rows_of(operators, {D_MODEL}))
    if not rows[0]:
        fail("No row goes through a projection.", "Send the new rows through w_q, w_k, w_v and w_o.")
    if rows[2] > rows[0]:
        mistake("keys-projected-again", rows=rows[2], expected=rows[0], past=6)
