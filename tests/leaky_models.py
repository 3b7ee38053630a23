"""Small models for the leak detector, right ones and ones with a single fault each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PAD = 0
VOCAB = 13


class Embed(nn.Module):
    """Tokens and positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.places = nn.Embedding(32, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.places(torch.arange(tokens.size(1), device=tokens.device))


class Seq2Seq(nn.Module):
    """PyTorch's own encoder-decoder, with masks that can be left out."""

    def __init__(
        self, causal: bool = True, src_mask: bool = True, memory_mask: bool = True, reads: bool = True
    ) -> None:
        super().__init__()
        self.causal, self.src_mask, self.memory_mask, self.reads = causal, src_mask, memory_mask, reads
        self.src, self.tgt = Embed(16), Embed(16)
        self.body = nn.Transformer(16, 4, 2, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, VOCAB)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        hidden = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1) if self.causal else None
        src_pad, tgt_pad = src == PAD, tgt == PAD
        memory = self.body.encoder(self.src(src), src_key_padding_mask=src_pad if self.src_mask else None)
        if not self.reads:
            memory = torch.zeros_like(memory)
        memory_pad = src_pad if self.memory_mask else None
        decoded = self.body.decoder(
            self.tgt(tgt), memory, hidden, tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=memory_pad
        )
        return self.out(decoded)


class Block(nn.Module):
    """A pre-norm block whose mask (True = may attend) is handed in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        # Here True hides, and a row may not be hidden from everything, or padding on the left makes NaN.
        hidden = ~mask & mask.any(-1, keepdim=True)
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, attn_mask=hidden.repeat_interleave(4, 0))[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small language model; returns `(logits, loss)`. `reach` is the diagonal of its mask: 0 is right."""

    def __init__(self, reach: int = 0, masks_padding: bool = True) -> None:
        super().__init__()
        self.reach, self.masks_padding = reach, masks_padding
        self.embed = Embed(16)
        self.blocks = nn.ModuleList(Block(16) for _ in range(2))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, VOCAB)

    def mask(self, tokens: Tensor) -> Tensor:
        length = tokens.size(1)
        mask = torch.ones(length, length, dtype=torch.bool).tril(self.reach).expand(len(tokens), -1, -1)
        return mask & (tokens != PAD)[:, None] if self.masks_padding else mask

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.mask(tokens))
        return self.head(self.between(self.norm(x), tokens)), None

    def between(self, x: Tensor, tokens: Tensor) -> Tensor:
        return x


class Encoder(GPT):
    """The same blocks without a causal mask: `reach` far to the right."""

    def __init__(self, masks_padding: bool = True, reach: int = 99) -> None:
        super().__init__(reach, masks_padding)


class OverTheBatch(GPT):
    """Normalises over the batch, as batch norm does in training."""

    def between(self, x: Tensor, tokens: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class OverTheLength(Encoder):
    """Divides by a mean over all positions, padding included."""

    def between(self, x: Tensor, tokens: Tensor) -> Tensor:
        return x * tokens.size(1)


class AlwaysDropping(GPT):
    """Dropout that `eval()` does not stop."""

    def between(self, x: Tensor, tokens: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.1)


class ForgetsItself(GPT):
    """Logits that see earlier tokens alone, and never their own: shifted once too often."""

    def between(self, x: Tensor, tokens: Tensor) -> Tensor:
        return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)


class AloneEach(GPT):
    """No token sees another one."""

    def mask(self, tokens: Tensor) -> Tensor:
        return torch.eye(tokens.size(1), dtype=torch.bool).expand(len(tokens), -1, -1)
