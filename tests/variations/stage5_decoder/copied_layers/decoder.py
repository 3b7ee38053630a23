# Copies of one layer: distinct weights that start alike.

import copy

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..stage2_multi_head.multi_head import MultiHeadAttention
from ..stage4_encoder.encoder import FeedForward, LayerNorm


class DecoderLayer(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = True,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.norm1 = LayerNorm(d_model)
        self.norm2 = LayerNorm(d_model)
        self.norm3 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        if self.norm_first:
            normed = self.norm1(x)
            attended, _ = self.self_attn(normed, normed, normed, tgt_mask)
            x = x + self.dropout(attended)
            attended, _ = self.cross_attn(self.norm2(x), memory, memory, memory_mask)
            x = x + self.dropout(attended)
            return x + self.dropout(self.feed_forward(self.norm3(x)))

        attended, _ = self.self_attn(x, x, x, tgt_mask)
        x = self.norm1(x + self.dropout(attended))
        attended, _ = self.cross_attn(x, memory, memory, memory_mask)
        x = self.norm2(x + self.dropout(attended))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class Decoder(nn.Module):
    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = True,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        first = DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first, activation)
        self.layers = nn.ModuleList(copy.deepcopy(first) for _ in range(num_layers))
        self.norm = LayerNorm(d_model) if norm_first else None

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, memory_mask)
        return x if self.norm is None else self.norm(x)
