"""Multi-head attention: several attentions side by side, each in its own part of the features.

"Attention Is All You Need" (Vaswani et al., 2017), section 3.2.2.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(
    x: Float[Tensor, "batch seq d_model"], num_heads: int
) -> Float[Tensor, "batch heads seq d_k"]:
    """Share out the features of every token among the heads.

    Each head gets `d_k = d_model / num_heads` features of every token: head h owns features `h*d_k` up
    to, but not including, `(h+1)*d_k`. The head axis stands before the sequence axis, so that attention,
    which works on the last two axes, runs between tokens, once for each head.

    The result has shape `(batch, num_heads, seq, d_k)` and the dtype of `x`, which may be non-contiguous.

    Source: "Attention Is All You Need", section 3.2.2: d_k = d_v = d_model / h.
    """
    raise NotImplementedError


def merge_heads(x: Float[Tensor, "batch heads seq d_k"]) -> Float[Tensor, "batch seq d_model"]:
    """Lay the heads of every token side by side again, in the order in which `split_heads` cut them.

    The inverse of `split_heads`: `merge_heads(split_heads(x, num_heads))` is `x`.

    The result has shape `(batch, seq, heads * d_k)` and the dtype of `x`, which may be non-contiguous.

    Source: "Attention Is All You Need", section 3.2.2: Concat(head_1, ..., head_h).
    """
    raise NotImplementedError


class MultiHeadAttention(nn.Module):
    """Attention with several heads: Concat(head_1, ..., head_h) W_o, each head on projections of its own.

    Four linear maps, `w_q`, `w_k`, `w_v` and `w_o`, each `nn.Linear(d_model, d_model)`. The projections
    of all heads are one matrix: the outputs `h*d_k ... (h+1)*d_k` of `w_q` are the queries of head h. So
    the layer has `4 * d_model**2 + 4 * d_model` parameters, whatever the number of heads.

    Source: "Attention Is All You Need", section 3.2.2 and figure 2 (right).
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        """Make the four linear maps, keep `num_heads` as an attribute.

        `dropout` is the probability with which an attention weight is dropped in training.
        Raises `ValueError` with both numbers in the message where `num_heads` does not divide `d_model`.
        """
        raise NotImplementedError

    def forward(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        key: Float[Tensor, "batch k_len d_model"],
        value: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "batch q_len d_model"], Float[Tensor, "batch heads q_len k_len"]]:
        """Return `(output, weights)`: project, split into heads, attend in every head, merge, project.

        `query`, `key` and `value` come in unprojected. In self-attention all three are the same tensor;
        in cross-attention `key` and `value` come from another sequence. Every head does what
        `scaled_dot_product_attention` of stage 1 does, on its own `d_k = d_model / num_heads` features.

        `mask` is True where a query may attend to a key, and broadcasts to the weights,
        `(batch, heads, q_len, k_len)`: the masks of stage 1 fit as they are. One that does not broadcast
        to that shape raises `ValueError` naming both shapes; None hides nothing.

        Dropout acts on the attention weights, in training only. The weights that are returned may be
        those before or after dropout.

        Source: "Attention Is All You Need", section 3.2.2; dropout on the weights as in the authors' code.
        """
        raise NotImplementedError
