# Unusual but right: output and weights come back as a named tuple, with the masks in a module of their own.

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .masks import causal_mask as causal_mask
from .masks import padding_mask as padding_mask
from .masks import visible


class Attended(NamedTuple):
    output: Tensor
    weights: Tensor


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~visible(mask, scores), torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return Attended(output=weights @ value, weights=weights)


class SingleHeadAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_v = nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)
