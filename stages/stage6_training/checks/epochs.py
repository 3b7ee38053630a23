"""What training makes of a tiny model: the right way, and the known wrong ways, one step after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .probes import Batches, TinyModel

Weights = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Task:
    """What `train_epoch` is asked for."""

    lr: float = 0.5
    rates: tuple[float, ...] = ()
    """The schedule: what the rate is multiplied by, step after step. Empty: there is no scheduler."""
    clip: float | None = 1e9
    """So large that nothing is clipped, where a check is about something else."""
    accumulate: int = 1
    label_smoothing: float = 0.0
    epochs: int = 1
    pad_id: int = 0
    dropout: float = 0.0


@dataclasses.dataclass(frozen=True)
class Way:
    """How it is done. The defaults are the right way, every other value is a mistake."""

    shift: str = "once"
    loss_pad_id: int | None = None
    token_pad_id: int | None = None
    """Padding in the loss, and where tokens are counted. None: the model's `pad_id`."""
    weighting: str = "tokens"
    last_group: str = "stepped"
    zero_grad: str = "each step"
    clip: str = "before the step"
    schedule: str = "after the step"
    training: bool = True
    smoothing: bool = True


RIGHT = Way()

WAYS: list[tuple[str, Way]] = [
    ("train-no-shift", Way(shift="inputs are the targets")),
    ("train-no-shift", Way(shift="targets are the inputs")),
    ("train-pad-id-fixed", Way(loss_pad_id=0)),
    ("train-pad-id-fixed", Way(loss_pad_id=0, token_pad_id=0)),
    ("train-smoothing-ignored", Way(smoothing=False)),
    ("train-zero-grad-missing", Way(zero_grad="never")),
    ("train-only-last-batch-counts", Way(zero_grad="each batch")),
    ("train-accumulate-sum", Way(weighting="sum of means")),
    ("train-mean-of-means", Way(weighting="mean of means, by accumulate")),
    ("train-mean-of-means", Way(weighting="mean of means, by group")),
    ("train-last-group-dropped", Way(last_group="dropped")),
    ("train-not-clipped", Way(clip="without effect")),
    ("train-clip-each-batch", Way(clip="each batch")),
    ("train-schedule-first", Way(schedule="before the step")),
    ("train-schedule-each-batch", Way(schedule="with each batch")),
    ("train-schedule-each-batch", Way(schedule="behind each batch")),
    ("train-schedule-each-epoch", Way(schedule="after the epoch")),
    ("train-in-eval-mode", Way(training=False)),
]


class Outcome(NamedTuple):
    """What is left of a training run."""

    weights: Tensor
    """All parameters in a row."""
    losses: list[float]
    """The mean loss of each batch of the last epoch, when it came."""
    tokens: list[int]
    """The real targets of each."""

    @property
    def mean_loss(self) -> float:
        """Per real token."""
        return sum(loss * count for loss, count in zip(self.losses, self.tokens)) / sum(self.tokens)


def in_a_row(weights: Weights) -> Tensor:
    """All weights as one vector."""
    return torch.cat([value.detach().flatten() for value in weights.values()])


def tiny_model(weights: Weights, pad_id: int = 0, dropout: float = 0.0) -> TinyModel:
    """A tiny model with these weights."""
    (src_vocab, d_model), tgt_vocab = weights["src_embed.weight"].shape, len(weights["fc_out.bias"])
    model = TinyModel(src_vocab, tgt_vocab, d_model, pad_id, dropout).to(weights["fc_out.bias"].dtype)
    model.load_state_dict(weights)
    return model


def shifted(tgt: Tensor, shift: str) -> tuple[Tensor, Tensor]:
    """Inputs and targets."""
    if shift == "inputs are the targets":
        return tgt[:, 1:], tgt[:, 1:]
    if shift == "targets are the inputs":
        return tgt[:, :-1], tgt[:, :-1]
    return tgt[:, :-1], tgt[:, 1:]


def batch_loss(model: TinyModel, src: Tensor, tgt: Tensor, task: Task, way: Way) -> tuple[Tensor, int]:
    """The mean loss of a batch, and how many real targets it has."""
    inputs, targets = shifted(tgt, way.shift)
    pad_id = task.pad_id if way.loss_pad_id is None else way.loss_pad_id
    loss = F.cross_entropy(
        model(src, inputs).flatten(0, 1),
        targets.flatten(),
        ignore_index=pad_id,
        label_smoothing=task.label_smoothing if way.smoothing else 0.0,
    )
    counted = task.pad_id if way.token_pad_id is None else way.token_pad_id
    return loss, int((shifted(tgt, "once")[1] != counted).sum())


