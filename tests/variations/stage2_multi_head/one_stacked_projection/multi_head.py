# Unusual: in self-attention the three projections are one F.linear on the stacked weights.
import torch
import torch.nn.functional as F
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, -3)


def merge_heads(x):
    return x.movedim(-3, -2).flatten(-2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} features cannot be shared out among {num_heads} heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.attention_dropout = nn.Dropout(dropout)

    def project(self, query, key, value):
        layers = (self.w_q, self.w_k, self.w_v)
        if query is key and key is value:
            weight = torch.cat([layer.weight for layer in layers])
            bias = torch.cat([layer.bias for layer in layers])
            return F.linear(query, weight, bias).chunk(3, dim=-1)
        return tuple(layer(x) for layer, x in zip(layers, (query, key, value)))

    def forward(self, query, key, value, mask=None):
        q, k, v = (split_heads(x, self.num_heads) for x in self.project(query, key, value))
        heads, weights = scaled_dot_product_attention(q, k, v, mask)
        if self.training and self.attention_dropout.p > 0:
            heads = self.attention_dropout(weights) @ v
        return self.w_o(merge_heads(heads)), weights
