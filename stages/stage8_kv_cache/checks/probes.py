"""Tools beside a submission in the worker: attentions of a known difference and a known slowness."""

from __future__ import annotations

import math

from torch import Tensor, nn


class Attention(nn.Module):
    """Attention in plain steps; `below` is taken off one number of the output, `times` says how often all is done."""

    def __init__(self, below: float = 0.0, times: int = 1) -> None:
        super().__init__()
        self.below, self.times = below, times

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Output and weights."""
        for _ in range(self.times):
            scores = query @ key.mT / math.sqrt(query.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            weights = scores.softmax(-1)
            output = weights @ value
        output = output.clone()
        output.view(-1)[-1] -= self.below
        return output, weights


# What stands in earlier stages


def gpt(**settings: object) -> nn.Module:
    """A GPT of stage 7."""
    from ..stage7_gpt.gpt import GPT, GPTConfig

    return GPT(GPTConfig(**settings))


def generate(*args: object, **settings: object) -> Tensor:
    """`generate` of stage 7."""
    from ..stage7_gpt.generation import generate as write

    return write(*args, **settings)


def transformer(*sizes: int, **settings: object) -> nn.Module:
    """A Transformer of stage 5."""
    from ..stage5_decoder.transformer import Transformer

    return Transformer(*sizes, **settings)
