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
    raise NotImplementedError


class SinusoidalPositionalEncoding(nn.Module):
    """Adds the sinusoidal table to a batch of embeddings, then applies dropout to the sum.

    `pe` holds `sinusoidal_table(max_len, d_model)` with a batch axis of 1 in front. It is a buffer: it is saved in
    the state dict and follows `.to(device)` and `.double()`, but it is not a parameter, so no optimizer changes it.

    Source: "Attention Is All You Need", sections 3.5 and 5.4 (dropout on the sums).
    """

    pe: Float[Tensor, "1 max_len d_model"]

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.0) -> None:
        """`dropout` is the probability with which a number of the sum is dropped in training."""
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], offset: int = 0
    ) -> Float[Tensor, "batch seq d_model"]:
        """Add row `offset` of the table to the first token of every sequence, the next row to the next, and so on.

        All sequences of the batch get the same rows. `offset` is the position of the first token of `x`: above 0
        where earlier tokens of the same sequence went through before. `x` itself is not modified.

        Raises `ValueError` with `max_len` and `offset` in the message where `offset` is negative or a token stands
        behind the last row.
        """
        raise NotImplementedError


class LearnedPositionalEncoding(nn.Module):
    """Adds a learned vector for each position, then applies dropout to the sum.

    The vectors are the rows of `embedding`, an `nn.Embedding(max_len, d_model)`, and are trained with everything
    else. A position that no training sequence reached keeps its random row.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"; used in BERT and GPT-2.
    """

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        """`dropout` is the probability with which a number of the sum is dropped in training."""
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], offset: int = 0
    ) -> Float[Tensor, "batch seq d_model"]:
        """Add row `offset` of `embedding` to the first token of every sequence, the next row to the next, and so on.

        All sequences of the batch get the same rows. `x` itself is not modified.

        Raises `ValueError` with `max_len` and `offset` in the message where `offset` is negative or a token stands
        behind the last row.
        """
        raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
