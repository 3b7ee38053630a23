"""Pre-norm and post-norm as two classes, chosen in __new__; Encoder is a ModuleList with a norm beside it."""

import torch
import torch.nn.functional as F
from torch import nn

from ..stage2_multi_head.multi_head import MultiHeadAttention


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias


KNOWN = {"relu": nn.ReLU, "gelu": nn.GELU}


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1, activation="relu"):
        super().__init__()
        try:
            self.act = KNOWN[activation]()
        except KeyError:
            raise ValueError(f"activation must be one of {sorted(KNOWN)}, got {activation!r}") from None
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.p = dropout

    def forward(self, x):
        hidden = self.linear1(x)
        if isinstance(self.act, nn.ReLU):  # which commutes with dropout; GELU does not
            return self.linear2(self.act(F.dropout(hidden, self.p, training=self.training)))
        return self.linear2(F.dropout(self.act(hidden), self.p, training=self.training))


class EncoderLayer(nn.Module):
    def __new__(cls, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        return super().__new__(PreNorm if norm_first else PostNorm)

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        super().__init__()
        for name, module in {
            "self_attn": MultiHeadAttention(d_model, num_heads, dropout=dropout),
            "feed_forward": FeedForward(d_model, d_ff, dropout=dropout, activation=activation),
            "norm1": LayerNorm(d_model),
            "norm2": LayerNorm(d_model),
            "dropout1": nn.Dropout(dropout),
            "dropout2": nn.Dropout(dropout),
        }.items():
            self.add_module(name, module)

    def attention(self, x, mask):
        return self.dropout1(self.self_attn(x, x, x, mask)[0])

    def network(self, x):
        return self.dropout2(self.feed_forward(x))


class PreNorm(EncoderLayer):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.network(self.norm2(x))


class PostNorm(EncoderLayer):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.network(x))


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first, activation) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else None

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)
