"""Tools beside a submission in the worker: a tiny model, optimisers, schedules, batches. They hold no answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

Batches = list[tuple[Tensor, Tensor]]


class TinyModel(nn.Module):
    """A model with the Transformer's interface, small enough to be followed by hand.

    Position i of the target knows its own token and the mean of the source's real tokens:
    `logits[i] = fc_out(dropout(tanh(tgt_embed(tgt[i]) + mean(src_embed(src)))))`.
    With dropout 1 nothing but fc_out's bias is left in training mode: so the mode shows in the logits.
    """

    def __init__(
        self, src_vocab: int, tgt_vocab: int, d_model: int, pad_id: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.src_embed = nn.Embedding(src_vocab, d_model)
        self.tgt_embed = nn.Embedding(tgt_vocab, d_model)
        self.dropout = nn.Dropout(dropout)
        self.fc_out = nn.Linear(d_model, tgt_vocab)
        self.modes: list[tuple[bool, bool]] = []
        """For each forward pass, whether it was in training mode and whether gradients were recorded."""

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """The memory (batch, src_len, d_model); the mask plays no part here."""
        return self.src_embed(src)

    def decode(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Hidden states (batch, tgt_len, d_model); `memory_mask` (batch, 1, 1, src_len) is True on real tokens."""
        real = torch.ones_like(memory[..., :1])  # (batch, src_len, 1)
        if memory_mask is not None:
            real = memory_mask[:, 0, 0, :, None].to(memory.dtype)
        mean = (memory * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        return self.dropout(torch.tanh(self.tgt_embed(tgt) + mean))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Logits (batch, tgt_len, tgt_vocab)."""
        self.modes.append((self.training, torch.is_grad_enabled()))
        real = (src != self.pad_id)[:, None, None, :]
        return self.fc_out(self.decode(tgt, self.encode(src, real), None, real))


# What training needs


def sgd(model: nn.Module, lr: float = 1.0) -> torch.optim.Optimizer:
    """Plain gradient descent: an update shows the gradient, where Adam hides its size."""
    return torch.optim.SGD(model.parameters(), lr=lr)


def schedule(optimizer: torch.optim.Optimizer, rates: list[float]) -> Any:
    """A scheduler that sets `rates` one after the other, times the optimizer's own rate; the last one stays."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rates[min(step, len(rates) - 1)])


def stream(batches: Batches) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches on the CPU, one after the other, once, and without a length."""
    for src, tgt in batches:
        yield src.cpu(), tgt.cpu()


def grad_enabled() -> bool:
    """Whether this process records gradients now."""
    return torch.is_grad_enabled()


# Real training, small


def transformer(vocab: int, d_model: int = 64, num_layers: int = 1, seed: int = 0) -> nn.Module:
    """A real Transformer with both vocabularies of one size, from stage 5, and without dropout."""
    from ..stage5_decoder.transformer import Transformer

    torch.manual_seed(seed)
    return Transformer(
        vocab, vocab, d_model, num_heads=4, num_layers=num_layers, d_ff=2 * d_model, dropout=0.0, max_len=64
    )


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """Adam as in the paper, with the base learning rate 1: the schedule gives the rate itself."""
    return torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98))


def rise_and_fall(optimizer: torch.optim.Optimizer, peak: float, warmup: int, steps: int) -> Any:
    """A linear warm-up to `peak`, then a linear decay to 0 at `steps`."""

    def rate(step: int) -> float:
        return peak * max(0.0, min((step + 1) / warmup, (steps - step) / (steps - warmup)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def greedy(model: nn.Module, src: Tensor, max_len: int) -> Tensor:
    """The most probable token, again and again: ids (batch, max_len) that begin with <sos>; <eos> ends nothing."""
    model.eval()
    written = torch.ones_like(src[:, :1])  # <sos>
    with torch.no_grad():
        for _ in range(max_len - 1):
            best = model(src, written)[:, -1].argmax(-1, keepdim=True)
            written = torch.cat([written, best], dim=1)
    return written


# Arguments that a request cannot carry


def scratch_file(name: str) -> str:
    """A path where the submission may write."""
    return os.path.join(tempfile.mkdtemp(), name)


def text_of(path: str) -> str:
    """What a file holds."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def sequences_after_padding(sequences: list[list[int]], max_len: int) -> list[list[int]]:
    """The sequences, after `pad_batch` had them."""
    from .training import pad_batch

    pad_batch(sequences, max_len=max_len)
    return sequences


# Decoding


class TableModel(nn.Module):
    """A model that is a table: for each source and each beginning of a target, the logits of what comes next.

    `tables` has one table for each source token: `{"7": {"1 4": [logits after <sos> 4], ..., "otherwise": [...]}}`.
    The first token of a source that is no padding says which table holds. Masks play no part here. `fc_out`
    changes nothing: what `decode` returns are the logits already.
    """

    def __init__(self, tables: dict[str, dict[str, list[float]]], pad_id: int = 0) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.tables = tables
        vocab = len(next(iter(tables.values()))["otherwise"])
        self.fc_out = nn.Linear(vocab, vocab)
        with torch.no_grad():
            self.fc_out.weight.copy_(torch.eye(vocab))
            self.fc_out.bias.zero_()
        self.encoded_rows = 0
        """How many rows the encoder has read so far."""
        self.modes: list[tuple[bool, bool]] = []
        """For each pass of the decoder, whether it was in training mode and whether gradients were recorded."""

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """The memory (batch, src_len, vocab): the number of the row's table everywhere."""
        self.encoded_rows += len(src)
        first = (src != self.pad_id).to(torch.int64).argmax(dim=1, keepdim=True)
        number = src.gather(1, first).to(self.fc_out.weight.dtype)  # (batch, 1)
        return number[:, :, None].expand(-1, src.shape[1], self.fc_out.in_features).clone()

    def decode(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """The logits (batch, tgt_len, vocab) after each beginning of the target."""
        if len(tgt) != len(memory):
            raise ValueError(f"the target has batch size {len(tgt)}, the source {len(memory)}")
        self.modes.append((self.training, torch.is_grad_enabled()))
        numbers = memory[:, 0, 0].round().to(torch.int64).tolist()
        rows = []
        for number, ids in zip(numbers, tgt.tolist()):
            table, prefix = self.tables[str(number)], []
            for index in ids:
                prefix.append(str(index))
                rows.append(table.get(" ".join(prefix), table["otherwise"]))
        logits = torch.tensor(rows, dtype=self.fc_out.weight.dtype, device=tgt.device)
        return logits.view(*tgt.shape, -1)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Logits (batch, tgt_len, vocab)."""
        return self.fc_out(self.decode(tgt, self.encode(src)))
