"""Inputs with all sizes different, and the right answers by PyTorch's own attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Five and more: the square of one size is then never another size, so no two wrong scales are the same.
SMALLEST, LARGEST = 5, 12


def sizes(draw: Any) -> list[int]:
    """q_len, k_len, d_k and d_v, all different."""
    return draw.sizes(4, SMALLEST, LARGEST)  # type: ignore[no-any-return]


def query_key_value(draw: Any, *leading: int) -> tuple[Tensor, Tensor, Tensor]:
    """Independent queries, keys and values with all sizes different."""
    q_len, k_len, d_k, d_v = sizes(draw)
    return (
        draw.normal(*leading, q_len, d_k, dtype=draw.exact),
        draw.normal(*leading, k_len, d_k, dtype=draw.exact),
        draw.normal(*leading, k_len, d_v, dtype=draw.exact),
    )


def covering_mask(draw: Any, *shape: int) -> Tensor:
    """A mask in which every query sees a key, every key is seen, and no query sees everything."""
    while True:
        mask: Tensor = draw.mask(*shape)
        if bool(mask.any(-2).all()):
            return mask


def right_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(output, weights) by PyTorch's attention: with the identity as values, the output is the weights."""
    scores_shape = (*query.shape[:-1], key.size(-2))
    if mask is not None:
        mask = mask.bool().expand(scores_shape)
    one_hot = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], key.size(-2))
    return (
        F.scaled_dot_product_attention(query, key, value, mask),
        F.scaled_dot_product_attention(query, key, one_hot, mask),
    )


def remaining(weights: Tensor, mask: Tensor) -> Tensor:
    """What a mask must make of a function's own unmasked weights, however they were scaled."""
    kept = weights * mask
    return kept / kept.sum(-1, keepdim=True)


def right_padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    return (tokens != pad_id)[:, None, None, :]


def right_causal_mask(length: int) -> Tensor:
    place = torch.arange(length)
    return (place[None, :] <= place[:, None])[None, None]
