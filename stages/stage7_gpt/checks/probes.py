"""Tools beside the submission: a language model that is a table, and what a request cannot do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn


def change(target: Any, name: str, value: Any) -> None:
    """Assigns to an attribute."""
    setattr(target, name, value)


class TableModel(nn.Module):
    """Foretells by a table: the logits after a text are the row of its last token plus that of its first.

    The first token is that of what the model is given, so that it shows which part of a text it was.
    """

    def __init__(self, after: Tensor, first: Tensor, block_size: int) -> None:
        super().__init__()
        self.after = nn.Parameter(after)  # (vocab, vocab)
        self.first = nn.Parameter(first)  # (vocab, vocab)
        self.config = SimpleNamespace(block_size=block_size, vocab_size=len(after))
        self.calls: list[tuple[int, bool, bool]] = []
        """For each call: how many tokens it got, whether in training mode, whether gradients were recorded."""

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, None]:
        if tokens.shape[1] > self.config.block_size:
            raise ValueError(
                f"{tokens.shape[1]} tokens are more than the block_size = {self.config.block_size}"
            )
        self.calls.append((tokens.shape[1], self.training, torch.is_grad_enabled()))
        return self.after[tokens] + self.first[tokens[:, :1]], None  # (batch, seq, vocab)
