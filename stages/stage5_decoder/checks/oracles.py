"""Right answers from PyTorch's own layers, for the checks of this stage.

Weights are state dicts with the names of the contract; `torch_state` renames them for PyTorch. Masks are
those of the course, True = may attend; `torch_mask` turns them over.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Shapes = dict[str, tuple[int, ...]]
Weights = dict[str, Tensor]


# Names and shapes of the contract --------------------------------------------------------------------------


def under(prefix: str, shapes: Shapes) -> Shapes:
    """The same shapes, one level down."""
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def linear_shapes(rows: int, columns: int) -> Shapes:
    return {"weight": (rows, columns), "bias": (rows,)}


def norm_shapes(d_model: int) -> Shapes:
    return {"weight": (d_model,), "bias": (d_model,)}


def layer_shapes(d_model: int, d_ff: int, cross: bool) -> Shapes:
    """A decoder layer, or an encoder layer (`cross=False`)."""
    shapes: Shapes = {}
    for attention in ("self_attn", "cross_attn") if cross else ("self_attn",):
        for projection in ("w_q", "w_k", "w_v", "w_o"):
            shapes |= under(f"{attention}.{projection}", linear_shapes(d_model, d_model))
    shapes |= under("feed_forward.linear1", linear_shapes(d_ff, d_model))
    shapes |= under("feed_forward.linear2", linear_shapes(d_model, d_ff))
    for norm in ("norm1", "norm2", "norm3") if cross else ("norm1", "norm2"):
        shapes |= under(norm, norm_shapes(d_model))
    return shapes


def stack_shapes(num_layers: int, d_model: int, d_ff: int, norm_first: bool, cross: bool) -> Shapes:
    """A decoder, or an encoder (`cross=False`)."""
    shapes: Shapes = {}
    for index in range(num_layers):
        shapes |= under(f"layers.{index}", layer_shapes(d_model, d_ff, cross))
    return shapes | under("norm", norm_shapes(d_model)) if norm_first else shapes


def sinusoidal_table(length: int, d_model: int) -> Tensor:
    """The table of stage 3, in float64: (1, length, d_model)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((torch.sin(position * rates), torch.cos(position * rates)), -1).reshape(
        1, length, d_model
    )


# From the contract's names to PyTorch's --------------------------------------------------------------------


def part(weights: Weights, prefix: str) -> Weights:
    """The weights of one submodule, under their own names."""
    return {
        name[len(prefix) + 1 :]: value for name, value in weights.items() if name.startswith(prefix + ".")
    }


def torch_state(weights: Weights) -> Weights:
    """The state dict of PyTorch's encoder or decoder, or of one layer, with the same weights.

    PyTorch stacks w_q, w_k and w_v into `in_proj`, and calls w_o `out_proj`, cross_attn `multihead_attn`.
    """
    state: Weights = {}
    for name, value in weights.items():
        name = (
            name.replace("cross_attn.", "multihead_attn.")
            .replace("feed_forward.", "")
            .replace("w_o.", "out_proj.")
        )
        if ".w_q." in name:
            three = [weights[key] for key in in_projection(name)]
            state[name.replace("w_q.", "in_proj_")] = torch.cat(three)
        elif ".w_k." not in name and ".w_v." not in name:
            state[name] = value
    return state


def in_projection(name: str) -> list[str]:
    """The contract's names of the three matrices (or biases) that PyTorch stacks; `name` is that of w_q."""
    own = name.replace("multihead_attn.", "cross_attn.")
    return [own.replace(".w_q.", f".{projection}.") for projection in ("w_q", "w_k", "w_v")]


def torch_mask(mask: Tensor | None, num_heads: int, batch: int, q_len: int, k_len: int) -> Tensor | None:
    """PyTorch's mask, True = may NOT attend, (batch * heads, q_len, k_len)."""
    if mask is None:
        return None
    return ~mask.bool().expand(batch, num_heads, q_len, k_len).reshape(batch * num_heads, q_len, k_len)


def torch_decoder_layer(
    weights: Weights, num_heads: int, norm_first: bool, activation: str = "relu"
) -> nn.TransformerDecoderLayer:
    """`nn.TransformerDecoderLayer` with these weights, in eval mode."""
    d_ff, d_model = weights["feed_forward.linear1.weight"].shape
    layer = nn.TransformerDecoderLayer(
        d_model, num_heads, d_ff, 0.0, activation, batch_first=True, norm_first=norm_first
    )
    layer = layer.to(weights["norm1.weight"].dtype).eval()
    layer.load_state_dict(torch_state(weights))
    return layer


class TorchDecoder:
    """`nn.TransformerDecoder`, or one layer of it, with given weights and the course's masks."""

    def __init__(self, weights: Weights, num_heads: int, norm_first: bool, activation: str = "relu") -> None:
        self.num_heads = num_heads
        if "norm1.weight" in weights:
            self.module: nn.Module = torch_decoder_layer(weights, num_heads, norm_first, activation)
            return
        count = count_layers(weights)
        first = torch_decoder_layer(part(weights, "layers.0"), num_heads, norm_first, activation)
        norm = nn.LayerNorm(first.linear1.in_features).to(first.linear1.weight.dtype) if norm_first else None
        self.module = nn.TransformerDecoder(first, count, norm).eval()
        self.module.load_state_dict(torch_state(weights))

    def __call__(
        self, x: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        batch, tgt_len, _ = x.shape
        with torch.no_grad():
            output: Tensor = self.module(
                x,
                memory,
                torch_mask(tgt_mask, self.num_heads, batch, tgt_len, tgt_len),
                torch_mask(memory_mask, self.num_heads, batch, tgt_len, memory.shape[1]),
            )
        return output


class TorchEncoder:
    """`nn.TransformerEncoder` with given weights and the course's masks."""

    def __init__(self, weights: Weights, num_heads: int, norm_first: bool) -> None:
        self.num_heads = num_heads
        d_ff, d_model = weights["layers.0.feed_forward.linear1.weight"].shape
        layer = nn.TransformerEncoderLayer(
            d_model, num_heads, d_ff, 0.0, batch_first=True, norm_first=norm_first
        )
        norm = nn.LayerNorm(d_model) if norm_first else None
        module = nn.TransformerEncoder(layer, count_layers(weights), norm, enable_nested_tensor=False)
        self.module = module.to(weights["layers.0.norm1.weight"].dtype).eval()
        self.module.load_state_dict(torch_state(weights))

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, _ = x.shape
        # With gradients on, PyTorch takes its plain path: the fast one reads masks in ways of its own.
        output: Tensor = self.module(x, torch_mask(mask, self.num_heads, batch, length, length))
        return output.detach()


def count_layers(weights: Weights) -> int:
    """How many layers a stack has."""
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))
