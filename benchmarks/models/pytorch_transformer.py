"""The model that the solution is measured against: `nn.Transformer` with what a translator needs around it."""

from __future__ import annotations

import math
import warnings

from torch import Tensor, nn

from solutions.stage1_attention.attention import causal_mask
from solutions.stage3_positional_encoding.positional_encoding import SinusoidalPositionalEncoding


class PyTorchTransformer(nn.Module):
    """`nn.Transformer` with embeddings, positions and an output layer, made and used like the solution's."""

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int,
        num_heads: int,
        num_layers: int,
        d_ff: int,
        dropout: float,
        max_len: int,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.scale = math.sqrt(d_model)
        self.src_embed = nn.Embedding(src_vocab, d_model)
        self.tgt_embed = nn.Embedding(tgt_vocab, d_model)
        self.positions = SinusoidalPositionalEncoding(d_model, max_len, dropout)
        with warnings.catch_warnings():  # it says that pre-norm rules out its shortcut for inference
            warnings.simplefilter("ignore")
            self.transformer = nn.Transformer(
                d_model,
                num_heads,
                num_layers,
                num_layers,
                d_ff,
                dropout,
                batch_first=True,
                norm_first=True,
            )
        self.fc_out = nn.Linear(d_model, tgt_vocab)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        real = (src != self.pad_id)[:, None, None, :]
        may_attend = causal_mask(tgt.shape[1], tgt.device) & (tgt != self.pad_id)[:, None, None, :]
        return self.fc_out(self.decode(tgt, self.encode(src, real), may_attend, real))

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        """Memory of the source; the mask is True where attention may look, of shape (batch, 1, 1, src_len)."""
        hidden = self.positions(self.src_embed(src) * self.scale)
        return self.transformer.encoder(hidden, src_key_padding_mask=~src_mask[:, 0, 0])

    def decode(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor, memory_mask: Tensor) -> Tensor:
        """Hidden states of the target; `tgt_mask` is causal, and hides padding: (batch, 1, tgt_len, tgt_len)."""
        length = tgt.shape[1]
        hidden = self.positions(self.tgt_embed(tgt) * self.scale)
        return self.transformer.decoder(
            hidden,
            memory,
            tgt_mask=~causal_mask(length, tgt.device)[0, 0],
            tgt_key_padding_mask=tgt == self.pad_id,
            memory_key_padding_mask=~memory_mask[:, 0, 0],
        )
