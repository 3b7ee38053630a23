"""A GPT that writes with a cache and nothing else: no modules, no checks, no masks. As fast as plain operators go."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Weights = tuple[Tensor, ...]


class BareGPT:
    """The weights of a GPT with learned positions, layer norms and GELU, and room for one text's keys and values."""

    def __init__(self, model: nn.Module) -> None:
        config = model.config
        self._heads = config.num_heads
        self._d_k = config.d_model // config.num_heads
        self._tokens = model.token_embed.weight
        self._positions = model.positions.embedding.weight
        self._layers = [weights(block) for block in model.blocks]
        self._norm = (model.norm.weight, model.norm.bias, model.norm.eps)
        self._head = model.head.weight
        self._room = config.block_size

    @torch.inference_mode()
    def write(self, prompt: Tensor, new: int) -> Tensor:
        """Go on with one prompt, (1, length), the likeliest token each time."""
        shape = (self._heads, self._room, self._d_k)
        caches = [(torch.empty(shape), torch.empty(shape)) for _ in self._layers]
        text = prompt[0].tolist()
        for position in range(len(text) + new - 1):
            logits = self._step(text[position], position, caches)  # (1, vocab)
            if position + 1 == len(text):
                text.append(int(logits.argmax()))
        return torch.tensor([text])

    def _step(self, token: int, position: int, caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        x = (self._tokens[token] + self._positions[position])[None]  # (1, d_model)
        scale = 1 / math.sqrt(self._d_k)
        for layer, (keys, values) in zip(self._layers, caches, strict=True):
            norm1, norm2, w_qkv, b_qkv, w_o, b_o, w_1, b_1, w_2, b_2 = layer
            width = x.shape[-1]
            qkv = F.linear(F.layer_norm(x, (width,), *norm1), w_qkv, b_qkv).view(3, self._heads, self._d_k)
            keys[:, position] = qkv[1]
            values[:, position] = qkv[2]
            scores = torch.bmm(qkv[0][:, None], keys[:, : position + 1].mT)  # (heads, 1, length)
            heads = torch.bmm((scores * scale).softmax(dim=-1), values[:, : position + 1])  # (heads, 1, d_k)
            x = x + F.linear(heads.view(1, width), w_o, b_o)
            hidden = F.gelu(F.linear(F.layer_norm(x, (width,), *norm2), w_1, b_1), approximate="tanh")
            x = x + F.linear(hidden, w_2, b_2)
        weight, bias, eps = self._norm
        return F.linear(F.layer_norm(x, (x.shape[-1],), weight, bias, eps), self._head)


def weights(block: nn.Module) -> tuple[object, ...]:
    """What one layer needs, with queries, keys and values as one map."""
    attn, mlp = block.attn, block.mlp
    maps = (attn.w_q, attn.w_k, attn.w_v)
    norms = ((norm.weight, norm.bias, norm.eps) for norm in (block.norm1, block.norm2))
    w_qkv, b_qkv = (torch.cat([getattr(one, name).detach() for one in maps]) for name in ("weight", "bias"))
    plain = ((one.weight, one.bias) for one in (attn.w_o, mlp.linear1, mlp.linear2))
    return (*norms, w_qkv, b_qkv, *(part for pair in plain for part in pair))
