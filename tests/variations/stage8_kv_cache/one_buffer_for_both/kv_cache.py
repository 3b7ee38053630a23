# Unusual: keys and values are two views of one buffer, time first, NaN where nothing is, and rows move one by one.
"""The KV cache, and multi-head attention that goes on where it stopped.

A key and a value depend on their own token and on those before it. What comes later never changes them, so they are
computed once and kept. "Fast Transformer Decoding" (Shazeer, 2019), section 2.4.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..stage1_attention.attention import scaled_dot_product_attention
from ..stage2_multi_head.multi_head import MultiHeadAttention, merge_heads, split_heads


class KVCache:
    """Keeps the keys and values of all the tokens that one attention layer has read so far.

    The room for `max_len` tokens is made at once, as two tensors of shape `(batch, num_heads, max_len, d_k)`: making
    them longer token by token would copy everything each time. `length`, 0 in the beginning, says how many tokens are
    in it. A cache is for writing text, not for training: use it without gradients.
    """

    def __init__(
        self,
        batch: int,
        num_heads: int,
        max_len: int,
        d_k: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Make an empty cache. `device` and `dtype` are those of the keys; None means PyTorch's default.

        Raises `ValueError` with the value in the message where one of the four sizes is below 1.
        """
        for name, size in (("batch", batch), ("num_heads", num_heads), ("max_len", max_len), ("d_k", d_k)):
            if size < 1:
                raise ValueError(f"{name} is {size}, and should be at least 1")
        both = torch.full((max_len, 2, batch, num_heads, d_k), float("nan"), device=device, dtype=dtype)
        self.keys, self.values = both.permute(1, 2, 3, 0, 4)
        self.length = 0

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_k"]
    ) -> tuple[Float[Tensor, "batch heads length d_k"], Float[Tensor, "batch heads length d_k"]]:
        """Put the keys and values of new tokens behind those that are there; return `(all_keys, all_values)`.

        One new token or many: the whole beginning of a text at once, one token at a time, or blocks of any size.
        What is returned holds the `length` tokens so far, the oldest first, and nothing of the empty room behind
        them. It may be a view of the cache's own memory. `key` and `value` are not modified.

        Raises `ValueError`, and leaves the cache as it was, where there is too little room: the message has `max_len`,
        how many tokens are there, and how many should be added. And where `key` or `value` does not have the cache's
        batch size, heads and `d_k`, or where they differ in their number of tokens: with both shapes.
        """
        batch, num_heads, max_len, d_k = self.keys.shape
        new = key.shape[2]
        expected = (batch, num_heads, new, d_k)
        # An assignment would not complain about a size of 1: it would fill every row with the same numbers.
        if key.shape != expected or value.shape != expected:
            raise ValueError(
                f"key of shape {tuple(key.shape)} and value of shape {tuple(value.shape)} do not fit a cache for "
                f"(batch, heads, new, d_k) = ({batch}, {num_heads}, new, {d_k})"
            )
        end = self.length + new
        if end > max_len:
            raise ValueError(
                f"the cache has max_len = {max_len} and holds {self.length} tokens: {new} more do not fit"
            )
        self.keys[:, :, self.length : end] = key
        self.values[:, :, self.length : end] = value
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]  # each (batch, heads, length, d_k)

    def reorder(self, indices: Int[Tensor, "batch"]) -> None:
        """Let row i go on with what row `indices[i]` holds: keys and values, in all heads.

        Beam search needs this. Of the hypotheses some are dropped and others continued several times, and a row that
        continues another one's text needs that one's keys and values. An index may occur several times or never.

        Raises `ValueError`, naming both numbers, where there is not one index for each row of the batch.
        """
        batch = self.keys.shape[0]
        if indices.shape != (batch,):
            raise ValueError(f"indices of shape {tuple(indices.shape)} for a cache of {batch} rows")
        for buffer in (self.keys, self.values):
            rows = [buffer[index, :, : self.length].clone() for index in indices.tolist()]
            for row, kept in zip(buffer, rows):
                row[:, : self.length] = kept

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens.

        Raises `ValueError` with both numbers where `length` is negative or more than there are.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens and cannot be cut to {length}")
        self.length = length


class CachedAttention(MultiHeadAttention):
    """Stage 2's `MultiHeadAttention`, which can also go on where it stopped.

    The same four linear maps, `w_q`, `w_k`, `w_v` and `w_o`, and `num_heads`: the weights of one load into the other.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        """Make what `MultiHeadAttention` makes, with the same arguments and errors."""
        super().__init__(d_model, num_heads, dropout)

    def forward(
        self,
        query: Float[Tensor, "batch new d_model"],
        key: Float[Tensor, "batch k_len d_model"] | None = None,
        value: Float[Tensor, "batch k_len d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Float[Tensor, "batch new d_model"], Float[Tensor, "batch heads new length"]]:
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


def _causal_mask_after(past: int, new: int, device: torch.device) -> Bool[Tensor, "new past+new"]:
    """The last `new` rows of the causal mask of `past + new` tokens: row i sees the keys 0 ... past + i."""
    position = torch.arange(past + new, device=device)  # (past + new,)
    return position[None, :] <= position[past:, None]  # (new, past + new)


def _both(mask: Bool[Tensor, "..."], not_later: Bool[Tensor, "new length"]) -> Bool[Tensor, "..."]:
    """True where both masks are."""
    try:
        return mask.bool() & not_later
    except RuntimeError:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to (batch, heads, new, length), "
            f"which ends in {tuple(not_later.shape)}"
        ) from None
