# Statistics in float32 whatever comes in (as in Llama); layers that are copies of one, as PyTorch makes them.
import copy

import torch
import torch.nn.functional as F
from torch import nn

from ..stage2_multi_head.multi_head import MultiHeadAttention


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_parameter("weight", nn.Parameter(torch.ones(d_model)))
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_model)))

    def forward(self, x):
        wide = x.float()
        wide = wide - wide.mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight + self.bias


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1, activation="relu"):
        super().__init__()
        match = [f for name, f in (("relu", F.relu), ("gelu", F.gelu)) if name == activation]
        if not match:
            raise ValueError("activation: " + str(activation))
        self.activation = match[0]
        self.dropout = dropout
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = self.activation(self.linear1(x))
        return self.linear2(F.dropout(hidden, self.dropout, training=self.training))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        super().__init__()
        self.norm_first = norm_first
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        for k in (1, 2):
            setattr(self, f"norm{k}", LayerNorm(d_model))
            setattr(self, f"dropout{k}", nn.Dropout(dropout))

    def forward(self, x, mask=None):
        steps = [
            (self.norm1, self.dropout1, lambda t: self.self_attn(t, t, t, mask=mask)[0]),
            (self.norm2, self.dropout2, self.feed_forward),
        ]
        for norm, drop, branch in steps:
            residual = x
            if self.norm_first:
                x = norm(x)
            x = drop(branch(x))
            x = residual + x
            if not self.norm_first:
                x = norm(x)
        return x


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        super().__init__()
        layer = EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first, activation)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.register_module("norm", LayerNorm(d_model) if norm_first else None)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)
