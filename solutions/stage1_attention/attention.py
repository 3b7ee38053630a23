"""Attention: masks, scaled dot-product attention, and a layer with a single head.

Masks are boolean in this course, and True means "may attend".
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def padding_mask(tokens: Int[Tensor, "batch seq"], pad_id: int = 0) -> Bool[Tensor, "batch 1 1 seq"]:
    """Say which keys are real tokens, for every head and every query.

    The result is boolean: True where `tokens` holds anything but `pad_id`. Padding may stand on the
    right, on the left, or in between. The two axes of size 1 broadcast over heads and queries, so the
    mask fits scores of shape `(batch, heads, q_len, seq)`.

    Source: none in "Attention Is All You Need", which never mentions padding; batches need it all the same.
    """
    is_real = tokens != pad_id  # (batch, seq)
    return is_real[:, None, None, :]  # (batch, 1, 1, seq)


def causal_mask(length: int, device: torch.device | str | None = None) -> Bool[Tensor, "1 1 length length"]:
    """Say which positions each position may look at: itself and those before it.

    The result is boolean: row i (the query) is True in columns 0 ... i (the keys) and False after
    them. It is made on `device` (None: PyTorch's default device). The two axes of size 1 broadcast
    over batch and heads.

    Source: "Attention Is All You Need", section 3.2.3: "prevent leftward information flow".
    """
    everything = torch.ones(1, 1, length, length, dtype=torch.bool, device=device)
    return everything.tril()  # keeps the diagonal: a position sees itself


def scaled_dot_product_attention(
    query: Float[Tensor, "... q_len d_k"],
    key: Float[Tensor, "... k_len d_k"],
    value: Float[Tensor, "... k_len d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "... q_len d_v"], Float[Tensor, "... q_len k_len"]]:
    """Average the values, each query with its own weights: softmax(query keyᵀ / sqrt(d_k)) value.

    Returns `(output, weights)`. The softmax runs over the keys, so the weights of one query sum to 1.
    Any number of leading axes is fine, none included: (batch, heads) later in the course, (batch,) in
    this stage. Dtype and device are those of the inputs, which are not modified; bfloat16 and float16
    work too.

    `mask` is True (or 1, in a mask of integers or floats) where a query may attend to a key. It
    broadcasts to the scores, `(..., q_len, k_len)`: a mask that would add an axis to the scores,
    enlarge one, or that does not fit at all raises `ValueError` naming both shapes. A masked key gets
    weight 0. A query that may see nothing gets a finite output, never NaN, and spoils no gradient.

    Source: "Attention Is All You Need", section 3.2.1, equation 1.
    """
    d_k = query.size(-1)
    scores = query @ key.mT / math.sqrt(d_k)  # (..., q_len, k_len)
    if mask is None:
        weights = scores.softmax(dim=-1)
        return weights @ value, weights  # (..., q_len, d_v)

    # expand() refuses what masked_fill() would accept in silence: a mask larger than the scores.
    try:
        may_attend = mask.bool().expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to scores of shape {tuple(scores.shape)}"
        ) from None
    # The lowest finite number, not minus infinity: a row of minus infinities would come out as NaN.
    scores = torch.where(may_attend, scores, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    # For rows with something to see these are 0 already; a row with nothing to see is emptied here.
    weights = torch.where(may_attend, weights, 0.0)
    return weights @ value, weights


class SingleHeadAttention(nn.Module):
    """Self-attention with one head: every position asks all the positions of its own sequence.

    Three linear maps, `w_q`, `w_k` and `w_v`, each `nn.Linear(d_model, d_k)`, make queries, keys and
    values out of the same input.

    Source: "Attention Is All You Need", section 3.2.2, one head without the output projection.
    """

    def __init__(self, d_model: int, d_k: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_v = nn.Linear(d_model, d_k)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> tuple[Float[Tensor, "batch seq d_k"], Float[Tensor, "batch seq seq"]]:
        """Return `(output, weights)` of scaled dot-product attention over the three projections of `x`.

        There is no head axis here, so `mask` broadcasts to `(batch, seq, seq)`: `causal_mask(n)[0]` or
        `padding_mask(tokens)[:, 0]`.
        """
        query, key, value = self.w_q(x), self.w_k(x), self.w_v(x)  # each (batch, seq, d_k)
        return scaled_dot_product_attention(query, key, value, mask)
