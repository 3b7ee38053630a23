# Unusual: torch.func.vmap runs the attention of stage 1 once for all heads; a mask gets all four axes first.
import torch
from torch import nn
from torch.func import vmap

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(x, num_heads):
    return torch.stack(torch.tensor_split(x, num_heads, dim=2)).transpose(0, 1)


def merge_heads(x):
    return x.permute(0, 2, 1, 3).flatten(start_dim=2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads} is not 0")
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
        shape = (*query.shape[:3], key.shape[2])
        if mask is None:
            mask = torch.ones(shape, dtype=torch.bool, device=query.device)
        elif torch.broadcast_shapes(mask.shape, shape) != shape:
            raise ValueError(f"a mask of shape {tuple(mask.shape)} for weights of shape {shape}")
        every_head = vmap(scaled_dot_product_attention, in_dims=1, out_dims=1)
        _, weights = every_head(query, key, value, mask.expand(shape))
        return self.w_o(merge_heads(self.dropout(weights) @ value)), weights
