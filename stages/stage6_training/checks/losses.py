"""The loss of a batch, and what comes out when one of the known mistakes is in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor, int, float], Tensor]


def right(logits: Tensor, targets: Tensor, pad_id: int = 0, smoothing: float = 0.0) -> Tensor:
    """PyTorch's own; NaN where there is no real target."""
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
    )


def summed(logits: Tensor, targets: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Summed over the real tokens."""
    return right(logits, targets, pad_id, smoothing) * (targets != pad_id).sum()


def mean_of_sentences(logits: Tensor, targets: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Every sentence with the same weight, whatever its length."""
    rows = [right(logits[[i]], targets[[i]], pad_id, smoothing) for i in range(len(targets))]
    return sum(rows[1:], rows[0]) / len(rows)


def reshaped(logits: Tensor, targets: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """The class axis brought to place 1 by reshape, which mixes classes and positions."""
    batch, seq, vocab = logits.shape
    wrong = logits.reshape(batch, vocab, seq)
    return F.cross_entropy(wrong, targets, ignore_index=pad_id, label_smoothing=smoothing)


def smoothed_over_the_others(logits: Tensor, targets: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """The right token gets 1 - ε, and each of the others ε / (vocab - 1)."""
    log_probs, vocab = logits.log_softmax(-1), logits.shape[-1]
    nll = -log_probs.gather(-1, targets[..., None])[..., 0]
    others = -log_probs.sum(-1) - nll
    losses = (1 - smoothing) * nll + smoothing / (vocab - 1) * others
    return losses[targets != pad_id].mean()


WRONG: dict[str, Loss] = {
    "loss-counts-pads": lambda logits, targets, pad_id, eps: right(logits, targets, -100, eps),
    "loss-pad-id-fixed": lambda logits, targets, pad_id, eps: right(logits, targets, 0, eps),
    "loss-divided-by-all-positions": lambda logits, targets, pad_id, eps: (
        summed(logits, targets, pad_id, eps) / targets.numel()
    ),
    "loss-mean-of-sentences": mean_of_sentences,
    "loss-reshaped": reshaped,
    "loss-of-probabilities": lambda logits, targets, pad_id, eps: right(
        logits.softmax(-1), targets, pad_id, eps
    ),
    "loss-smoothing-ignored": lambda logits, targets, pad_id, eps: right(logits, targets, pad_id, 0.0),
    "loss-smoothing-excludes-target": smoothed_over_the_others,
}


def mistakes(
    logits: Tensor, targets: Tensor, pad_id: int = 0, smoothing: float = 0.0
) -> dict[str, Callable[[], Tensor]]:
    """What wrong losses give, by the code of the mistake."""
    return {code: partial(wrong, logits, targets, pad_id, smoothing) for code, wrong in WRONG.items()}
