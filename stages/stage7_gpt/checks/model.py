"""What a GPT should compute, and what it computes with one known flaw: functions of weights, in the widest float type.

Weights have the names of the contract. The functions are PyTorch's own (`F.scaled_dot_product_attention` among them).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Settings:
    """The arguments of a `GPTConfig`, with sizes that all differ; without changes it is a GPT-2."""

    vocab_size: int = 17
    block_size: int = 11
    d_model: int = 12
    num_heads: int = 3
    num_layers: int = 2
    d_ff: int | None = None
    dropout: float = 0.0
    position: str = "learned"
    norm: str = "layer"
    mlp: str = "gelu"
    bias: bool = True
    tie_weights: bool = True

    def but(self, **changes: Any) -> Settings:
        return replace(self, **changes)

    def arguments(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def hidden(self) -> int:
        return self.d_ff or 4 * self.d_model


GPT2 = Settings()
LLAMA = Settings(d_ff=20, position="rotary", norm="rms", mlp="swiglu", bias=False, tie_weights=False)
# What neither of them is: rotary positions with layer norms and biases, and the other way round.
MIXED = Settings(d_ff=14, position="rotary", tie_weights=False)
MIXED_TOO = Settings(num_layers=3, norm="rms", mlp="swiglu", bias=False)
ALL = (GPT2, LLAMA, MIXED, MIXED_TOO)


# Names and shapes


def block_shapes(settings: Settings) -> Shapes:
    d_model, hidden = settings.d_model, settings.hidden
    shapes: Shapes = {}

    def linear(name: str, rows: int, columns: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (rows, columns)
        if bias:
            shapes[f"{name}.bias"] = (rows,)

    for name in ("norm1", "norm2"):
        shapes.update(norm_shapes(name, settings))
    for name in ("w_q", "w_k", "w_v", "w_o"):
        linear(f"attn.{name}", d_model, d_model, settings.bias)
    if settings.mlp == "swiglu":
        linear("mlp.w_gate", hidden, d_model, False)
        linear("mlp.w_up", hidden, d_model, False)
        linear("mlp.w_down", d_model, hidden, False)
    else:
        linear("mlp.linear1", hidden, d_model, settings.bias)
        linear("mlp.linear2", d_model, hidden, settings.bias)
    return shapes


def norm_shapes(name: str, settings: Settings) -> Shapes:
    shapes = {f"{name}.weight": (settings.d_model,)}
    if settings.norm == "layer" and settings.bias:
        shapes[f"{name}.bias"] = (settings.d_model,)
    return shapes


def gpt_shapes(settings: Settings) -> Shapes:
    matrix = (settings.vocab_size, settings.d_model)
    shapes: Shapes = {"token_embed.weight": matrix, "head.weight": matrix, **norm_shapes("norm", settings)}
    if settings.position == "learned":
        shapes["positions.embedding.weight"] = (settings.block_size, settings.d_model)
    for index in range(settings.num_layers):
        for name, shape in block_shapes(settings).items():
            shapes[f"blocks.{index}.{name}"] = shape
    return shapes


def parameter_count(settings: Settings) -> int:
    """The closed form, with every shared number counted once."""
    d, hidden = settings.d_model, settings.hidden
    biases = settings.bias
    norm = d * (1 + (settings.norm == "layer" and biases))
    attention = 4 * d * d + 4 * d * biases
    mlp = 3 * d * hidden if settings.mlp == "swiglu" else 2 * d * hidden + (d + hidden) * biases
    positions = settings.block_size * d * (settings.position == "learned")
    heads = settings.vocab_size * d * (1 if settings.tie_weights else 2)
    return settings.num_layers * (2 * norm + attention + mlp) + norm + positions + heads


def part(weights: Weights, prefix: str) -> Weights:
    """The weights of one submodule, under their own names."""
    return {
        name[len(prefix) + 1 :]: value for name, value in weights.items() if name.startswith(prefix + ".")
    }


# The model


class Flaw(NamedTuple):
    """How a GPT is built; the defaults are right."""

    rms: str = ""  # "centred", "sum" or "eps outside"
    gate: str = ""  # "product" or "up"
    gelu: str = "tanh"
    causal: bool = True
    order: str = "pre"
    turned: str = "qk"  # what rotary positions turn
    embedding_scale: bool = False
    final_norm: bool = True


SOUND = Flaw()

FLAWS: dict[str, list[Flaw]] = {
    "gpt-not-causal": [Flaw(causal=False)],
    "gpt-post-norm": [Flaw(order="post"), Flaw(order="post", final_norm=False)],
    "gpt-gelu-exact": [Flaw(gelu="none")],
    "gpt-rotary-on-values": [Flaw(turned="qkv")],
    "gpt-embedding-scaled": [Flaw(embedding_scale=True)],
    "gpt-final-norm-missing": [Flaw(final_norm=False)],
    "rms-mean-subtracted": [Flaw(rms="centred")],
    "rms-sum": [Flaw(rms="sum")],
    "rms-eps-outside": [Flaw(rms="eps outside")],
    "swiglu-silu-of-product": [Flaw(gate="product")],
    "swiglu-silu-on-up": [Flaw(gate="up")],
}


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6, flaw: str = "") -> Tensor:
    if flaw == "centred":
        x = x - x.mean(-1, keepdim=True)
    square = x.square().sum(-1, keepdim=True) if flaw == "sum" else x.square().mean(-1, keepdim=True)
    root = square.sqrt() + eps if flaw == "eps outside" else (square + eps).sqrt()
    return x / root * weight


def swiglu(weights: Weights, x: Tensor, flaw: str = "") -> Tensor:
    gate, up = F.linear(x, weights["w_gate.weight"]), F.linear(x, weights["w_up.weight"])
    hidden = {
        "": lambda: F.silu(gate) * up,
        "product": lambda: F.silu(gate * up),
        "up": lambda: gate * F.silu(up),
    }[flaw]()
    return F.linear(hidden, weights["w_down.weight"])


def norm(weights: Weights, x: Tensor, settings: Settings, flaw: Flaw) -> Tensor:
    if settings.norm == "rms":
        return rms_norm(x, weights["weight"], flaw=flaw.rms)
    return F.layer_norm(x, x.shape[-1:], weights["weight"], weights.get("bias"))


def turn(x: Tensor) -> Tensor:
    """Rotary positions, half-split: (batch, heads, seq, d_k)."""
    seq, d_k = x.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    angles = (torch.arange(seq, dtype=torch.float64)[:, None] * rates).to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat(
        (first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()), -1
    )


def attention(weights: Weights, x: Tensor, settings: Settings, flaw: Flaw) -> Tensor:
    def heads(name: str) -> Tensor:
        projected = F.linear(x, weights[f"w_{name}.weight"], weights.get(f"w_{name}.bias"))
        projected = projected.unflatten(-1, (settings.num_heads, -1)).transpose(1, 2)
        return turn(projected) if settings.position == "rotary" and name in flaw.turned else projected

    found = F.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), is_causal=flaw.causal)
    return F.linear(found.transpose(1, 2).flatten(2), weights["w_o.weight"], weights.get("w_o.bias"))


def feed(weights: Weights, x: Tensor, settings: Settings, flaw: Flaw) -> Tensor:
    if settings.mlp == "swiglu":
        return swiglu(weights, x, flaw.gate)
    hidden = F.linear(x, weights["linear1.weight"], weights.get("linear1.bias"))
    hidden = F.gelu(hidden, approximate=flaw.gelu)
    return F.linear(hidden, weights["linear2.weight"], weights.get("linear2.bias"))


def run_block(weights: Weights, settings: Settings, x: Tensor, flaw: Flaw = SOUND) -> Tensor:
    """What a block gives for `x` (batch, seq, d_model)."""
    for norm_name, name, branch in (("norm1", "attn", attention), ("norm2", "mlp", feed)):
        own, scale = part(weights, name), part(weights, norm_name)
        if flaw.order == "pre":
            x = x + branch(own, norm(scale, x, settings, flaw), settings, flaw)
        else:
            x = norm(scale, x + branch(own, x, settings, flaw), settings, flaw)
    return x


def run_gpt(weights: Weights, settings: Settings, tokens: Tensor, flaw: Flaw = SOUND) -> Tensor:
    """The logits (batch, seq, vocab_size)."""
    x = weights["token_embed.weight"][tokens]
    if flaw.embedding_scale:
        x = x * math.sqrt(settings.d_model)
    if settings.position == "learned":
        x = x + weights["positions.embedding.weight"][: tokens.shape[1]]
    for index in range(settings.num_layers):
        x = run_block(part(weights, f"blocks.{index}"), settings, x, flaw)
    if flaw.final_norm:
        x = norm(part(weights, "norm"), x, settings, flaw)
    return x @ weights["head.weight"].T
