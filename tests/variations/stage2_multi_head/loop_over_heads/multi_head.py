# Unusual: a loop over the heads, each on a slice of the features; split and merge are done by chunk, stack and cat.
import torch
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention as attend


def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def merge_heads(x):
    return torch.cat([head for head in x.unbind(1)], dim=-1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads, self.p = num_heads, dropout
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, query, key, value, mask=None):
        full = (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        if mask is not None:
            try:
                mask = mask.expand(full)
            except RuntimeError as error:
                raise ValueError(f"mask {tuple(mask.shape)} does not fit {full}") from error
        query, key, value = self.w_q(query), self.w_k(key), self.w_v(value)
        size = query.shape[-1] // self.num_heads
        outputs, all_weights = [], []
        for h in range(self.num_heads):
            part = slice(h * size, (h + 1) * size)
            own_mask = None if mask is None else mask[:, h]
            _, weights = attend(query[..., part], key[..., part], value[..., part], own_mask)
            outputs.append(nn.functional.dropout(weights, self.p, self.training) @ value[..., part])
            all_weights.append(weights)
        return self.w_o(torch.cat(outputs, dim=-1)), torch.stack(all_weights, dim=1)
