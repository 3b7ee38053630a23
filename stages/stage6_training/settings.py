"""The settings of a training run, and the error for what a person can put right.

Given, not an exercise.
"""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any


class BadInput(Exception):
    """Something that was given cannot be used: a file, an option, a sentence. The message is one line."""


@dataclass(frozen=True)
class Settings:
    """What a model is and how it is trained. A run goes on only with the settings it began with."""

    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 4
    d_ff: int = 512
    dropout: float = 0.1
    max_len: int = 64  # tokens of a sentence, <sos> and <eos> included
    batch_size: int = 64
    accumulate: int = 1
    warmup: int = 100
    lr_factor: float = 0.5  # times the paper's learning rate, which is high for so short a warm-up
    label_smoothing: float = 0.0
    clip: float = 1.0
    min_freq: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `BadInput`, naming the option, where no model or no run can be made of the numbers."""
        counts = "d_model num_heads num_layers d_ff batch_size accumulate warmup min_freq".split()
        for name in counts:
            if getattr(self, name) < 1:
                raise BadInput(f"{option(name)} is {getattr(self, name)}; it should be at least 1")
        if self.d_model % 2 or self.d_model % self.num_heads:
            raise BadInput(
                f"--d-model is {self.d_model}; it should be even, and a multiple of --num-heads {self.num_heads}"
            )
        if self.max_len < 3:
            raise BadInput(f"--max-len is {self.max_len}; <sos>, one token and <eos> need 3")
        for name in ("dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise BadInput(f"{option(name)} is {getattr(self, name)}; it should be from 0 to below 1")
        for name in ("clip", "lr_factor"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadInput(f"{option(name)} is {getattr(self, name)}; it should be above 0")
        if not 0 <= self.seed < 2**31:
            raise BadInput(f"--seed is {self.seed}; it should be from 0 to {2**31 - 1}")

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Settings":
        """Take from `values` what belongs here, and leave the rest."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def differences(self, other: "Settings") -> list[str]:
        """Say in which options two settings differ, `other`'s value last."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{option(name)} {mine[name]}, not {theirs[name]}" for name in mine if mine[name] != theirs[name]
        ]


def option(name: str) -> str:
    """Turn the name of a setting into the option that sets it: `d_model` into `--d-model`."""
    return "--" + name.replace("_", "-")
