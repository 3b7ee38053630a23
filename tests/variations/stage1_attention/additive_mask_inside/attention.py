# Unusual but right: the mask becomes 0 and the lowest number, which is added to the scores.

import math

import torch
from torch import nn


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is not None:
        if mask.dim() > scores.dim() or any(
            m not in (1, s) for m, s in zip(mask.shape[::-1], scores.shape[::-1], strict=False)
        ):
            raise ValueError(f"mask {list(mask.shape)}, scores {list(scores.shape)}")
        lowest = torch.finfo(scores.dtype).min / 2
        scores = scores + (1 - mask.to(scores.dtype)) * lowest
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
