"""Positional encoding: how a model that sees a set of tokens learns their order.

Three ways: a fixed table of sines and cosines, a learned table, and rotation of queries and keys.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoidal_table(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Write down the sines and cosines of the paper, one row a position.

    Columns come in pairs, and a pair shares one frequency. For position p = 0, 1, 2, ... and pair
    i = 0, 1, ..., d_model/2 - 1:

        column 2i      sin(p / 10000^(2i / d_model))
        column 2i + 1  cos(p / 10000^(2i / d_model))

    Angles are in radians; pair i repeats after 2π · 10000^(2i / d_model) positions. The table has PyTorch's default
    dtype: float32, unless somebody changed it. Positions and angles are computed in that dtype or a wider one.

    Raises `ValueError` with `d_model` in the message where it is odd.

    Source: "Attention Is All You Need", section 3.5.
    """
    if d_model % 2 != 0:
        raise ValueError(f"d_model = {d_model} is odd, but sines and cosines come in pairs")
    positions = torch.arange(length).unsqueeze(1)  # (length, 1)
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model/2,)
    angles = positions * frequencies  # (length, d_model/2)
    table = torch.empty(length, d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table


class SinusoidalPositionalEncoding(nn.Module):
    """Adds the sinusoidal table to a batch of embeddings, then applies dropout to the sum.

    `pe` holds `sinusoidal_table(max_len, d_model)` with a batch axis of 1 in front. It is a buffer: it is saved in
    the state dict and follows `.to(device)` and `.double()`, but it is not a parameter, so no optimizer changes it.

    Source: "Attention Is All You Need", sections 3.5 and 5.4 (dropout on the sums).
    """

    pe: Float[Tensor, "1 max_len d_model"]

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.0) -> None:
        """`dropout` is the probability with which a number of the sum is dropped in training."""
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_len, d_model).unsqueeze(0))  # (1, max_len, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], offset: int = 0
    ) -> Float[Tensor, "batch seq d_model"]:
        """Add row `offset` of the table to the first token of every sequence, the next row to the next, and so on.

        All sequences of the batch get the same rows. `offset` is the position of the first token of `x`: above 0
        where earlier tokens of the same sequence went through before. `x` itself is not modified.

        Raises `ValueError` with `max_len` and `offset` in the message where `offset` is negative or a token stands
        behind the last row.
        """
        end = offset + x.size(1)
        # Slicing would not complain: it counts negative numbers from the end and stops early at the other end.
        if offset < 0 or end > self.pe.size(1):
            raise ValueError(
                f"offset = {offset} with {x.size(1)} tokens does not fit max_len = {self.pe.size(1)}"
            )
        return self.dropout(x + self.pe[:, offset:end])  # (batch, seq, d_model)


class LearnedPositionalEncoding(nn.Module):
    """Adds a learned vector for each position, then applies dropout to the sum.

    The vectors are the rows of `embedding`, an `nn.Embedding(max_len, d_model)`, and are trained with everything
    else. A position that no training sequence reached keeps its random row.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"; used in BERT and GPT-2.
    """

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        """`dropout` is the probability with which a number of the sum is dropped in training."""
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], offset: int = 0
    ) -> Float[Tensor, "batch seq d_model"]:
        """Add row `offset` of `embedding` to the first token of every sequence, the next row to the next, and so on.

        All sequences of the batch get the same rows. `x` itself is not modified.

        Raises `ValueError` with `max_len` and `offset` in the message where `offset` is negative or a token stands
        behind the last row.
        """
        end = offset + x.size(1)
        max_len = self.embedding.num_embeddings
        if offset < 0 or end > max_len:
            raise ValueError(f"offset = {offset} with {x.size(1)} tokens does not fit max_len = {max_len}")
        positions = torch.arange(offset, end, device=x.device)  # (seq,)
        return self.dropout(x + self.embedding(positions))  # (batch, seq, d_model)


def rotary_table(
    length: int, d_k: int, base: float = 10000.0
) -> tuple[Float[Tensor, "length d_k/2"], Float[Tensor, "length d_k/2"]]:
    """Return `(cos, sin)` of the angles by which rotary positions turn the pairs of a query or key.

    Position p = 0, 1, 2, ... turns pair i = 0, 1, ..., d_k/2 - 1 by p · base^(-2i / d_k) radians: one column a pair,
    not a column for each feature. Both tables have PyTorch's default dtype: float32, unless somebody changed it.
    Positions and angles are computed in that dtype or a wider one.

    Raises `ValueError` with `d_k` in the message where it is odd.

    Source: Su et al. 2021, "RoFormer", section 3.2.2; the pairs are counted from i = 0 here.
    """
    if d_k % 2 != 0:
        raise ValueError(f"d_k = {d_k} is odd, but rotary positions turn pairs of features")
    positions = torch.arange(length).unsqueeze(1)  # (length, 1)
    frequencies = base ** (-torch.arange(0, d_k, 2) / d_k)  # (d_k/2,)
    angles = positions * frequencies  # (length, d_k/2)
    return angles.cos(), angles.sin()


def apply_rotary(
    x: Float[Tensor, "batch heads seq d_k"],
    cos: Float[Tensor, "length d_k/2"],
    sin: Float[Tensor, "length d_k/2"],
    offset: int = 0,
) -> Float[Tensor, "batch heads seq d_k"]:
    """Turn every pair of features of a query or key by the angle of its position.

    `cos` and `sin` are those of `rotary_table`. The first token of `x` stands at position `offset`. Pair i of a token
    is made of its features i and i + d_k/2, the half-split layout (the RoFormer paper pairs neighbours, 2i and
    2i + 1, instead). With angle t, a pair (a, b) becomes

        (a cos t - b sin t, a sin t + b cos t)

    which is (a + b·j) times e^(j·t) in complex numbers, j the imaginary unit. The result has the shape and dtype of
    `x`, which is not modified and may be non-contiguous. Lengths of vectors stay as they were, and the dot product of
    a turned query and a turned key depends on how far apart they are, not on where they stand.

    Raises `ValueError` with `offset` and the length of the tables in the message where `offset` is negative or a token
    stands behind their last row.

    Source: Su et al. 2021, "RoFormer", sections 3.2.2 and 3.4.2; the layout is that of GPT-NeoX, and of Llama in
    Hugging Face.
    """
    end = offset + x.size(-2)
    if offset < 0 or end > cos.size(0):
        raise ValueError(
            f"offset = {offset} with {x.size(-2)} tokens does not fit tables of {cos.size(0)} rows"
        )
    cos, sin = cos[offset:end].to(x.dtype), sin[offset:end].to(x.dtype)  # each (seq, d_k/2)
    first, second = x.chunk(2, dim=-1)  # each (batch, heads, seq, d_k/2)
    turned = [first * cos - second * sin, first * sin + second * cos]  # each (batch, heads, seq, d_k/2)
    return torch.cat(turned, dim=-1)  # (batch, heads, seq, d_k)
