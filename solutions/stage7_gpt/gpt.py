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
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise the last axis of `x`, whatever axes stand before it.

        The result has the dtype of `x`, which is not modified. In float16 the square of 256 is infinite already, so
        for float16 and bfloat16 the squares and their mean are taken in float32.
        """
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # float64 stays float64
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normed = wide * torch.rsqrt(mean_square + self.eps)  # rsqrt(v) is 1 / sqrt(v)
        return normed.to(x.dtype) * self.weight  # (..., d_model) times (d_model,)


class SwiGLU(nn.Module):
    """A feed-forward network with a gate: `w_down(silu(w_gate(x)) * w_up(x))`.

    Where `FeedForward` has one map into `d_ff` features and an activation, this has two maps of equal shape. One,
    activated by `silu(z) = z * sigmoid(z)`, says how much of the other goes through, feature by feature.

    Source: "GLU Variants Improve Transformer" (Shazeer, 2020), equation 6.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Make `w_gate` and `w_up`, from `d_model` to `d_ff`, and `w_down`, back again: linear maps without bias."""
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Widen twice, gate, narrow again; every position by itself."""
        hidden = F.silu(self.w_gate(x)) * self.w_up(x)  # (..., d_ff)
        return self.w_down(hidden)  # (..., d_model)


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
        for name in ("vocab_size", "block_size", "d_model", "num_heads", "num_layers", "d_ff"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, and should be at least 1")
        if self.d_model % self.num_heads != 0:
            raise ValueError(
                f"d_model = {self.d_model} cannot be shared out among num_heads = {self.num_heads} heads"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, and should be from 0 to below 1")
        words = {"position": ("learned", "rotary"), "norm": ("layer", "rms"), "mlp": ("gelu", "swiglu")}
        for name, (first, second) in words.items():
            value = getattr(self, name)
            if value not in (first, second):
                raise ValueError(f'{name} is {value!r}, and should be "{first}" or "{second}"')
        d_k = self.d_model // self.num_heads
        if self.position == "rotary" and d_k % 2 != 0:
            raise ValueError(
                f"with rotary positions d_model / num_heads should be even; {self.d_model} / {self.num_heads} = {d_k}"
            )


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
        super().__init__()
        self.norm1 = _make_norm(config)
        self.attn = _CausalSelfAttention(config)
        self.norm2 = _make_norm(config)
        d_ff = config.d_ff or 4 * config.d_model
        self.mlp = SwiGLU(config.d_model, d_ff) if config.mlp == "swiglu" else _GeluMLP(config, d_ff)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        """Run `x` through both branches; the first token of `x` stands at position 0. `x` is not modified."""
        x = x + self.dropout(self.attn(self.norm1(x)))  # (batch, seq, d_model)
        return x + self.dropout(self.mlp(self.norm2(x)))  # (batch, seq, d_model)


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
        super().__init__()
        self.config = config
        self.token_embed = nn.Embedding(config.vocab_size, config.d_model)
        learned = config.position == "learned"
        self.positions = LearnedPositionalEncoding(config.d_model, config.block_size) if learned else None
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = _make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.head.weight = self.token_embed.weight
        self._init_weights()

    def _init_weights(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for name, parameter in self.named_parameters():
            if name.endswith(("w_o.weight", "linear2.weight", "w_down.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.num_layers))

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
        if tokens.size(1) > self.config.block_size:
            raise ValueError(
                f"{tokens.size(1)} tokens are more than the block_size = {self.config.block_size} of this model"
            )
        x = self.token_embed(tokens)  # (batch, seq, d_model)
        if self.positions is not None:
            x = self.positions(x)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))  # (batch, seq, vocab_size)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


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
    config = model.config
    kinds = (config.position, config.norm, config.mlp, config.bias)
    if kinds != ("learned", "layer", "gelu", True):
        raise ValueError(
            'GPT-2 has position="learned", norm="layer", mlp="gelu", bias=True; this model has '
            f"position={config.position!r}, norm={config.norm!r}, mlp={config.mlp!r}, bias={config.bias}"
        )
    found = {name.removeprefix("transformer."): value for name, value in state_dict.items()}
    found = {
        name: value for name, value in found.items() if not name.endswith((".attn.bias", ".masked_bias"))
    }
    if "lm_head.weight" not in found and "wte.weight" in found:
        found["lm_head.weight"] = found["wte.weight"]
    if config.tie_weights and not _is_tied(found):
        raise ValueError(
            "lm_head.weight is not wte.weight in this state dict, but the model has tie_weights=True; "
            "make it with tie_weights=False"
        )
    weights = _renamed(found, config.num_layers)
    for name, value in model.state_dict().items():
        if weights[name].shape != value.shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} in this model, and {tuple(weights[name].shape)} in the state "
                "dict; make the model with the sizes that the weights have"
            )
    model.load_state_dict(weights)


# What load_gpt2 needs

_GPT2_NAMES = {  # ours: theirs, in each layer
    "norm1": "ln_1",
    "attn.w_o": "attn.c_proj",
    "norm2": "ln_2",
    "mlp.linear1": "mlp.c_fc",
    "mlp.linear2": "mlp.c_proj",
}


def _is_tied(found: dict[str, Tensor]) -> bool:
    if "wte.weight" not in found:
        return True  # `_renamed` says that it is missing
    return torch.equal(found["lm_head.weight"], found["wte.weight"])


def _renamed(found: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """Give GPT-2's tensors the names, and the orientation, that they have in this file."""
    remaining = dict(found)

    def take(name: str) -> Tensor:
        if name not in remaining:
            raise ValueError(f"the state dict lacks {name}, which a GPT-2 of {num_layers} layers has")
        return remaining.pop(name)

    weights = {"token_embed.weight": take("wte.weight"), "positions.embedding.weight": take("wpe.weight")}
    for i in range(num_layers):
        for kind in ("weight", "bias"):
            # Side by side means one after the other on the last axis, of the weight and of the bias.
            thirds = take(f"h.{i}.attn.c_attn.{kind}").tensor_split(3, dim=-1)
            for name, third in zip(("w_q", "w_k", "w_v"), thirds):
                weights[f"blocks.{i}.attn.{name}.{kind}"] = third.mT if kind == "weight" else third
            for ours, theirs in _GPT2_NAMES.items():
                value = take(f"h.{i}.{theirs}.{kind}")
                weights[f"blocks.{i}.{ours}.{kind}"] = value.mT if value.dim() == 2 else value
    weights |= {"norm.weight": take("ln_f.weight"), "norm.bias": take("ln_f.bias")}
    weights |= {"head.weight": take("lm_head.weight")}
    if remaining:
        raise ValueError(f"a GPT-2 of {num_layers} layers does not have {', '.join(remaining)}")
    return weights


# What the classes above are made of


def _make_norm(config: GPTConfig) -> nn.Module:
    if config.norm == "rms":
        return RMSNorm(config.d_model)
    # PyTorch's own: it does what yours of stage 4 does, faster, and can be without a bias.
    return nn.LayerNorm(config.d_model, bias=config.bias)


class _CausalSelfAttention(nn.Module):
    """Stage 2's attention of a text with itself, that cannot look ahead; with rotary positions if so wanted."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.w_q = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.w_k = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.w_v = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.w_o = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)
        self.rotary = config.position == "rotary"
        if self.rotary:
            cos, sin = rotary_table(config.block_size, config.d_model // config.num_heads)
            # Buffers follow the model to its device; they can be made anew at any time, so they are not saved.
            self.register_buffer("cos", cos, persistent=False)  # (block_size, d_k/2)
            self.register_buffer("sin", sin, persistent=False)  # (block_size, d_k/2)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        query = split_heads(self.w_q(x), self.num_heads)  # (batch, heads, seq, d_k)
        key = split_heads(self.w_k(x), self.num_heads)  # (batch, heads, seq, d_k)
        value = split_heads(self.w_v(x), self.num_heads)  # (batch, heads, seq, d_k)
        if self.rotary:
            query = apply_rotary(query, self.cos, self.sin)
            key = apply_rotary(key, self.cos, self.sin)
        # Stage 1's attention, with dropout inside. Minus infinity is safe here: every position sees itself, so no row
        # is empty. Dividing the queries is less work than dividing the scores, and comes to the same.
        scores = query / math.sqrt(query.size(-1)) @ key.mT  # (batch, heads, seq, seq)
        scores = torch.where(causal_mask(x.size(1), x.device), scores, -torch.inf)
        weights = self.dropout(scores.softmax(dim=-1))  # (batch, heads, seq, seq)
        heads = weights @ value  # (batch, heads, seq, d_k)
        return self.w_o(merge_heads(heads))  # (batch, seq, d_model)


class _GeluMLP(nn.Module):
    def __init__(self, config: GPTConfig, d_ff: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.d_model, d_ff, bias=config.bias)
        self.linear2 = nn.Linear(d_ff, config.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        return self.linear2(F.gelu(self.linear1(x), approximate="tanh"))  # (batch, seq, d_model)
