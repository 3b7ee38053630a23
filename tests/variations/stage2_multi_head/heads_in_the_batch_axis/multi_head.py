# Unusual: the heads move into the batch axis, and the attention is batched matrix products over three axes.
import math

import torch
from torch import nn


def split_heads(x, num_heads):
    batch, seq, d_model = x.size()
    return x.contiguous().view(batch, seq, num_heads, d_model // num_heads).permute(0, 2, 1, 3).contiguous()


def merge_heads(x):
    batch, num_heads, seq, d_k = x.size()
    return x.permute(0, 2, 1, 3).contiguous().view(batch, seq, num_heads * d_k)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("d_model (%d) is not divisible by num_heads (%d)" % (d_model, num_heads))
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=True)
        self.w_k = nn.Linear(d_model, d_model, bias=True)
        self.w_v = nn.Linear(d_model, d_model, bias=True)
        self.w_o = nn.Linear(d_model, d_model, bias=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        batch, q_len, d_model = query.shape
        k_len, d_k = key.shape[1], d_model // self.num_heads
        q = split_heads(self.w_q(query), self.num_heads).view(-1, q_len, d_k)
        k = split_heads(self.w_k(key), self.num_heads).view(-1, k_len, d_k)
        v = split_heads(self.w_v(value), self.num_heads).view(-1, k_len, d_k)
        scores = torch.bmm(q / math.sqrt(d_k), k.transpose(1, 2))
        if mask is not None:
            shape = (batch, self.num_heads, q_len, k_len)
            try:
                allowed = mask.to(torch.bool).expand(shape).reshape(-1, q_len, k_len)
            except RuntimeError:
                raise ValueError(f"mask of shape {tuple(mask.shape)}, scores of shape {shape}")
            scores = torch.where(allowed, scores, torch.full_like(scores, -1e9))
        weights = scores.softmax(-1)
        heads = torch.bmm(self.dropout(weights), v).view(batch, self.num_heads, q_len, d_k)
        return self.w_o(merge_heads(heads)), weights.view(batch, self.num_heads, q_len, k_len)
