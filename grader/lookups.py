"""Puts other vectors in the place of padding, wherever a model looks its tokens up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class OtherPadding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, a lookup of `tokens` gives random vectors where `padding`, (batch, seq), is True.

    A lookup is `nn.Embedding`, `F.embedding`, `weight[tokens]` or `index_select`. Masks see the tokens as they are.
    """

    def __init__(self, tokens: Tensor, padding: Tensor, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokens = tokens.flatten()
        self.padding = padding.flatten()
        self.generator = generator
        self.found = False
        """Whether there was such a lookup."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        indices = _indices(func, args)
        if indices is None or indices.dtype not in (torch.int64, torch.int32):
            return output
        if indices.numel() != self.tokens.numel() or not torch.equal(
            indices.flatten(), self.tokens.to(indices)
        ):
            return output
        self.found = True
        return self._disturbed(output, indices)

    def _disturbed(self, output: Tensor, indices: Tensor) -> Tensor:
        if not output.is_floating_point():
            return output
        noise = torch.randn(output.shape, generator=self.generator).to(output) * (1 + output.std())
        padding = self.padding.view(indices.shape)
        return torch.where(padding.view(*indices.shape, *[1] * (output.dim() - indices.dim())), noise, output)


def _indices(func: Callable[..., Any], args: tuple[Any, ...]) -> Tensor | None:
    """The indices of a lookup along the first axis of a table; None for any other operation."""
    if func is aten.embedding.default:
        indices = args[1]
    elif func is aten.index_select.default and args[1] == 0:
        indices = args[2]
    elif func is aten.index.Tensor and len(args[1]) == 1:
        indices = args[1][0]
    else:
        return None
    return indices if isinstance(indices, Tensor) else None
