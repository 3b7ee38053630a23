"""A GPT written down plainly, without a cache: what should be written, and what known mistakes write."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

VOCAB, D_MODEL, HEADS, LAYERS, D_FF = 13, 24, 3, 2, 40
D_K = D_MODEL // HEADS

Row = list[int]

LEARNED = {"position": "learned", "norm": "layer", "mlp": "gelu"}
ROTARY = {"position": "rotary", "norm": "rms", "mlp": "swiglu", "bias": False}


@dataclass
class TinyGPT:
    """A GPT in the worker, and its weights here."""

    handle: Any
    weights: dict[str, Tensor]
    block_size: int
    kind: dict[str, Any] = field(default_factory=lambda: LEARNED)
    layers: int = LAYERS

    @property
    def rotary(self) -> bool:
        """Whether positions are rotations."""
        return self.kind["position"] == "rotary"

    def linear(self, x: Tensor, name: str) -> Tensor:
        """A linear map, with a bias where there is one."""
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Layer norm or RMS norm."""
        weight = self.weights[f"{name}.weight"]
        if self.kind["norm"] == "rms":
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
        return F.layer_norm(x, (D_MODEL,), weight, self.weights.get(f"{name}.bias"))

    def last_logits(
        self,
        tokens: Row,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        turns: int = 1,
    ) -> Tensor:
        """The logits after `tokens`. Keys are turned `turns` times where positions are rotations."""
        length = len(tokens)
        place = torch.arange(length) if positions is None else positions
        allowed = causal(length) if mask is None else mask
        x = self.weights["token_embed.weight"][torch.tensor(tokens)]
        if not self.rotary:
            x = x + self.weights["positions.embedding.weight"][place]
        for index in range(self.layers):
            block = f"blocks.{index}"
            normed = self.norm(x, f"{block}.norm1")
            query, key, value = (
                self.linear(normed, f"{block}.attn.{name}").unflatten(-1, (HEADS, D_K)).transpose(0, 1)
                for name in ("w_q", "w_k", "w_v")
            )
            if self.rotary:
                query = turned(query, place)
                for _ in range(turns):
                    key = turned(key, place)
            scores = query @ key.mT / math.sqrt(D_K)
            found = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1) @ value
            x = x + self.linear(found.transpose(0, 1).flatten(1), f"{block}.attn.w_o")
            x = x + self.feed_forward(self.norm(x, f"{block}.norm2"), f"{block}.mlp")
        return self.linear(self.norm(x[-1], "norm"), "head")

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        """GELU or SwiGLU."""
        if self.kind["mlp"] == "swiglu":
            hidden = F.silu(self.linear(x, f"{name}.w_gate")) * self.linear(x, f"{name}.w_up")
            return self.linear(hidden, f"{name}.w_down")
        return self.linear(F.gelu(self.linear(x, f"{name}.linear1"), approximate="tanh"), f"{name}.linear2")


def causal(length: int) -> Tensor:
    """The causal mask (length, length)."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def turned(x: Tensor, place: Tensor) -> Tensor:
    """Rotates the pairs (i, i + d_k/2) of (heads, length, d_k)."""
    frequencies = 10000.0 ** (-torch.arange(0, D_K, 2, dtype=x.dtype) / D_K)
    angles = place[:, None] * frequencies
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def tiny_gpt(
    submission: Any, draw: Any, kind: dict[str, Any], block_size: int = 16, layers: int = LAYERS
) -> TinyGPT:
    """A random GPT."""
    sizes = {
        "vocab_size": VOCAB,
        "block_size": block_size,
        "d_model": D_MODEL,
        "num_heads": HEADS,
        "d_ff": D_FF,
    }
    model = submission.probes.gpt(**sizes, num_layers=layers, tie_weights=False, **kind)
    model.to(submission.device, draw.exact)
    shapes = dict(model.shapes())
    weights = draw.weights(shapes, draw.exact)
    for name in weights:
        if name.endswith(("w_q.weight", "w_k.weight", "w_o.weight")):
            weights[name] *= 2  # attention that matters, so that a wrong one shows
    model.load_state_dict(weights)
    model.eval()
    return TinyGPT(model, weights, block_size, kind, layers)


# What is written


def write(gpt: TinyGPT, row: Row, new: int, logits: Any = None) -> tuple[Row, float]:
    """`new` likeliest tokens after `row`, and by how much the closest of them was ahead of the second."""
    tokens, margin = list(row), math.inf
    for _ in range(new):
        if logits is None:
            found = gpt.last_logits(tokens[-gpt.block_size :])
        else:
            found = logits(tokens)
        (first, second), indices = found.topk(2)
        margin = min(margin, float(first - second))
        tokens.append(int(indices[0]))
    return tokens, margin


def ways(gpt: TinyGPT, padding: int, prompt: Row, pad_id: int) -> dict[str, list[Any]]:
    """By code of a mistake: functions from the tokens of a row, without padding, to logits."""
    prompt_len = len(prompt)

    def not_advanced(start: int) -> Any:
        def logits(tokens: Row) -> Tensor:
            place = torch.arange(len(tokens))
            place[prompt_len:] = place[prompt_len:] - prompt_len + start if start else 0
            return gpt.last_logits(tokens, place)

        return logits

    def open_prompt(tokens: Row) -> Tensor:
        mask = causal(len(tokens))
        mask[:prompt_len, :prompt_len] = True
        return gpt.last_logits(tokens, mask=mask)

    def with_padding(see: bool, count: bool) -> Any:
        def logits(tokens: Row) -> Tensor:
            place = torch.arange(padding + len(tokens))
            mask = causal(len(place)) & (see | (place >= padding))
            return gpt.last_logits(
                [pad_id] * padding + tokens, place if count else (place - padding).clamp(min=0), mask
            )

        return logits

    def later_is_padding(count: bool) -> Any:
        def logits(tokens: Row) -> Tensor:
            every = torch.tensor([pad_id] * padding + tokens)
            place = torch.arange(len(every))
            # Counted, all pad_ids of the prompt stand at its beginning; else each is hidden where it stands.
            pads = padding + prompt.count(pad_id) if count else padding
            real = place >= pads if count else every != pad_id
            return gpt.last_logits(every.tolist(), (place - pads).clamp(min=0), causal(len(every)) & real)

        return logits

    found: dict[str, list[Any]] = {"causal-mask-missing-in-prompt": [open_prompt]}
    if gpt.rotary:
        found["rotated-again"] = [lambda tokens: gpt.last_logits(tokens, turns=2)]
    if padding == 0:
        found["position-not-advanced"] = [
            not_advanced(0),
            not_advanced(prompt_len - 1),
            not_advanced(prompt_len + 1),
        ]
    found["padding-attended"] = [with_padding(True, False), with_padding(True, True)]
    if not gpt.rotary:
        found["positions-count-padding"] = [with_padding(False, True)]
    found["later-pad-hidden"] = [later_is_padding(True), later_is_padding(False)]
    return found
