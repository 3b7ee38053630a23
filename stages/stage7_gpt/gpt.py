"""A GPT: a stack of decoder layers without an encoder, as GPT-2 has them and as Llama does.

"Language Models are Unsupervised Multitask Learners" (Radford et al., 2019), called GPT-2 below; "LLaMA: Open and
Efficient Foundation Language Models" (Touvron et al., 2023), called Llama.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask
from ..stage2_multi_head.multi_head import merge_heads, split_heads
from ..stage3_positional_encoding.positional_encoding import (
    LearnedPositionalEncoding,
    apply_rotary,
    rotary_table,
)


class RMSNorm(nn.Module):
    """Scale every token so that its root mean square is 1, then scale each feature: `x / rms(x) * weight`.

    `rms(x) = sqrt(mean(x²) + eps)`, with the mean over the last axis alone, for each token by itself. In contrast
    to layer norm no mean is subtracted, and there is no bias.

    Source: "Root Mean Square Layer Normalization" (Zhang and Sennrich, 2019), equation 4; `eps` as in Llama.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        """Make one parameter, `weight`, of shape `(d_model,)`, all ones. `eps` keeps the root away from 0."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise the last axis of `x`, whatever axes stand before it.

        The result has the dtype of `x`, which is not modified. In float16 the square of 256 is infinite already, so
        for float16 and bfloat16 the squares and their mean are taken in float32.
        """
        raise NotImplementedError


class SwiGLU(nn.Module):
    """A feed-forward network with a gate: `w_down(silu(w_gate(x)) * w_up(x))`.

    Where `FeedForward` has one map into `d_ff` features and an activation, this has two maps of equal shape. One,
    activated by `silu(z) = z * sigmoid(z)`, says how much of the other goes through, feature by feature.

    Source: "GLU Variants Improve Transformer" (Shazeer, 2020), equation 6.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Make `w_gate` and `w_up`, from `d_model` to `d_ff`, and `w_down`, back again: linear maps without bias."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Widen twice, gate, narrow again; every position by itself."""
        raise NotImplementedError


@dataclass(frozen=True)
class GPTConfig:
    """What a GPT is made of. The defaults of the last seven are GPT-2's (`dropout` aside, which is 0.1 there)."""

    vocab_size: int
    block_size: int  # the longest sequence, in tokens
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None  # None means 4 * d_model
    dropout: float = 0.0
    position: str = "learned"  # or "rotary"
    norm: str = "layer"  # or "rms"
    mlp: str = "gelu"  # or "swiglu"
    bias: bool = True  # False: no bias anywhere, layer norms included
    tie_weights: bool = True  # token_embed and head share one matrix

    def __post_init__(self) -> None:
        """Refuse settings of which no model can be made: `ValueError` with the setting, its value and what is allowed.

        The five sizes, and `d_ff` unless it is None, are at least 1; `num_heads` divides `d_model`; `dropout` is
        from 0 to below 1; `position`, `norm` and `mlp` are one of their two words; with rotary positions the
        features of a head, `d_model / num_heads`, are an even number.
        """
        raise NotImplementedError


