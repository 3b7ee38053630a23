# Unusual: each query attends alone, so nothing but one row of weights exists at a time.
import torch
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(x, num_heads):
    seq_first = x.transpose(0, 1).unflatten(2, (num_heads, x.shape[2] // num_heads))
    return seq_first.permute(1, 2, 0, 3)


def merge_heads(x):
    return torch.stack([token.reshape(x.shape[0], -1) for token in x.unbind(2)], dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} and num_heads={num_heads} do not go together")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        query = split_heads(self.w_q(query), self.num_heads)
        key = split_heads(self.w_k(key), self.num_heads)
        value = split_heads(self.w_v(value), self.num_heads)
        if mask is not None:
            full = (*query.shape[:3], key.shape[2])
            if mask.dim() > 4 or any(a not in (1, b) for a, b in zip(mask.shape[::-1], full[::-1])):
                raise ValueError(f"mask {tuple(mask.shape)}, weights {full}")
            mask = mask.broadcast_to(full)
        rows = []
        for i in range(query.shape[2]):
            one_mask = None if mask is None else mask[:, :, i : i + 1]
            rows.append(scaled_dot_product_attention(query[:, :, i : i + 1], key, value, one_mask)[1])
        weights = torch.cat(rows, dim=2)
        return self.w_o(merge_heads(self.dropout(weights) @ value)), weights
