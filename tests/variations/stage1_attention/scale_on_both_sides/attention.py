# Unusual but right: query and key are each divided by the fourth root of d_k, before the product.

import torch
from torch import nn


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()


def fitting(mask, scores):
    shape = tuple(scores.shape)
    try:
        fits = torch.broadcast_shapes(mask.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"mask {tuple(mask.shape)} does not fit scores {shape}")
    return mask != 0


def scaled_dot_product_attention(query, key, value, mask=None):
    root = query.size(-1) ** -0.25
    scores = torch.matmul(query * root, (key * root).transpose(-1, -2))
    if mask is not None:
        scores = scores.masked_fill(fitting(mask, scores).logical_not(), torch.finfo(scores.dtype).min)
    weights = nn.functional.softmax(scores, -1)
    return torch.matmul(weights, value), weights


class SingleHeadAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_v = nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)
