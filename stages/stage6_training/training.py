"""Training: batches, the loss, the learning rate, one epoch, and when to stop."""

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

EOS_ID = 2  # `<eos>` in every vocabulary of this course

Batch = tuple[Int[Tensor, "batch src_len"], Int[Tensor, "batch tgt_len"]]


def pad_batch(
    sequences: Sequence[Sequence[int]], pad_id: int = 0, max_len: int | None = None
) -> Int[Tensor, "batch longest"]:
    """Lay sequences of ids below each other in one int64 tensor, filled up with `pad_id` on the right.

    A sequence longer than `max_len` is cut to `max_len` ids; if it ended in `<eos>` (id 2), it still ends
    in `<eos>`. The tensor is as wide as the longest sequence that is left, not wider. The sequences
    themselves are not modified.

    Raises `ValueError` where `max_len` is below 1.
    """
    raise NotImplementedError


def shift_right(
    batch: Int[Tensor, "batch tgt_len"],
) -> tuple[Int[Tensor, "batch tgt_len-1"], Int[Tensor, "batch tgt_len-1"]]:
    """Make the decoder's input and its target for teacher forcing: `(inputs, targets)`.

    At each position the decoder reads the right token and should name the one after it. For a row
    `<sos> a b <eos>` the inputs are `<sos> a b` and the targets `a b <eos>`.

    Source: "Attention Is All You Need", section 3.1: "the output embeddings are offset by one position".
    """
    raise NotImplementedError


def sequence_loss(
    logits: Float[Tensor, "batch seq vocab"],
    targets: Int[Tensor, "batch seq"],
    pad_id: int = 0,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Average the cross-entropy over the real targets; where the target is `pad_id`, nothing counts.

    With label smoothing ε the model should give the right token the probability 1 - ε, and share ε
    equally among all `vocab` tokens, the right one (and `<pad>`) included: that is the rule of
    `F.cross_entropy`, which you may use. The result is a scalar tensor of the logits' dtype. Without any
    real target it is 0, not NaN.

    Source: "Attention Is All You Need", section 5.4; "Rethinking the Inception Architecture for Computer
    Vision" (Szegedy et al., 2016), section 7, for the smoothing.
    """
    raise NotImplementedError


def noam_lr(step: int, d_model: int, warmup: int) -> float:
    """Give the paper's learning rate: it rises linearly for `warmup` steps, then falls as 1 / sqrt(step).

    `d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)`. The two terms meet at step `warmup`, the peak.
    This is the learning rate itself, not a factor: under `LambdaLR` the base learning rate must be 1.

    Steps count from 1. PyTorch's schedulers count from 0, so at step 0 there must be a finite number too.

    Source: "Attention Is All You Need", section 5.3, equation 3.
    """
    raise NotImplementedError


def train_epoch(
    model: nn.Module,
    batches: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    scheduler: Any = None,
    clip: float | None = 1.0,
    accumulate: int = 1,
    device: str | torch.device = "cpu",
    label_smoothing: float = 0.0,
) -> float:
    """Train once on all `batches`, in training mode; return the mean loss per real target token.

    `batches` is any iterable of `(src, tgt)`, ids of shape `(batch, src_len)` and `(batch, tgt_len)`, `tgt`
    with `<sos>` and `<eos>`; it may be a generator, and is gone through once. `src` and `tgt` are moved to
    `device`. The model is called as `model(src, inputs)` with inputs and targets from `shift_right`, and
    its `pad_id` says what padding is.

    - **Accumulation.** One step is made for each `accumulate` batches, and for what is left at the end of
      the epoch. The gradient of a step is that of one large batch made of these batches: the gradient of
      the mean loss over all their real tokens, also where one of them has more of these than another.
    - **Clipping.** Before each step the gradient of all parameters together is scaled down to the norm
      `clip`, where it is longer (`nn.utils.clip_grad_norm_`). None clips nothing.
    - **Schedule.** If there is a `scheduler`, its `step()` is called once after each step of the optimizer.

    The result is a Python float: the losses of all real tokens of the epoch, summed, by their number.
    Raises `ValueError` where `accumulate` is below 1, and where the batches hold no real target at all.
    """
    raise NotImplementedError


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch], device: str | torch.device = "cpu") -> float:
    """Measure the mean loss per real target token of all `batches`, without learning anything.

    As in `train_epoch`, but in eval mode, without label smoothing, and without building a graph for
    gradients. Afterwards the model is in the mode, training or eval, that it was in before.

    Raises `ValueError` where the batches hold no real target at all.
    """
    raise NotImplementedError


class EarlyStopping:
    """Watch the validation loss: keep the best weights, and say when it is time to stop.

    `best_loss` is the loss of the last gain, infinity before the first one. `best_state` is the model's
    state dict at that moment, as a copy that later training does not change; None before.
    """

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        """Stop after `patience` losses in a row without a gain.

        A loss is a gain where it is lower than `best_loss` by more than `min_delta`. NaN is never a gain.
        Raises `ValueError` where `patience` is below 1.
        """
        raise NotImplementedError

    def step(self, loss: float, model: nn.Module | None = None) -> bool:
        """Take the loss of one more epoch; return True once `patience` losses in a row brought no gain.

        After a gain the count begins anew, and the weights of `model`, if one is given, are kept in
        `best_state`.
        """
        raise NotImplementedError
