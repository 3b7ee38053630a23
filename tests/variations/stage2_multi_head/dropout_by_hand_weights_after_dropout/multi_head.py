# Unusual: dropout by hand, and the weights that come back in training are those after dropout.
import torch
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention


def split_heads(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def merge_heads(x):
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model // num_heads * num_heads != d_model:
            raise ValueError(f"{d_model} / {num_heads} leaves a rest")
        self.num_heads, self.keep = num_heads, 1.0 - dropout
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        value = split_heads(self.w_v(value), self.num_heads)
        _, weights = scaled_dot_product_attention(
            split_heads(self.w_q(query), self.num_heads),
            split_heads(self.w_k(key), self.num_heads),
            value,
            mask,
        )
        if self.training and self.keep < 1.0:
            weights = weights * torch.bernoulli(torch.full_like(weights, self.keep)) / self.keep
        return self.w_o(merge_heads(weights @ value)), weights
