# Unusual: each row of the tables is the one before, turned on; dropout stands in an nn.Sequential or ModuleDict.
import torch
from torch import nn


def _turned(length, width, base):
    """cos and sin of position * frequency, by turning a unit vector on from row to row in float64."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    step_cos, step_sin = frequencies.cos(), frequencies.sin()
    cos, sin = torch.ones_like(frequencies), torch.zeros_like(frequencies)
    rows_cos, rows_sin = [], []
    for _ in range(length):
        rows_cos.append(cos)
        rows_sin.append(sin)
        cos, sin = cos * step_cos - sin * step_sin, sin * step_cos + cos * step_sin
    return torch.stack(rows_cos), torch.stack(rows_sin)


def sinusoidal_table(length, d_model):
    if d_model % 2 != 0:
        raise ValueError(f"d_model {d_model} is not even")
    cos, sin = _turned(length, d_model, 10000.0)
    both = torch.cat([sin, cos], dim=1).float()
    order = torch.arange(d_model).view(2, -1).t().flatten()
    return both[:, order]


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0):
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_len, d_model).unsqueeze(0))
        self.after = nn.Sequential(nn.Identity(), nn.Dropout(dropout))

    def forward(self, x, offset=0):
        rows = self.pe.size(1)
        if offset not in range(rows) or offset + x.size(1) > rows:
            raise ValueError(f"offset {offset}, {x.size(1)} tokens, {rows} rows")
        return self.after(x + self.pe.roll(-offset, dims=1)[:, : x.size(1)])


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.parts = nn.ModuleDict({"dropout": nn.Dropout(dropout)})

    def forward(self, x, offset=0):
        rows = self.embedding.num_embeddings
        if offset not in range(rows) or offset + x.size(1) > rows:
            raise ValueError(f"offset {offset}, {x.size(1)} tokens, {rows} rows")
        sequences = [
            one + self.embedding(torch.arange(offset, offset + len(one), device=x.device)) for one in x
        ]
        return self.parts["dropout"](torch.stack(sequences))


def rotary_table(length, d_k, base=10000.0):
    cos, sin = _turned(length, d_k, float(base))
    return [cos.float(), sin.float()]


def apply_rotary(x, cos, sin, offset=0):
    if offset < 0 or offset + x.size(-2) > cos.size(0):
        raise ValueError(f"offset {offset}, {x.size(-2)} tokens, {cos.size(0)} rows")
    # Sequence first for a while, so that the rows stand on the first axis.
    first, second = x.permute(2, 0, 1, 3).chunk(2, dim=-1)
    cos, sin = (table[offset : offset + x.size(-2)][:, None, None] for table in (cos, sin))
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.permute(1, 2, 0, 3)
