"""The settings of a training run, what options have to be, and the error for what a person can put right.

Given, not an exercise.
"""

import argparse
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch


class BadInput(Exception):
    """Something that was given cannot be used: a file, an option, a sentence. The message is one line."""


class RunSettings:
    """What the settings of all runs can do; those of one kind of run are a dataclass on top of it."""

    @classmethod
    def of(cls, values: dict[str, Any]) -> Any:
        """Take from `values` what belongs here, and leave the rest."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def differences(self, other: Any) -> list[str]:
        """Say in which options two settings differ, `other`'s value last."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{option(name)} {mine[name]}, not {theirs[name]}" for name in mine if mine[name] != theirs[name]
        ]


@dataclass(frozen=True)
class Settings(RunSettings):
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


def option(name: str) -> str:
    """Turn the name of a setting into the option that sets it: `d_model` into `--d-model`."""
    return "--" + name.replace("_", "-")


def positive(text: str) -> int:
    """What argparse makes of an option that counts something."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def check_device(name: str) -> None:
    """Raise `BadInput` where there is no such device."""
    try:
        torch.zeros(1, device=name)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).split("\n")[0]
        raise BadInput(f"--device {name} does not work here: {reason}; give cpu, cuda or mps") from None
