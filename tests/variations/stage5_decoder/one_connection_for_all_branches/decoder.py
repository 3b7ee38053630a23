# Norm, dropout and sum are written once and used for all three branches.

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..stage2_multi_head.multi_head import MultiHeadAttention
from ..stage4_encoder.encoder import FeedForward, LayerNorm


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm_first=True, activation="relu"):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        for index in (1, 2, 3):
            setattr(self, f"norm{index}", LayerNorm(d_model))
        self.drops = nn.ModuleList(nn.Dropout(dropout) for _ in range(3))
        self.connect = self.pre_norm if norm_first else self.post_norm

    def pre_norm(self, index, x, branch):
        return x + self.drops[index - 1](branch(getattr(self, f"norm{index}")(x)))

    def post_norm(self, index, x, branch):
        return getattr(self, f"norm{index}")(x + self.drops[index - 1](branch(x)))

    def forward(self, x, memory, tgt_mask=None, memory_mask=None):
        x = self.connect(1, x, lambda stream: self.self_attn(stream, stream, stream, tgt_mask)[0])
        x = self.connect(2, x, lambda stream: self.cross_attn(stream, memory, memory, memory_mask)[0])
        return self.connect(3, x, self.feed_forward)


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
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first, activation) for _ in range(num_layers)
        )
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
