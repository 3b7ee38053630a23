"""Fresh numbers for checks, drawn on the CPU from the run's seed and the check's name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch


class Draw:
    """The source of a check's inputs."""

    def __init__(self, seed: int, check_id: str, device: str = "cpu") -> None:
        digest = hashlib.sha256(f"{seed}/{check_id}".encode()).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        self.exact = torch.float32 if device == "mps" else torch.float64
        """The widest float type of the device."""

    def normal(
        self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, shift: float = 0.0
    ) -> torch.Tensor:
        """Normal numbers."""
        exact = torch.randn(*shape, generator=self._generator, dtype=torch.float64)
        return (exact * scale + shift).to(dtype)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 in [low, high)."""
        return torch.randint(low, high, shape, generator=self._generator)

    def integer(self, low: int, high: int) -> int:
        """One int in [low, high)."""
        return int(self.integers(low, high, 1))

    def sizes(self, count: int, low: int, high: int) -> list[int]:
        """`count` different ints in [low, high)."""
        order = torch.randperm(high - low, generator=self._generator)[:count]
        return [low + int(item) for item in order]

    def tokens(
        self, lengths: Sequence[int], vocab: int, pad_id: int = 0, side: str = "right", low: int = 4
    ) -> torch.Tensor:
        """`(batch, longest)` ids in [low, vocab), padded on one side."""
        longest = max(lengths)
        batch = torch.full((len(lengths), longest), pad_id)
        for row, length in enumerate(lengths):
            ids = self.integers(low, vocab, length)
            where = slice(0, length) if side == "right" else slice(longest - length, longest)
            batch[row, where] = ids
        return batch

    def mask(self, *shape: int, keep: float = 0.6) -> torch.Tensor:
        """bool; each row of the last axis keeps at least one and, where it has more than one, hides at least one."""
        chance = torch.rand(*shape, generator=self._generator)
        kept = chance < keep
        kept |= chance == chance.amin(-1, keepdim=True)
        if shape[-1] > 1:
            kept &= chance != chance.amax(-1, keepdim=True)
        return kept

    def permutation(self, n: int) -> torch.Tensor:
        """A permutation of range(n), not the identity."""
        order = torch.randperm(n, generator=self._generator)
        return order.roll(1) if n > 1 and bool((order == torch.arange(n)).all()) else order

    def weights(
        self, shapes: Mapping[str, Sequence[int]], dtype: torch.dtype = torch.float32
    ) -> dict[str, torch.Tensor]:
        """A random state dict: matrices normal over sqrt(fan-in), vectors normal, norm weights around 1."""
        found = {}
        for name, shape in shapes.items():
            if len(shape) >= 2:
                found[name] = self.normal(*shape, dtype=dtype, scale=1 / math.sqrt(shape[-1]))
            elif name.endswith("weight"):
                found[name] = self.normal(*shape, dtype=dtype, scale=0.3, shift=1.0)
            else:
                found[name] = self.normal(*shape, dtype=dtype, scale=0.5)
        return found
