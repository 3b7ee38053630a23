"""The whole Transformer: source ids and target ids in, logits over the target vocabulary out."""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask, padding_mask
from ..stage3_positional_encoding.positional_encoding import SinusoidalPositionalEncoding
from ..stage4_encoder.encoder import Encoder
from .decoder import Decoder


class Transformer(nn.Module):
    """The encoder-decoder model of the paper, from token ids to logits.

    Submodules: `src_embed` and `tgt_embed` (`nn.Embedding`, one for each vocabulary), `positions` (stage
    3's `SinusoidalPositionalEncoding`, the same one for both sides), `encoder`, `decoder`, and `fc_out`,
    the `nn.Linear` from `d_model` to `tgt_vocab`. `pad_id` is kept too: it is the padding of source and
    target alike.

    Source: "Attention Is All You Need", section 3 and figure 1.
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        max_len: int = 5000,
        norm_first: bool = True,
        pad_id: int = 0,
    ) -> None:
        """Make the submodules and give every matrix its first values.

        Encoder and decoder have `num_layers` layers each and share all other settings. Sequences may have
        up to `max_len` tokens. `dropout` also acts on the sum of embeddings and positions: `positions`
        can do that.

        Every parameter with two axes, the embeddings included, is filled by `nn.init.xavier_uniform_`.
        Biases and norms keep the values that they have. Raises `ValueError` where `num_heads` does not
        divide `d_model`.

        Source: section 5.4 for the dropout; Xavier-uniform values are those of Glorot and Bengio (2010).
        """
        raise NotImplementedError

    def embed(
        self, tokens: Int[Tensor, "batch seq"], embedding: nn.Embedding
    ) -> Float[Tensor, "batch seq d_model"]:
        """Turn token ids into vectors: the embedding times sqrt(d_model), plus the positions, then dropout.

        `embedding` is `src_embed` or `tgt_embed`. Raises `ValueError`, naming the ids and the size of the
        vocabulary, where a token id is below 0 or not below `embedding.num_embeddings`; `positions`
        refuses a sequence longer than `max_len`, with a `ValueError` of its own.

        Source: sections 3.4 (the scale), 3.5 (the sum) and 5.4 (the dropout).
        """
        raise NotImplementedError

    def encode(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Read the source: its ids in, the encoder's output (the memory) out.

        `src_mask` goes to the encoder as it is. None hides nothing, not even padding. Raises the errors
        of `embed`.
        """
        raise NotImplementedError

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Read the target and the memory: hidden states out, one for each target position, before `fc_out`.

        The masks go to the decoder as they are. None hides nothing, not even later positions. Raises the
        errors of `embed`, and `ValueError`, naming both, where target and memory have different batch
        sizes.
        """
        raise NotImplementedError

    def forward(
        self, src: Int[Tensor, "batch src_len"], tgt: Int[Tensor, "batch tgt_len"]
    ) -> Float[Tensor, "batch tgt_len tgt_vocab"]:
        """Score every next token: row i holds the logits of the token after target tokens 0 ... i.

        Logits, not probabilities: the loss of stage 6 takes the softmax. The three masks come from
        `pad_id` and the order of the target: the encoder sees no padding of the source, the decoder's
        self-attention no later position and no padding of the target, its cross-attention no padding of
        the source.

        Raises the errors of `encode` and `decode`.
        """
        raise NotImplementedError
