# Unusual but right: masks are made with comparisons of positions and out of Python lists.

import math

import torch
from torch import nn


def padding_mask(tokens, pad_id=0):
    real = torch.ones_like(tokens, dtype=torch.bool).masked_fill(tokens.eq(pad_id), False)
    batch, seq = tokens.shape
    return real.view(batch, 1, 1, seq)


def causal_mask(length, device=None):
    rows = [[key <= query for key in range(length)] for query in range(length)]
    return torch.tensor([[rows]], dtype=torch.bool).reshape(1, 1, length, length).to(device or "cpu")


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
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is None:
        mask = torch.ones(1, dtype=torch.bool, device=scores.device)
    scores = scores.masked_fill(~fitting(mask, scores), torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights @ value, weights


class SingleHeadAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_v = nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)
