# Unusual: the rotation is a product of complex numbers, and the table the real and imaginary parts of torch.polar.
import torch
from torch import nn


def _turns(length, width, base=10000.0):
    frequencies = 1.0 / (base ** (torch.arange(0, width, 2).float() / width))
    angles = torch.arange(length).float()[:, None] * frequencies[None, :]
    return torch.polar(torch.ones_like(angles), angles)


def sinusoidal_table(length, d_model):
    if d_model % 2 == 1:
        raise ValueError(f"need an even d_model, not {d_model}")
    turns = _turns(length, d_model)
    # i * conj(e^(it)) = sin t + i cos t: real part first gives sine, cosine, sine, cosine ...
    return torch.view_as_real((1j * turns.conj()).resolve_conj()).reshape(length, d_model)


class _Adding(nn.Module):
    def rows(self):
        raise NotImplementedError

    def forward(self, x, offset=0):
        rows = self.rows()
        end = offset + x.size(1)
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        if end > len(rows):
            raise ValueError(f"position {end - 1} is outside max_len={len(rows)}")
        return self.dropout(rows[offset:end] + x)


class SinusoidalPositionalEncoding(_Adding):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_len, d_model).view(1, max_len, d_model))
        self.dropout = nn.Dropout(dropout)

    def rows(self):
        return self.pe.squeeze(0)


class LearnedPositionalEncoding(_Adding):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(dropout)

    def rows(self):
        return self.embedding.weight


def rotary_table(length, d_k, base=10000.0):
    turns = _turns(length, d_k, base)
    return turns.real, turns.imag


def apply_rotary(x, cos, sin, offset=0):
    end = offset + x.size(-2)
    if offset < 0 or end > cos.size(0):
        raise ValueError(f"{offset}:{end} is outside the table of {cos.size(0)} rows")
    first, second = x.split(x.size(-1) // 2, dim=-1)
    turned = torch.complex(first.contiguous(), second.contiguous()) * torch.complex(
        cos[offset:end].to(x.dtype), sin[offset:end].to(x.dtype)
    )
    return torch.cat((turned.real, turned.imag), -1)