class Block(nn.Module):
    """One layer of a GPT: causal self-attention and a feed-forward network, each as a branch beside the stream.

    Pre-norm, as in stage 4, and without cross-attention, since there is nothing to look at but the text itself:
    `x + dropout(attn(norm1(x)))`, then the same with `mlp` and `norm2`. The submodules:

    - `norm1` and `norm2`: `nn.LayerNorm`, without its bias where `config.bias` is False, or `RMSNorm`.
    - `attn`: multi-head self-attention in which no position sees a later one. `w_q`, `w_k`, `w_v` and `w_o` are
      linear maps from `d_model` to `d_model`, with a bias where `config.bias` is True. `config.dropout` acts on the
      attention weights. Where `config.position` is "rotary", queries and keys of each head, but not values, are
      turned by `apply_rotary` with the tables of `rotary_table(block_size, d_model / num_heads)`. These tables stay
      out of the state dict.
    - `mlp`: `SwiGLU`, or `linear1`, GELU, `linear2`, without dropout in between. This GELU is the approximation with
      tanh, `F.gelu(x, approximate="tanh")`; the linear maps have a bias where `config.bias` is True.

    Source: GPT-2, section 2.3; the tanh is from "Gaussian Error Linear Units" (Hendrycks and Gimpel, 2016), section 2.
    """

    def __init__(self, config: GPTConfig) -> None:
        """Make `norm1`, `attn`, `norm2` and `mlp` as `config` says."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """Run `x` through both branches; the first token of `x` stands at position 0. `x` is not modified."""
        raise NotImplementedError


class GPT(nn.Module):
    """A language model: token ids in, for every position the logits of the token that comes next out.

    Submodules: `token_embed`, `nn.Embedding`; `positions`, stage 3's `LearnedPositionalEncoding` with `block_size`
    rows, or None with rotary positions, which are the blocks' own affair; `blocks`, an `nn.ModuleList` of
    `num_layers` blocks, each with weights of its own; `norm`, one more norm after the last block, of the same kind
    as those inside; and `head`, an `nn.Linear` from `d_model` to `vocab_size`, without bias. `config` is kept too.

    Where `config.tie_weights` is True, `head.weight` is the parameter `token_embed.weight` itself, not a copy: a token
    is read and written with the same vector, and the model has `vocab_size * d_model` parameters less.

    Source: GPT-2, section 2.3; "Using the Output Embedding to Improve Language Models" (Press and Wolf, 2017).
    """

    def __init__(self, config: GPTConfig) -> None:
        """Make the submodules and give every parameter its first value.

        The weights of all linear maps and embeddings are normal with mean 0 and standard deviation 0.02, but those of
        the maps that end a branch (`w_o`, and `linear2` or `w_down`) have 0.02 / sqrt(2 * num_layers): so many
        branches are added up in the stream. Biases are 0, norms are as they are made.

        Source: GPT-2, section 2.3, for the factor; the 0.02 is that of its code.
        """
        raise NotImplementedError

    def forward(
        self, tokens: Int[Tensor, "batch seq"], targets: Int[Tensor, "batch seq"] | None = None
    ) -> tuple[Float[Tensor, "batch seq vocab_size"], Float[Tensor, ""] | None]:
        """Return `(logits, loss)`: logits of every position, and how well they foretell `targets`.

        Embeddings and learned positions are added, as they are and without a factor; dropout acts on the sum, or on
        the embeddings alone with rotary positions. Row i of the logits belongs to the token after tokens 0 ... i.

        `targets` are shifted already: `targets[:, i]` is the token that comes after `tokens[:, i]`. The loss is the
        mean cross-entropy over all of them; there is no padding here, and id 0 is a token like any other. Without
        targets the loss is None.

        Raises `ValueError`, naming both numbers, where there are more tokens than `block_size`.
        """
        raise NotImplementedError


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    """Put the weights of a Hugging Face GPT-2 into `model`, whose logits are then those of `transformers`.

    `state_dict` is that of a `GPT2LMHeadModel`, or of a `GPT2Model`, where the names lack "transformer." and there is
    no head: then the token embeddings are the head. With i the number of a layer, the names and shapes are:

        transformer.wte.weight                     (vocab_size, d_model)    the token embeddings
        transformer.wpe.weight                     (block_size, d_model)    the positions
        transformer.h.i.ln_1.weight, .bias         (d_model,)               the norm before the attention
        transformer.h.i.attn.c_attn.weight         (d_model, 3 * d_model)   queries, keys, values, side by side
        transformer.h.i.attn.c_attn.bias           (3 * d_model,)
        transformer.h.i.attn.c_proj.weight, .bias  (d_model, d_model)       the output of the attention
        transformer.h.i.ln_2.weight, .bias         (d_model,)               the norm before the feed-forward network
        transformer.h.i.mlp.c_fc.weight, .bias     (d_model, d_ff)          its first map
        transformer.h.i.mlp.c_proj.weight, .bias   (d_ff, d_model)          its second
        transformer.ln_f.weight, .bias             (d_model,)               the norm after the last layer
        lm_head.weight                             (vocab_size, d_model)    the head

    The four `c_` maps compute `x @ weight + bias`, with the weight lying the other way round than in `nn.Linear`.
    Old files also hold masks, `h.i.attn.bias` and `h.i.attn.masked_bias`; they are of no use here. How many heads
    there are stands nowhere in the weights, so `num_heads` has to be right by itself.

    Raises `ValueError`, and leaves the model as it was: where `model` is not made like GPT-2 (learned positions,
    layer norms, GELU, biases); where names are missing or left over, naming them; where a shape is not that of the
    model, naming both; and where `model` ties its weights but `lm_head.weight` is not `wte.weight`.
    """
    raise NotImplementedError
