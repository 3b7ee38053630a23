"""The reference of stage 6 in training, against F.cross_entropy, one large batch and PyTorch's own loop, in float64."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.stage5_decoder.transformer import Transformer
from solutions.stage6_training.training import (
    EarlyStopping,
    evaluate,
    noam_lr,
    pad_batch,
    sequence_loss,
    shift_right,
    train_epoch,
)

VOCAB, PAD = 11, 7
Batches = list[tuple[Tensor, Tensor]]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def a_model(dropout: float = 0.0, norm_first: bool = True) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(9, VOCAB, 12, 3, 2, 16, dropout, max_len=20, norm_first=norm_first, pad_id=PAD)
    return model.double()


def batches_of(*lengths: tuple[int, ...], seed: int = 5) -> Batches:
    """Batches whose targets have these lengths, and whose sources are shorter; PAD is the padding."""
    generator, made = torch.Generator().manual_seed(seed), []
    for rows in lengths:
        bodies = [torch.randint(3, 7, (length - 2,), generator=generator).tolist() for length in rows]
        tgt = pad_batch([[1, *body, 2] for body in bodies], pad_id=PAD)
        src = pad_batch([body[::-1] for body in bodies], pad_id=PAD)
        made.append((src, tgt))
    return made


def one_large_batch(batches: Batches) -> tuple[Tensor, Tensor]:
    sources = [row.tolist() for src, _ in batches for row in src]
    targets = [row.tolist() for _, tgt in batches for row in tgt]
    return pad_batch(sources, pad_id=PAD), pad_batch(targets, pad_id=PAD)


def assert_same_weights(left: nn.Module, right: nn.Module) -> None:
    for (name, a), b in zip(left.named_parameters(), right.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10, msg=name)


# pad_batch, shift_right


@pytest.mark.parametrize(
    ("max_len", "expected"),
    [
        (None, [[1, 5, 6, 8, 2], [4, 5, 6, 9, 9], [3, 9, 9, 9, 9]]),
        (5, [[1, 5, 6, 8, 2], [4, 5, 6, 9, 9], [3, 9, 9, 9, 9]]),
        (3, [[1, 5, 2], [4, 5, 6], [3, 9, 9]]),
        (2, [[1, 2], [4, 5], [3, 9]]),
        (1, [[2], [4], [3]]),
    ],
)
def test_padding_and_cutting(max_len: int | None, expected: list[list[int]]) -> None:
    sequences = [[1, 5, 6, 8, 2], [4, 5, 6], [3]]
    before = copy.deepcopy(sequences)
    batch = pad_batch(sequences, pad_id=9, max_len=max_len)
    assert batch.dtype == torch.int64
    assert batch.tolist() == expected
    assert sequences == before


def test_padding_of_little() -> None:
    assert pad_batch([[], [4]]).tolist() == [[0], [4]]
    assert pad_batch([]).shape == (0, 0)
    with pytest.raises(ValueError, match="max_len is 0"):
        pad_batch([[4]], max_len=0)


def test_each_input_has_the_next_token_as_its_target() -> None:
    inputs, targets = shift_right(torch.tensor([[1, 5, 6, 2], [1, 8, 2, 0]]))
    assert inputs.tolist() == [[1, 5, 6], [1, 8, 2]]
    assert targets.tolist() == [[5, 6, 2], [8, 2, 0]]


# sequence_loss


@pytest.mark.parametrize(("smoothing", "pad_id"), list(itertools.product([0.0, 0.1, 0.5], [0, 4])))
def test_loss_and_gradient_are_those_of_cross_entropy(smoothing: float, pad_id: int) -> None:
    targets = torch.randint(0, 6, (3, 5), generator=torch.Generator().manual_seed(1))
    assert (targets == pad_id).any()
    ours, theirs = (normal(5, 3, 6).transpose(0, 1).clone().requires_grad_() for _ in range(2))
    loss = sequence_loss(ours, targets, pad_id, smoothing)
    expected = F.cross_entropy(
        theirs.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=smoothing
    )
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (gradient,), (wanted,) = torch.autograd.grad(loss, ours), torch.autograd.grad(expected, theirs)
    torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_loss_without_real_targets_is_zero(dtype: torch.dtype) -> None:
    logits = torch.randn(2, 3, 5).to(dtype).requires_grad_()
    loss = sequence_loss(logits, torch.full((2, 3), 4), pad_id=4, label_smoothing=0.1)
    assert loss.dtype == dtype
    assert loss.item() == 0.0
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.tolist() == torch.zeros(2, 3, 5).tolist()


def test_loss_takes_slices_and_large_logits() -> None:
    tgt, logits = torch.randint(1, 6, (3, 6)), 1e4 * normal(3, 10, 6)[:, ::2]
    expected = F.cross_entropy(logits.reshape(-1, 6), tgt[:, 1:].reshape(-1), ignore_index=0)
    torch.testing.assert_close(sequence_loss(logits, tgt[:, 1:]), expected)


# noam_lr


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (64, 7), (128, 1)])
def test_learning_rate_is_the_papers(d_model: int, warmup: int) -> None:
    rates = [noam_lr(step, d_model, warmup) for step in range(1, 4 * warmup + 1)]
    assert rates == [d_model**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in range(1, 4 * warmup + 1)]
    assert max(range(len(rates)), key=rates.__getitem__) + 1 == warmup
    assert noam_lr(warmup, d_model, warmup) == pytest.approx((d_model * warmup) ** -0.5)
    assert noam_lr(4 * warmup, d_model, warmup) == pytest.approx(noam_lr(warmup, d_model, warmup) / 2)
    assert math.isfinite(noam_lr(0, d_model, warmup))


def test_under_lambda_lr_the_base_rate_is_1() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: noam_lr(step + 1, 64, 10))
    used = []
    for _ in range(25):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert used == [noam_lr(step, 64, 10) for step in range(1, 26)]
    assert max(used) == pytest.approx((64 * 10) ** -0.5)


# train_epoch


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_an_epoch_is_pytorchs_own_loop(norm_first: bool, smoothing: float) -> None:
    batches = batches_of((6, 4), (3, 7, 5), (4, 4))
    ours, theirs = a_model(norm_first=norm_first), a_model(norm_first=norm_first)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3) for model in (ours, theirs)]
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) for optimizer in optimizers]
    loss = train_epoch(ours, batches, optimizers[0], schedules[0], clip=0.3, label_smoothing=smoothing)
    total, count = 0.0, 0
    for src, tgt in batches:
        optimizers[1].zero_grad()
        logits, targets = theirs(src, tgt[:, :-1]), tgt[:, 1:]
        summed = F.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing
        )
        real = int((targets != PAD).sum())
        (summed / real).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.3)
        optimizers[1].step()
        schedules[1].step()
        total, count = total + summed.item(), count + real
    assert_same_weights(ours, theirs)
    assert isinstance(loss, float)
    assert loss == pytest.approx(total / count, rel=1e-12)
    assert schedules[0].get_last_lr() == schedules[1].get_last_lr()


@pytest.mark.parametrize("accumulate", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_accumulated_batches_equal_one_large_batch(accumulate: int, clip: float | None) -> None:
    batches = batches_of((7, 6), (3,), (4, 3, 5), (3, 3), (8, 7))
    groups = [batches[start : start + accumulate] for start in range(0, len(batches), accumulate)]
    ours, theirs = a_model(), a_model()
    first, second = (torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9) for model in (ours, theirs))
    loss = train_epoch(ours, iter(batches), first, clip=clip, accumulate=accumulate)
    expected = train_epoch(theirs, [one_large_batch(group) for group in groups], second, clip=clip)
    assert_same_weights(ours, theirs)
    assert loss == pytest.approx(expected, rel=1e-10)


def test_an_epoch_is_in_training_mode_and_changes_no_batch() -> None:
    batches = batches_of((6, 4), (3, 7))
    before = copy.deepcopy(batches)
    losses = set()
    for seed in range(2):
        model = a_model(dropout=0.5).eval()
        torch.manual_seed(seed)
        losses.add(train_epoch(model, batches, torch.optim.SGD(model.parameters(), lr=0.1)))
        assert model.training
    assert len(losses) == 2
    for pair, old in zip(batches, before):
        assert all(torch.equal(a, b) for a, b in zip(pair, old))


def test_a_batch_of_padding_harms_nothing() -> None:
    batches = batches_of((6, 4), (3, 5))
    padding = (torch.full((2, 3), 4), torch.full((2, 4), PAD))
    ours, theirs = a_model(), a_model()
    first, second = (torch.optim.SGD(model.parameters(), lr=0.5) for model in (ours, theirs))
    loss = train_epoch(ours, [batches[0], padding, padding, batches[1]], first)
    assert loss == pytest.approx(train_epoch(theirs, batches, second), rel=1e-12)
    assert_same_weights(ours, theirs)


@pytest.mark.parametrize("batches", [[], [(torch.full((2, 3), 4), torch.full((2, 4), PAD))]])
def test_nothing_to_learn_from_is_an_error(batches: Batches) -> None:
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with pytest.raises(ValueError, match="no real target"):
        train_epoch(model, batches, optimizer)
    with pytest.raises(ValueError, match="no real target"):
        evaluate(model, batches)
    with pytest.raises(ValueError, match="accumulate is 0"):
        train_epoch(model, batches_of((3,)), optimizer, accumulate=0)


# evaluate


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_equals_one_large_batch_and_restores_the_mode(training: bool) -> None:
    batches = batches_of((8, 7, 8), (3,), (4, 3))
    model = a_model(dropout=0.5).train(training)
    before = copy.deepcopy(model.state_dict())
    loss = evaluate(model, iter(batches))
    assert model.training is training
    src, tgt = one_large_batch(batches)
    logits = copy.deepcopy(model).eval()(src, tgt[:, :-1])
    expected = F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD)
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()


# EarlyStopping

NAN = math.nan


@pytest.mark.parametrize(
    ("losses", "patience", "min_delta", "answers", "best"),
    [
        ([3, 2, 2.5, 1, 1.5, 1.2], 2, 0.0, "-----x", 1),
        ([2, 3], 1, 0.0, "-x", 2),
        ([2, 2, 2], 2, 0.0, "--x", 2),
        ([1, 0.875, 0.75], 2, 0.5, "--x", 1),
        ([1, 0.5, 0.5], 2, 0.5, "--x", 1),
        ([1, 0.375, 0.25, 0.25], 2, 0.5, "---x", 0.375),
        ([NAN, NAN, 1], 2, 0.0, "-x-", 1),
        ([1, NAN, NAN], 2, 0.0, "--x", 1),
        ([math.inf, 5], 1, 0.0, "x-", 5),
    ],
)
def test_early_stopping(
    losses: list[float], patience: int, min_delta: float, answers: str, best: float
) -> None:
    stopping = EarlyStopping(patience, min_delta)
    assert "".join("-x"[stopping.step(loss)] for loss in losses) == answers
    assert stopping.best_loss == best
    assert stopping.best_state is None


def test_the_best_weights_are_kept_as_a_copy() -> None:
    model, stopping = a_model(), EarlyStopping(3)
    best = copy.deepcopy(model.state_dict())
    stopping.step(1.0, model)
    for loss in (NAN, 2.0):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1
        stopping.step(loss, model)
    assert stopping.best_state is not None
    assert all(torch.equal(stopping.best_state[name], value) for name, value in best.items())
    model.load_state_dict(stopping.best_state)
    with pytest.raises(ValueError, match="patience is 0"):
        EarlyStopping(0)
