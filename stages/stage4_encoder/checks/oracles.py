"""Right answers: PyTorch's own layers, holding the weights of a submission.

The contract's names are on one side, PyTorch's on the other:

    self_attn.w_q, w_k, w_v   self_attn.in_proj (one above the other)
    self_attn.w_o             self_attn.out_proj
    feed_forward.linear1, 2   linear1, linear2
    norm1, norm2              norm1, norm2
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call

Weights = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an encoder layer is built with."""

    d_model: int
    num_heads: int
    d_ff: int
    norm_first: bool = True
    activation: str = "relu"

    @property
    def order(self) -> str:
        """The order of the norms, in words."""
        return "pre-norm" if self.norm_first else "post-norm"


def layer_norm_shapes(d_model: int) -> Shapes:
    """The state dict of a `LayerNorm`."""
    return {"weight": (d_model,), "bias": (d_model,)}


def feed_forward_shapes(d_model: int, d_ff: int) -> Shapes:
    """The state dict of a `FeedForward`."""
    return {
        "linear1.weight": (d_ff, d_model),
        "linear1.bias": (d_ff,),
        "linear2.weight": (d_model, d_ff),
        "linear2.bias": (d_model,),
    }


def layer_shapes(settings: Settings) -> Shapes:
    """The state dict of an `EncoderLayer`."""
    d_model = settings.d_model
    shapes: Shapes = {}
    for projection in ("w_q", "w_k", "w_v", "w_o"):
        shapes[f"self_attn.{projection}.weight"] = (d_model, d_model)
        shapes[f"self_attn.{projection}.bias"] = (d_model,)
    for name, shape in feed_forward_shapes(d_model, settings.d_ff).items():
        shapes[f"feed_forward.{name}"] = shape
    for norm in ("norm1", "norm2"):
        shapes |= {f"{norm}.{name}": shape for name, shape in layer_norm_shapes(d_model).items()}
    return shapes


def encoder_shapes(num_layers: int, settings: Settings) -> Shapes:
    """The state dict of an `Encoder`."""
    shapes = {
        f"layers.{index}.{name}": shape
        for index in range(num_layers)
        for name, shape in layer_shapes(settings).items()
    }
    if settings.norm_first:
        shapes |= {f"norm.{name}": shape for name, shape in layer_norm_shapes(settings.d_model).items()}
    return shapes


def part(weights: Weights, prefix: str) -> Weights:
    """The weights below a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in weights.items() if name.startswith(prefix)}


def layer_to_torch(weights: Weights) -> Weights:
    """The weights of an `EncoderLayer`, under the names of `nn.TransformerEncoderLayer`."""
    named: Weights = {}
    for kind in ("weight", "bias"):
        projections = [weights[f"self_attn.{projection}.{kind}"] for projection in ("w_q", "w_k", "w_v")]
        named[f"self_attn.in_proj_{kind}"] = torch.cat(projections)
        named[f"self_attn.out_proj.{kind}"] = weights[f"self_attn.w_o.{kind}"]
        for linear in ("linear1", "linear2"):
            named[f"{linear}.{kind}"] = weights[f"feed_forward.{linear}.{kind}"]
        for norm in ("norm1", "norm2"):
            named[f"{norm}.{kind}"] = weights[f"{norm}.{kind}"]
    return named


def number_of_layers(weights: Weights) -> int:
    """How many layers the weights of an `Encoder` are for."""
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))


def encoder_to_torch(weights: Weights) -> Weights:
    """The weights of an `Encoder`, under the names of `nn.TransformerEncoder`."""
    named = {
        f"layers.{index}.{name}": value
        for index in range(number_of_layers(weights))
        for name, value in layer_to_torch(part(weights, f"layers.{index}.")).items()
    }
    named |= {name: value for name, value in weights.items() if name.startswith("norm.")}
    return named


def torch_mask(mask: Tensor | None, x: Tensor, num_heads: int) -> Tensor | None:
    """A mask of this course as PyTorch wants it: one for each batch entry and head, True = hidden."""
    if mask is None:
        return None
    batch, seq, _ = x.shape
    may_attend = mask.bool().expand(batch, num_heads, seq, seq)
    return ~may_attend.reshape(batch * num_heads, seq, seq)


@lru_cache
def _torch_layer(settings: Settings, dtype: torch.dtype) -> nn.TransformerEncoderLayer:
    """PyTorch's layer, in training mode with dropout 0: in eval mode it would take a fused shortcut.

    Its own weights are never used, so one for each kind is enough.
    """
    return nn.TransformerEncoderLayer(
        settings.d_model,
        settings.num_heads,
        settings.d_ff,
        dropout=0.0,
        activation=settings.activation,
        batch_first=True,
        norm_first=settings.norm_first,
        dtype=dtype,
    ).train()


@lru_cache
def _torch_encoder(settings: Settings, num_layers: int, dtype: torch.dtype) -> nn.TransformerEncoder:
    """PyTorch's stack of such layers, with a last norm when they are pre-norm."""
    norm = nn.LayerNorm(settings.d_model, dtype=dtype) if settings.norm_first else None
    layer = _torch_layer(settings, dtype)
    return nn.TransformerEncoder(layer, num_layers, norm, enable_nested_tensor=False).train()


def torch_layer(x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None) -> Tensor:
    """What `nn.TransformerEncoderLayer` makes of `x`; gradients reach `weights` under the contract's names."""
    attn_mask = torch_mask(mask, x, settings.num_heads)
    layer = _torch_layer(settings, x.dtype)
    return functional_call(layer, layer_to_torch(weights), (x,), {"src_mask": attn_mask})


def torch_encoder(x: Tensor, weights: Weights, settings: Settings, mask: Tensor | None = None) -> Tensor:
    """What `nn.TransformerEncoder` makes of `x`; gradients reach `weights` under the contract's names."""
    attn_mask = torch_mask(mask, x, settings.num_heads)
    encoder = _torch_encoder(settings, number_of_layers(weights), x.dtype)
    return functional_call(encoder, encoder_to_torch(weights), (x,), {"mask": attn_mask})


def leaves(weights: Weights) -> Weights:
    """Copies that collect gradients."""
    return {name: value.clone().requires_grad_() for name, value in weights.items()}


def parameter_gradients(output: Tensor, cotangent: Tensor, weights: Weights) -> Weights:
    """The gradient of `(output * cotangent).sum()` for each of the leaves `weights`."""
    gradients = torch.autograd.grad((output * cotangent).sum(), list(weights.values()))
    return dict(zip(weights, gradients, strict=True))
