# Unusual: apply_rotary leaves positions outside the tables to an error of PyTorch; sines are written by out=.
import torch
from torch import nn


def sinusoidal_table(length, d_model):
    if d_model % 2 == 0:
        p = torch.arange(0.0, length).unsqueeze(-1)
        wavelength = torch.pow(torch.tensor(10000.0), torch.arange(0.0, d_model, 2.0) / d_model)
        table = torch.empty(length, d_model // 2, 2)
        torch.sin(p / wavelength, out=table[..., 0])
        torch.cos(p / wavelength, out=table[..., 1])
        return table.view(length, d_model)
    else:
        raise ValueError(f"d_model is {d_model}: it must be even")


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        self.register_buffer("pe", None)
        self.pe = sinusoidal_table(max_len, d_model).unsqueeze(0)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, offset=0):
        rows = self.pe[0, max(offset, 0) :][: x.size(1)]
        if offset < 0 or len(rows) < x.size(1):
            raise ValueError(f"offset {offset} for {x.size(1)} tokens in a table of {self.pe.size(1)}")
        return self.dropout(x + rows)


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, offset=0):
        seq, max_len = x.size(1), self.embedding.num_embeddings
        positions = torch.arange(seq) + offset
        if any(not 0 <= position < max_len for position in positions.tolist()):
            raise ValueError(f"offset {offset} for {seq} tokens with max_len {max_len}")
        return self.dropout(x + self.embedding(positions.to(x.device)))


def rotary_table(length, d_k, base=10000.0):
    p = torch.arange(0.0, length).unsqueeze(-1)
    wavelength = torch.pow(torch.tensor(base), torch.arange(0.0, d_k, 2.0) / d_k)
    return (torch.cos(p / wavelength), torch.sin(p / wavelength))


def apply_rotary(x, cos, sin, offset=0):
    seq = x.size(2)
    sizes = [offset, seq, len(cos) - offset - seq]  # split refuses negative sizes
    cos, sin = (table.split(sizes)[1] for table in (cos, sin))
    halves = x.view(*x.shape[:-1], 2, -1)
    first, second = halves.unbind(-2)
    return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-2).flatten(-2)
