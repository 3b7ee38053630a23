"""The settings of a run that trains a GPT on characters.

Given, not an exercise.
"""

import math
from dataclasses import dataclass

from ..stage6_training.settings import BadInput, RunSettings, option
from .gpt import GPTConfig


@dataclass(frozen=True)
class Settings(RunSettings):
    """What a model is and how it is trained. A run goes on only with the settings it began with.

    The defaults are those that nanoGPT recommends for a laptop without a GPU, with rotary positions: they learn faster.
    """

    block_size: int = 64
    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 4
    d_ff: int = 0  # 0: 4 * d_model
    dropout: float = 0.0
    position: str = "rotary"
    norm: str = "layer"
    mlp: str = "gelu"
    bias: int = 1
    batch_size: int = 12
    steps: int = 2000
    every: int = 250  # steps from one look at the validation part to the next
    lr: float = 1e-3
    min_lr: float = 1e-4  # at the last step
    warmup: int = 100
    beta2: float = 0.99
    weight_decay: float = 0.1
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `BadInput`, naming the option, where no model or no run can be made of the numbers."""
        for name in ("batch_size", "steps", "every", "warmup"):
            if getattr(self, name) < 1:
                raise BadInput(f"{option(name)} is {getattr(self, name)}; it should be at least 1")
        for name in ("lr", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadInput(f"{option(name)} is {getattr(self, name)}; it should be above 0")
        if not 0 <= self.min_lr <= self.lr:
            raise BadInput(f"--min-lr is {self.min_lr}; it should be from 0 to --lr {self.lr}")
        if not 0 <= self.beta2 < 1:
            raise BadInput(f"--beta2 is {self.beta2}; it should be from 0 to below 1")
        if not 0 <= self.weight_decay < math.inf:
            raise BadInput(f"--weight-decay is {self.weight_decay}; it should be at least 0")
        if not 0 <= self.seed < 2**31:
            raise BadInput(f"--seed is {self.seed}; it should be from 0 to {2**31 - 1}")
        self.config(vocab_size=1)

    def config(self, vocab_size: int) -> GPTConfig:
        """The config of the model. Raises `BadInput` where your `GPTConfig` refuses it."""
        try:
            return GPTConfig(
                vocab_size=vocab_size,
                block_size=self.block_size,
                d_model=self.d_model,
                num_heads=self.num_heads,
                num_layers=self.num_layers,
                d_ff=self.d_ff or None,
                dropout=self.dropout,
                position=self.position,
                norm=self.norm,
                mlp=self.mlp,
                bias=bool(self.bias),
            )
        except ValueError as error:
            raise BadInput(f"no GPT can be made of these options: {error}") from None

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0: a linear warm-up, then half a cosine down to `min_lr`."""
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * done)) / 2
