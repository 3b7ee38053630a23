# Unusual: d_k ** -0.25 on queries and keys, an additive mask, softmax in float32 at least, a named tuple as result.
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Attended(NamedTuple):
    output: Tensor
    weights: Tensor


def split_heads(x, num_heads):
    return x.view(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(-3, -2)


def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=3).squeeze(1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        width, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"d_model={d_model} over num_heads={num_heads} leaves {rest}")
        self.num_heads, self.scale = num_heads, width**-0.25
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        query = split_heads(self.w_q(query), self.num_heads) * self.scale
        key = split_heads(self.w_k(key), self.num_heads) * self.scale
        value = split_heads(self.w_v(value), self.num_heads)
        scores = query @ key.transpose(-2, -1)
        if mask is not None:
            penalty = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask == 0, -1e30)
            if (scores + penalty).shape != scores.shape:
                raise ValueError(f"{tuple(mask.shape)} does not broadcast to {tuple(scores.shape)}")
            scores = scores + penalty
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = scores.softmax(dim=-1, dtype=wide).to(value.dtype)
        return Attended(self.w_o(merge_heads(self.dropout(weights) @ value)), weights)
