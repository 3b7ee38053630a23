# Unusual: frequencies by exp and log in float64, cast at the end; sines and cosines interleaved by stack and flatten.
import math

import torch
from torch import nn


def _angles(length, width, base):
    exponents = torch.arange(0, width, 2, dtype=torch.float64)
    frequencies = torch.exp(exponents * (-math.log(base) / width))
    return torch.outer(torch.arange(length, dtype=torch.float64), frequencies)


def sinusoidal_table(length, d_model):
    if d_model % 2:
        raise ValueError(f"d_model must be even, got {d_model}")
    angles = _angles(length, d_model, 10000.0)
    return torch.stack((torch.sin(angles), torch.cos(angles)), dim=2).flatten(1).to(torch.get_default_dtype())


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_len, d_model)[None])
        self.p = dropout

    def forward(self, x, offset=0):
        seq = x.shape[1]
        if not 0 <= offset <= self.pe.shape[1] - seq:
            raise ValueError(f"positions {offset} to {offset + seq - 1}, but max_len is {self.pe.shape[1]}")
        y = torch.add(x, self.pe.narrow(1, offset, seq))
        return nn.functional.dropout(y, self.p, training=self.training)


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.p = dropout

    def forward(self, x, offset=0):
        seq = x.shape[1]
        if not 0 <= offset <= self.embedding.num_embeddings - seq:
            raise ValueError(
                f"positions {offset} to {offset + seq - 1}, but max_len is {self.embedding.num_embeddings}"
            )
        y = x + self.embedding.weight[offset : offset + seq]
        return nn.functional.dropout(y, self.p, training=self.training)


def rotary_table(length, d_k, base=10000.0):
    angles = _angles(length, d_k, base)
    return angles.cos().float(), angles.sin().float()


def apply_rotary(x, cos, sin, offset=0):
    seq = x.shape[2]
    if not 0 <= offset <= len(cos) - seq:
        raise ValueError(f"positions {offset} to {offset + seq - 1}, but the table has {len(cos)} rows")
    half = x.shape[-1] // 2
    c, s = cos[offset : offset + seq], sin[offset : offset + seq]
    out = torch.empty_like(x)
    out[..., :half] = x[..., :half] * c - x[..., half:] * s
    out[..., half:] = x[..., half:] * c + x[..., :half] * s
    return out
