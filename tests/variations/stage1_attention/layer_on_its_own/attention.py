# Unusual but right: the layer stacks its weights into one product and does not call the function.

import math

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
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~fitting(mask, scores), torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights @ value, weights


class SingleHeadAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.scale = d_k**-0.5
        self.w_v = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_q = nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        weight = torch.cat([self.w_q.weight * self.scale, self.w_k.weight, self.w_v.weight])
        bias = torch.cat([self.w_q.bias * self.scale, self.w_k.bias, self.w_v.bias])
        query, key, value = nn.functional.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.bmm(query, key.transpose(1, 2))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        weights = scores.softmax(2)
        return torch.bmm(weights, value), weights
