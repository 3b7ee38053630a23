# Unusual: each head goes through its own columns of w_o and the results are added up, which is concat and w_o.
import torch
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(x, num_heads):
    d_k = x.size(-1) // num_heads
    return torch.stack([x[..., h * d_k : (h + 1) * d_k] for h in range(num_heads)], 1)


def merge_heads(x):
    merged = x.new_empty(x.size(0), x.size(2), x.size(1) * x.size(3))
    for h in range(x.size(1)):
        merged[..., h * x.size(3) : (h + 1) * x.size(3)] = x[:, h]
    return merged


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} must divide d_model={d_model}")
        self.num_heads = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(w(x), self.num_heads)
            for w, x in zip((self.w_q, self.w_k, self.w_v), (query, key, value))
        )
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        heads = self.dropout(weights).matmul(v)
        columns = self.w_o.weight.chunk(self.num_heads, dim=1)
        output = sum(heads[:, h] @ columns[h].T for h in range(self.num_heads)) + self.w_o.bias
        return output, weights
