"""The encoder: layer norm, the feed-forward network, the residual layer around them, and the stack.

"Attention Is All You Need" (Vaswani et al., 2017), sections 3.1 and 3.3.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..stage2_multi_head.multi_head import MultiHeadAttention


class LayerNorm(nn.Module):
    """Give every token mean 0 and variance 1 over its own features, then scale and shift each feature.

    Equals `F.layer_norm`: `(x - mean) / sqrt(variance + eps) * weight + bias`. Mean and variance are
    taken over the last axis alone, for each token by itself. The variance is the biased one: the mean of
    the squared distances from the mean, divided by d_model and not by d_model - 1.

    Source: "Layer Normalization" (Ba, Kiros and Hinton, 2016), equations 3 and 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        """Make two parameters of shape `(d_model,)`: `weight`, all ones, and `bias`, all zeros.

        `eps` is the small number that keeps the root away from 0.
        """
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise the last axis of `x`, whatever axes stand before it.

        `x` is not modified. A token whose features are all equal comes out as `bias`, never as NaN.
        """
        d_model = x.size(-1)
        # A sum over d_model is a mean. mean() would divide every number once more on the way back.
        centred = x - x.sum(dim=-1, keepdim=True) / d_model  # (..., d_model) minus (..., 1)
        variance = (centred * centred).sum(dim=-1, keepdim=True) / d_model  # (..., 1)
        normed = centred * torch.rsqrt(variance + self.eps)  # rsqrt(v) is 1 / sqrt(v)
        return normed * self.weight + self.bias  # (..., d_model) times (d_model,)


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, applied to every position by itself.

    Two layers: `linear1`, `nn.Linear(d_model, d_ff)`, and `linear2`, `nn.Linear(d_ff, d_model)`.

    Source: "Attention Is All You Need", section 3.3, equation 2 (there with ReLU, and no dropout inside).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1, activation: str = "relu") -> None:
        """Make the two linear maps; `dropout` acts on the hidden features, between them.

        `activation` is "relu" or "gelu": the exact GELU, x times the normal distribution function of x,
        written with erf. Any other name raises `ValueError` with that name in the message.
        """
        super().__init__()
        activations = {"relu": F.relu, "gelu": F.gelu}
        if activation not in activations:
            raise ValueError(f'activation is "relu" or "gelu", not {activation!r}')
        self.activation = activations[activation]
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """Widen, activate, drop (in training only), narrow again."""
        hidden = self.activation(self.linear1(x))  # (batch, seq, d_ff)
        return self.linear2(self.dropout(hidden))  # (batch, seq, d_model)


class EncoderLayer(nn.Module):
    """Self-attention and the feed-forward network, each as a branch beside the residual stream.

    A branch computes something from the stream, and its result is added to the stream:

    - pre-norm (`norm_first=True`): `x + dropout(branch(norm(x)))`, and nothing touches the sum;
    - post-norm (`norm_first=False`): `norm(x + dropout(branch(x)))`, as in the paper.

    The first branch is self-attention, with `norm1`; the second is the feed-forward network, with
    `norm2`. The second works on what the first has made. The submodules are `self_attn` (stage 2's
    `MultiHeadAttention`), `feed_forward` (`FeedForward`), `norm1` and `norm2` (`LayerNorm`). With the same
    weights the layer equals `nn.TransformerEncoderLayer`.

    Source: "Attention Is All You Need", section 3.1 and figure 1 (left), for post-norm; "On Layer
    Normalization in the Transformer Architecture" (Xiong et al., 2020), figure 1, for both.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = True,
        activation: str = "relu",
    ) -> None:
        """Make the four submodules.

        `dropout` is one rate for four places: the attention weights, the hidden features of the
        feed-forward network, and what each of the two branches returns, before it is added.
        Raises `ValueError` where `num_heads` does not divide `d_model`, and for an unknown activation.
        """
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.norm1 = LayerNorm(d_model)
        self.norm2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Run `x` through both branches, in the order that `norm_first` says.

        `mask` is True where a position may attend to another, broadcasts to `(batch, heads, seq, seq)`,
        and goes to the attention as it is; None hides nothing. `x` is not modified.
        """
        if self.norm_first:
            normed = self.norm1(x)
            attended, _ = self.self_attn(normed, normed, normed, mask)  # (batch, seq, d_model)
            x = x + self.dropout(attended)
            return x + self.dropout(self.feed_forward(self.norm2(x)))  # (batch, seq, d_model)

        attended, _ = self.self_attn(x, x, x, mask)  # (batch, seq, d_model)
        x = self.norm1(x + self.dropout(attended))
        return self.norm2(x + self.dropout(self.feed_forward(x)))  # (batch, seq, d_model)


class Encoder(nn.Module):
    """A stack of encoder layers, one after the other.

    `layers` is an `nn.ModuleList` of `num_layers` encoder layers, each with weights of its own. `norm` is
    one more `LayerNorm`, after the last layer, when `norm_first` is True: in a pre-norm stack nothing
    else normalises the stream, which grows with every layer. With post-norm each layer ends in a norm
    already, and `norm` is None.

    Source: "Attention Is All You Need", section 3.1; for the last norm, Xiong et al. (2020), table 1.
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = True,
        activation: str = "relu",
    ) -> None:
        """Make the layers, all with the same settings, and the last norm.

        The arguments after `num_layers` are those of `EncoderLayer`, with the same meaning and errors.
        """
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first, activation) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else None

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Run `x` through all layers, each with the same `mask`, then through the last norm if there is one.

        `x` are embeddings with positions already added, not token ids. `mask` is that of `EncoderLayer`:
        `padding_mask(tokens)` fits as it is.
        """
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)
