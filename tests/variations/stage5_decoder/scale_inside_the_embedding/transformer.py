# The factor sqrt(d_model) lives in the embedding.

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask, padding_mask
from ..stage3_positional_encoding.positional_encoding import SinusoidalPositionalEncoding
from ..stage4_encoder.encoder import Encoder
from .decoder import Decoder


class ScaledEmbedding(nn.Embedding):
    def forward(self, tokens):
        return super().forward(tokens) * self.embedding_dim**0.5


class Transformer(nn.Module):
    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        max_len: int = 5000,
        norm_first: bool = True,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.src_embed = ScaledEmbedding(src_vocab, d_model)
        self.tgt_embed = ScaledEmbedding(tgt_vocab, d_model)
        self.positions = SinusoidalPositionalEncoding(d_model, max_len, dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout, norm_first)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, dropout, norm_first)
        self.fc_out = nn.Linear(d_model, tgt_vocab)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def embed(
        self, tokens: Int[Tensor, "batch seq"], embedding: nn.Embedding
    ) -> Float[Tensor, "batch seq d_model"]:
        outside = (tokens < 0) | (tokens >= embedding.num_embeddings)
        if outside.any():
            ids = sorted(set(tokens[outside].tolist()))
            raise ValueError(
                f"token ids {ids} are outside the vocabulary of {embedding.num_embeddings} tokens"
            )
        return self.positions(embedding(tokens))

    def encode(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch src_len d_model"]:
        return self.encoder(self.embed(src, self.src_embed), src_mask)

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"],
        tgt_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        if tgt.shape[0] != memory.shape[0]:
            raise ValueError(f"the target has batch size {tgt.shape[0]}, the source {memory.shape[0]}")
        return self.decoder(self.embed(tgt, self.tgt_embed), memory, tgt_mask, memory_mask)

    def forward(
        self, src: Int[Tensor, "batch src_len"], tgt: Int[Tensor, "batch tgt_len"]
    ) -> Float[Tensor, "batch tgt_len tgt_vocab"]:
        src_mask = padding_mask(src, self.pad_id)
        not_later = causal_mask(tgt.shape[1], tgt.device)
        tgt_mask = padding_mask(tgt, self.pad_id) & not_later
        memory = self.encode(src, src_mask)
        hidden = self.decode(tgt, memory, tgt_mask, src_mask)
        return self.fc_out(hidden)
