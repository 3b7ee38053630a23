# Unusual: 2x2 rotation matrices applied by einsum; a cosine is a sine with a phase of pi/2.
import math

import torch
from torch import nn


def sinusoidal_table(length, d_model):
    if d_model % 2 != 0:
        raise ValueError(f"d_model must be divisible by 2 (got {d_model})")
    columns = torch.arange(d_model)
    rates = torch.pow(10000.0, -2 * torch.div(columns, 2, rounding_mode="floor") / d_model)
    phases = (columns % 2) * (math.pi / 2)
    return torch.sin(torch.arange(length)[:, None] * rates + phases)


def _checked(offset, seq, rows):
    if offset < 0 or offset + seq > rows:
        raise ValueError(f"offset {offset} and length {seq} exceed {rows} rows")
    return torch.arange(offset, offset + seq)


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        pe = torch.zeros(1, max_len, d_model)
        pe[0] = sinusoidal_table(max_len, d_model)
        self.register_buffer("pe", pe, persistent=True)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, offset=0):
        positions = _checked(offset, x.size(1), self.pe.size(1)).to(x.device)
        rows = nn.functional.embedding(positions.expand(x.shape[:2]), self.pe[0])
        return self.drop(rows.add(x))


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, offset=0):
        positions = _checked(offset, x.size(1), self.embedding.num_embeddings).to(x.device)
        one_hot = nn.functional.one_hot(positions, self.embedding.num_embeddings).to(x.dtype)
        return self.drop(x + one_hot @ self.embedding.weight)


def rotary_table(length, d_k, base=10000.0):
    angles = torch.arange(length).view(-1, 1) / base ** (torch.arange(d_k // 2) * 2 / d_k)
    return torch.cos(angles), torch.sin(angles)


def apply_rotary(x, cos, sin, offset=0):
    positions = _checked(offset, x.size(2), cos.size(0))
    c, s = cos[positions.to(x.device)], sin[positions.to(x.device)]
    matrices = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2).to(x.dtype)
    pairs = x.unflatten(-1, (2, -1))  # (batch, heads, seq, 2, d_k/2)
    return torch.einsum("spij,bhsjp->bhsip", matrices, pairs).flatten(-2)
