# Unusual: rotate_half as in Hugging Face with tables doubled inside; loops and the math module for the table.
import math

import torch
from torch import nn


def sinusoidal_table(length, d_model):
    if d_model & 1:
        raise ValueError("d_model = " + str(d_model))
    rows = []
    rates = [10000 ** (-(column - column % 2) / d_model) for column in range(d_model)]
    for position in range(length):
        rows.append([(math.cos if j % 2 else math.sin)(position * rate) for j, rate in enumerate(rates)])
    return torch.tensor(rows)


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        # A parameter that wants no gradient is saved and moved like a buffer.
        self.pe = nn.Parameter(sinusoidal_table(max_len, d_model).unsqueeze(0), requires_grad=False)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x, offset=0):
        length, max_len = x.size(1), self.pe.size(1)
        if offset < 0 or offset + length > max_len:
            raise ValueError(f"{length} tokens from {offset} on, max_len {max_len}")
        index = torch.arange(length, device=x.device) + offset
        return self.dropout(x + self.pe.index_select(1, index))


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x, offset=0):
        length, max_len = x.size(1), self.embedding.num_embeddings
        if offset < 0 or offset + length > max_len:
            raise ValueError(f"{length} tokens from {offset} on, max_len {max_len}")
        index = (torch.arange(length, device=x.device) + offset).expand(x.size(0), length)
        return self.dropout(x + self.embedding(index))


def rotary_table(length, d_k, base=10000.0):
    inv_freq = 1.0 / (base ** (torch.arange(0, d_k, 2, dtype=torch.int64).float() / d_k))
    freqs = torch.einsum("p,i->pi", torch.arange(length).float(), inv_freq)
    return freqs.cos(), freqs.sin()


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary(x, cos, sin, offset=0):
    if offset < 0 or offset + x.shape[-2] > cos.shape[0]:
        raise ValueError(f"{x.shape[-2]} tokens from {offset} on, {cos.shape[0]} rows")
    position_ids = torch.arange(offset, offset + x.shape[-2], device=x.device)
    cos = torch.cat((cos, cos), dim=-1)[position_ids][None, None]
    sin = torch.cat((sin, sin), dim=-1)[position_ids][None, None]
    return (x * cos) + (rotate_half(x) * sin)
