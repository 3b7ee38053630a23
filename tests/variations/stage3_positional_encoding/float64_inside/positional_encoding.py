# Unusual: rotation in float64 whatever the input, cast back at the end; the tables are made by NumPy.
import math

import numpy as np
import torch
from torch import nn


def sinusoidal_table(length, d_model):
    if d_model % 2:
        raise ValueError(f"odd d_model: {d_model}")
    position = np.arange(length)[:, np.newaxis]
    div_term = np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    table = np.zeros((length, d_model))
    table[:, 0::2] = np.sin(position * div_term)
    table[:, 1::2] = np.cos(position * div_term)
    return torch.from_numpy(table).float()


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoidal_table(max_len, d_model).unsqueeze(0))

    def forward(self, x, offset=0):
        if offset < 0:
            raise ValueError(f"offset = {offset}")
        if offset + x.shape[1] > self.pe.shape[1]:
            raise ValueError(f"{offset + x.shape[1]} > {self.pe.shape[1]}")
        total = x.clone()
        total += self.pe[:, offset : offset + x.shape[1], :].requires_grad_(False)
        return self.dropout(total)


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Embedding(max_len, d_model)

    def forward(self, x, offset=0):
        if offset < 0:
            raise ValueError(f"offset = {offset}")
        if offset + x.shape[1] > self.embedding.weight.shape[0]:
            raise ValueError(f"{offset + x.shape[1]} > {self.embedding.weight.shape[0]}")
        every = torch.arange(self.embedding.weight.shape[0], device=x.device)
        total = x.clone()
        total += self.embedding(every)[offset : offset + x.shape[1]].unsqueeze(0)
        return self.dropout(total)


def rotary_table(length, d_k, base=10000.0):
    angles = np.outer(np.arange(length), base ** (-np.arange(0, d_k, 2) / d_k))
    return torch.tensor(np.cos(angles), dtype=torch.float32), torch.tensor(
        np.sin(angles), dtype=torch.float32
    )


def apply_rotary(x, cos, sin, offset=0):
    if offset < 0 or offset + x.shape[2] > cos.shape[0]:
        raise ValueError(f"{offset} + {x.shape[2]} > {cos.shape[0]}")
    rows = slice(offset, offset + x.shape[2])
    angle = torch.atan2(sin[rows].double(), cos[rows].double())
    radius = torch.hypot(sin[rows].double(), cos[rows].double())
    half = x.shape[3] // 2
    a, b = x[..., :half].double(), x[..., half:].double()
    first = radius * (a * angle.cos() - b * angle.sin())
    second = radius * (a * angle.sin() + b * angle.cos())
    return torch.cat([first, second], dim=3).to(x.dtype)
