# Unusual: rows are cast to the input's dtype as they are used, dropout by hand, an error class of its own, loops.
import torch
from torch import nn


class PositionError(ValueError):
    def __init__(self, offset, seq, max_len):
        super().__init__(f"offset={offset}, seq={seq}, max_len={max_len}")


def sinusoidal_table(length, d_model):
    if d_model % 2:
        raise ValueError(f"{d_model=}")
    table = torch.zeros(length, d_model)
    for i in range(d_model // 2):
        angle = torch.arange(length, dtype=torch.float64) / 10000 ** (2 * i / d_model)
        table[:, 2 * i] = angle.sin()
        table[:, 2 * i + 1] = angle.cos()
    return table


def dropped(x, p, training):
    if not training or p == 0.0:
        return x
    keep = torch.rand(x.shape, device=x.device) >= p
    return torch.where(keep, x / (1.0 - p), torch.zeros((), dtype=x.dtype, device=x.device))


class SinusoidalPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.0, *, name="positions"):
        super().__init__()
        self.name, self.p, self.max_len = name, dropout, max_len
        self.register_buffer("pe", sinusoidal_table(max_len, d_model).reshape(1, max_len, d_model))

    def forward(self, x, offset=0):
        batch, seq, _ = x.shape
        if offset < 0 or offset + seq > self.max_len:
            raise PositionError(offset, seq, self.max_len)
        rows = self.pe[:, offset : offset + seq].to(device=x.device, dtype=x.dtype)
        return dropped(x + rows.repeat(batch, 1, 1), self.p, self.training)


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.p = dropout
        self.embedding = nn.Embedding(num_embeddings=max_len, embedding_dim=d_model)

    def forward(self, x, offset=0):
        seq = x.shape[1]
        if offset < 0 or offset + seq > self.embedding.num_embeddings:
            raise PositionError(offset, seq, self.embedding.num_embeddings)
        rows = torch.stack([self.embedding.weight[offset + s] for s in range(seq)])
        return dropped(x + rows, self.p, self.training)


def rotary_table(length, d_k, base=10000.0):
    frequencies = torch.logspace(0.0, -1.0, d_k // 2 + 1, base=base, dtype=torch.float64)[:-1]
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * frequencies
    return angles.cos().float(), angles.sin().float()


def apply_rotary(x, cos, sin, offset=0):
    rotated = x.clone()
    half = x.size(-1) // 2
    for s in range(x.size(2)):
        row = offset + s
        if not 0 <= row < len(cos):
            raise IndexError(f"row {row} of {len(cos)}")
        for i in range(half):
            a, b = x[:, :, s, i], x[:, :, s, i + half]
            rotated[:, :, s, i] = a * cos[row, i] - b * sin[row, i]
            rotated[:, :, s, i + half] = b * cos[row, i] + a * sin[row, i]
    return rotated
