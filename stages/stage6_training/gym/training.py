"""One short training run of the gym, with everything about it that a case may spoil."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ...stage5_decoder.transformer import Transformer
from .task import PAD, VOCABULARY, encode, random_words

LossOf = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """What a run is made of; the values here are those of a healthy one."""

    steps: int = 350
    batch: int = 32
    width: int = 0  # letters to which words are padded at least
    peak: float = 0.01  # the highest learning rate
    warmup: int = 50  # steps until it is reached
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float | None = 1.0
    clip_after_step: bool = False
    num_layers: int = 1
    d_model: int = 32
    dropout: float = 0.0
    norm_first: bool = True
    outliers: tuple[
        int, ...
    ] = ()  # steps at which the loss is summed, not averaged, in every run of the case
    seed: int = 0


@dataclass
class History:
    """What was written down at each step."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)  # of the whole gradient, before any clipping
    rates: list[float] = field(default_factory=list)


def make_model(settings: Settings, kind: type[Transformer] = Transformer) -> Transformer:
    torch.manual_seed(settings.seed)
    return kind(
        len(VOCABULARY),
        len(VOCABULARY),
        d_model=settings.d_model,
        num_heads=4,
        num_layers=settings.num_layers,
        d_ff=2 * settings.d_model,
        dropout=settings.dropout,
        max_len=16,
        norm_first=settings.norm_first,
    )


def mean_over_real_tokens(
    logits: Float[Tensor, "batch seq vocab"], targets: Int[Tensor, "batch seq"]
) -> Float[Tensor, ""]:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def learning_rate(step: int, settings: Settings) -> float:
    """Rise linearly to the peak, then fall linearly to 0 at the last step."""
    rising = (step + 1) / settings.warmup if settings.warmup else 1.0
    falling = (settings.steps - step) / (settings.steps - settings.warmup)
    return settings.peak * min(rising, falling)


def train(
    model: nn.Module,
    settings: Settings,
    loss_of: LossOf = mean_over_real_tokens,
    first: int = 0,
    last: int | None = None,
) -> History:
    """Train from step `first` to before step `last`; the batches depend on the seed and the step alone."""
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.peak, betas=settings.betas)
    history = History()
    model.train()
    for step in range(first, settings.steps if last is None else last):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, settings)
        src, tgt = batch_of(step, settings)
        logits = model(src, tgt[:, :-1])  # (batch, tgt_len - 1, vocab)
        loss = loss_of(logits, tgt[:, 1:])
        tokens = (tgt[:, 1:] != PAD).sum() if step in settings.outliers else 1
        optimizer.zero_grad()
        (loss * tokens).backward()
        norm = gradient_norm(model)
        if settings.clip is not None and not settings.clip_after_step:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        if settings.clip is not None and settings.clip_after_step:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        history.losses.append(loss.item())
        history.norms.append(norm)
        history.rates.append(learning_rate(step, settings))
    return history


def batch_of(step: int, settings: Settings) -> tuple[Tensor, Tensor]:
    """The fresh words of one step."""
    generator = torch.Generator().manual_seed(1000 * settings.seed + step)
    return encode(random_words(settings.batch, generator), settings.width)


def gradient_norm(model: nn.Module) -> float:
    gradients = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
    return torch.stack(gradients).norm().item()
