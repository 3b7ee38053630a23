"""The decoder: it reads what has been written so far, and looks back at the source."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..stage2_multi_head.multi_head import MultiHeadAttention
from ..stage4_encoder.encoder import FeedForward, LayerNorm


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and the feed-forward network: three branches beside the stream.

    1. Self-attention, with `norm1`: the target looks at itself, under `tgt_mask`.
    2. Cross-attention, with `norm2`: the target asks, and the encoder's output `memory` answers. Queries
       come from the target, keys and values from `memory`, under `memory_mask`. `memory` is taken as it
       comes: no norm of this layer touches it.
    3. The feed-forward network, with `norm3`.

    Each branch works on what the one before has made, and joins the stream as in the encoder layer:

    - pre-norm (`norm_first=True`): `x + dropout(branch(norm(x)))`;
    - post-norm (`norm_first=False`): `norm(x + dropout(branch(x)))`, as in the paper.

    The submodules are `self_attn` and `cross_attn` (stage 2's `MultiHeadAttention`, each with its own
    weights), `feed_forward` (stage 4's `FeedForward`), `norm1`, `norm2` and `norm3` (`LayerNorm`). With the
    same weights the layer equals `nn.TransformerDecoderLayer`.

    Source: "Attention Is All You Need", section 3.1 and figure 1 (right).
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
        """Make the six submodules.

        `dropout` is one rate for six places: the weights of both attentions, the hidden features of the
        feed-forward network, and what each of the three branches returns, before it is added.
        `activation` is the feed-forward network's. Raises `ValueError` where `num_heads` does not divide
        `d_model`, and for an unknown activation.
        """
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Run the target `x` through the three branches, in the order that `norm_first` says.

        Both masks are True where a query may attend; None hides nothing. `tgt_mask` broadcasts to
        `(batch, heads, tgt_len, tgt_len)`, `memory_mask` to `(batch, heads, tgt_len, src_len)`. Target
        and source may have different lengths; the result has the target's.
        """
        raise NotImplementedError


class Decoder(nn.Module):
    """A stack of decoder layers, one after the other, all with the same `memory` to look at.

    `layers` is an `nn.ModuleList` of `num_layers` decoder layers, each with weights of its own. `norm` is
    one more `LayerNorm`, after the last layer, when `norm_first` is True, else None: as in `Encoder`, and
    for the same reason.

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

        The arguments after `num_layers` are those of `DecoderLayer`, with the same meaning and errors.
        """
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Run `x` through all layers, then through the last norm if there is one.

        `x` are embeddings with positions already added, not token ids. Every layer gets the same `memory` and
        the same masks, which are those of `DecoderLayer`.
        """
        raise NotImplementedError
