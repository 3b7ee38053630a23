# Unusual: the cache is an nn.Module that keeps one tensor for each append, heads behind tokens, and joins them.
"""The KV cache, and multi-head attention that goes on where it stopped.

A key and a value depend on their own token and on those before it. What comes later never changes them, so they are
computed once and kept. "Fast Transformer Decoding" (Shazeer, 2019), section 2.
"""

import torch
from torch import Tensor, nn

from ..stage1_attention.attention import scaled_dot_product_attention
from ..stage2_multi_head.multi_head import MultiHeadAttention, merge_heads, split_heads


class KVCache(nn.Module):
    """Keeps what came in, piece by piece."""

    def __init__(self, batch, num_heads, max_len, d_k, device=None, dtype=None):
        super().__init__()
        self.sizes = (batch, num_heads, d_k)
        self.max_len = max_len
        self.device, self.dtype = device, dtype or torch.get_default_dtype()
        self.pieces = []

    @property
    def length(self):
        return sum(key.size(1) for key, _ in self.pieces)

    def append(self, key, value):
        batch, num_heads, d_k = self.sizes
        for name, rows in (("key", key), ("value", value)):
            if rows.shape != (batch, num_heads, key.size(2), d_k):
                raise ValueError(f"{name} has shape {tuple(rows.shape)}, the cache is for {self.sizes}")
        if self.length + key.size(2) > self.max_len:
            raise ValueError(f"{self.length} and {key.size(2)} tokens are more than max_len = {self.max_len}")
        self.pieces.append(tuple(rows.transpose(1, 2).to(self.device, self.dtype) for rows in (key, value)))
        return self.joined()

    def joined(self):
        keys, values = (torch.cat(pieces, 1).transpose(1, 2) for pieces in zip(*self.pieces))
        return keys, values

    def reorder(self, indices):
        self.pieces = [
            (key.index_select(0, indices), value.index_select(0, indices)) for key, value in self.pieces
        ]

    def truncate(self, length):
        if length < 0 or length > self.length:
            raise ValueError(f"{length} is not between 0 and {self.length}")
        if length == 0:
            self.pieces = []
        elif self.pieces:
            keys, values = self.joined()
            self.pieces = [(keys.transpose(1, 2)[:, :length], values.transpose(1, 2)[:, :length])]


class CachedAttention(MultiHeadAttention):
    """Stage 2's `MultiHeadAttention`, which can also go on where it stopped.

    The same four linear maps, `w_q`, `w_k`, `w_v` and `w_o`, and `num_heads`: the weights of one load into the other.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        """Make what `MultiHeadAttention` makes, with the same arguments and errors."""
        super().__init__(d_model, num_heads, dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `(output, weights)`: without a cache as `MultiHeadAttention`, with one as causal self-attention.

        **Without a cache** this is stage 2's layer and nothing else: no position is hidden but by `mask`. A `key` of
        None is the query, a `value` of None is the key.

        **With a cache** `query` holds the new tokens alone; their keys and values are put into the cache, and `key`
        and `value` stay None. The new tokens attend to all tokens of the cache, old and new, up to themselves: with
        `past` tokens there before, new token i sees 0 ... past + i, and none later. So a text may come all at once,
        token by token, or in blocks of any size: its rows are the same as those of one causal attention over the
        whole text. `length` in the shapes counts old and new tokens.

        `mask` can hide more, as the padding of a batch. It is True where a query may attend to a key, and broadcasts
        to `(batch, heads, new, length)`; else `ValueError` names both shapes. A full cache raises the error of
        `append`.
        """
        if cache is None:
            key = query if key is None else key
            return super().forward(query, key, key if value is None else value, mask)

        new, past = query.shape[1], cache.length
        query_heads = split_heads(self.w_q(query), self.num_heads)  # (batch, heads, new, d_k)
        key_heads = split_heads(self.w_k(query), self.num_heads)  # (batch, heads, new, d_k)
        value_heads = split_heads(self.w_v(query), self.num_heads)  # (batch, heads, new, d_k)
        keys, values = cache.append(key_heads, value_heads)  # each (batch, heads, length, d_k)
        if new > 1:  # a single new token is the last one, and nothing comes after it
            not_later = _causal_mask_after(past, new, query.device)  # (new, length)
            mask = not_later if mask is None else _both(mask, not_later)
        _, weights = scaled_dot_product_attention(
            query_heads, keys, values, mask
        )  # (batch, heads, new, length)
        heads = self.dropout(weights) @ values  # (batch, heads, new, d_k)
        return self.w_o(merge_heads(heads)), weights  # (batch, new, d_model)


def _causal_mask_after(past: int, new: int, device: torch.device) -> Tensor:
    """The last `new` rows of the causal mask of `past + new` tokens: row i sees the keys 0 ... past + i."""
    position = torch.arange(past + new, device=device)  # (past + new,)
    return position[None, :] <= position[past:, None]  # (new, past + new)


def _both(mask: Tensor, not_later: Tensor) -> Tensor:
    """True where both masks are."""
    try:
        return mask.bool() & not_later
    except RuntimeError:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to (batch, heads, new, length), "
            f"which ends in {tuple(not_later.shape)}"
        ) from None