def trained(weights: Weights, batches: Batches, task: Task, way: Way = RIGHT) -> Outcome:
    """Trains a tiny model by plain gradient descent."""
    model = tiny_model(weights, task.pad_id, task.dropout).train(way.training)
    parameters = list(model.parameters())
    gradient = [torch.zeros_like(parameter) for parameter in parameters]
    moves = 0  # how often the scheduler was called
    accumulate = task.accumulate
    losses: list[float] = []
    tokens: list[int] = []
    for _ in range(task.epochs):
        losses, tokens = [], []
        for start in range(0, len(batches), accumulate):
            group = batches[start : start + accumulate]
            if way.zero_grad == "each step":
                gradient = [torch.zeros_like(part) for part in gradient]
            computed = [batch_loss(model, src, tgt, task, way) for src, tgt in group]
            group_tokens = sum(count for _, count in computed)
            for loss, count in computed:
                if way.zero_grad == "each batch":
                    gradient = [torch.zeros_like(part) for part in gradient]
                share = _share(way.weighting, count, group_tokens, len(group), accumulate)
                parts = torch.autograd.grad(loss * share, parameters, allow_unused=True)
                gradient = [old if new is None else old + new for old, new in zip(gradient, parts)]
                if way.clip == "each batch":
                    gradient = clipped(gradient, task.clip)
                losses.append(loss.item())
                tokens.append(count)
                moves += way.schedule in ("with each batch", "behind each batch")
            if way.last_group == "dropped" and len(group) < accumulate:
                continue
            if way.clip != "without effect":
                gradient = clipped(gradient, task.clip)
            moves += way.schedule == "before the step"
            rate = task.lr * _factor(task.rates, moves - (way.schedule == "behind each batch"))
            with torch.no_grad():
                for parameter, part in zip(parameters, gradient):
                    parameter -= rate * part
            moves += way.schedule == "after the step"
        moves += way.schedule == "after the epoch"
    return Outcome(in_a_row(dict(model.named_parameters())), losses, tokens)


def _factor(rates: tuple[float, ...], moves: int) -> float:
    """What the schedule has come to; without one, 1."""
    return rates[min(moves, len(rates) - 1)] if rates else 1.0


def _share(weighting: str, count: int, group_tokens: int, group_size: int, accumulate: int) -> float:
    """What the mean loss of a batch is multiplied by."""
    return {
        "tokens": count / group_tokens,
        "sum of means": 1.0,
        "mean of means, by accumulate": 1 / accumulate,
        "mean of means, by group": 1 / group_size,
    }[weighting]


def clipped(gradient: list[Tensor], clip: float | None) -> list[Tensor]:
    """Scaled down to the norm `clip`, all together."""
    if clip is None:
        return gradient
    norm = float(torch.stack([part.norm() for part in gradient]).norm())
    return [part * min(1.0, clip / (norm + 1e-6)) for part in gradient]


def wrong_outcomes(weights: Weights, batches: Batches, task: Task) -> dict[str, list[Callable[[], Tensor]]]:
    """The weights that the known mistakes leave, by code."""
    found: dict[str, list[Callable[[], Tensor]]] = {}
    for code, way in WAYS:
        found.setdefault(code, []).append(lambda way=way: trained(weights, batches, task, way).weights)
    return found


def random_batches(
    draw: Any, lengths: Iterable[tuple[int, ...]], vocab: int, pad_id: int = 0, side: str = "right"
) -> Batches:
    """A batch for each tuple of target lengths (<sos> and <eos> included), with sources of other lengths.

    Targets are padded on the right, as `pad_batch` does it; sources on `side`.
    """
    batches = []
    for rows in lengths:
        longest = max(rows)
        tgt = torch.full((len(rows), longest), pad_id)
        for row, length in enumerate(rows):
            body = draw.integers(4, vocab, length - 2)
            tgt[row, :length] = torch.cat([torch.tensor([1]), body, torch.tensor([2])])
        sources = [length % 3 + 2 for length in rows]
        batches.append((draw.tokens(sources, vocab, pad_id, side), tgt))
    return batches
