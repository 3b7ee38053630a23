"""Checks of training, stage 6, that learners may read."""

from __future__ import annotations

import torch

from grader.checks import check, expect, mistake

from . import losses
from .epochs import Task, random_batches, trained
from .objects import an_object
from .parts import made_of
from .stopping import expect_answers, same_state, state_of
from .training_runs import TGT_VOCAB, expect_trained, new_model, train

# pad_batch


@check("pad_batch", points=2)
def test_sequences_are_padded_on_the_right(submission, draw):
    """pad_batch lays sequences below each other and fills the short ones up on the right."""
    sequences = [draw.integers(3, 30, length).tolist() for length in (3, 6, 2)]
    expected = torch.zeros(3, 6, dtype=torch.int64)
    left = torch.zeros(3, 6, dtype=torch.int64)
    for row, sequence in enumerate(sequences):
        expected[row, : len(sequence)] = torch.tensor(sequence)
        left[row, 6 - len(sequence) :] = torch.tensor(sequence)
    returned = submission.pad_batch(sequences)
    expect(without_more_padding(returned, 6), "the padded batch", dims="sequence position").equals(
        expected, mistakes={"pad-on-the-left": left}
    )


@check("pad_batch", points=2)
def test_a_sequence_that_is_cut_still_ends_in_eos(submission, draw):
    """pad_batch cuts what is longer than max_len, and a sequence that ended in <eos> still ends in <eos>."""
    body = draw.integers(3, 30, 9).tolist()
    sequences = [[1, *body[:6], 2], [1, *body[6:], 2], [1, *body[:4]]]
    expected = torch.tensor([[1, *body[:3], 2], [1, *body[6:], 2], [1, *body[:4]]])
    lost = torch.tensor([[1, *body[:4]], [1, *body[6:], 2], [1, *body[:4]]])
    returned = submission.pad_batch(sequences, max_len=5)
    expect(without_more_padding(returned, 5), "the batch cut to 5 ids", dims="sequence position").equals(
        expected, mistakes={"pad-cut-loses-eos": lost}
    )


def without_more_padding(returned, width, pad_id=0):
    """The batch without columns of padding behind the first `width`: whether there are any is left open."""
    batch = expect(returned, "the padded batch").value()
    if isinstance(batch, torch.Tensor) and batch.dim() == 2 and bool((batch[:, width:] == pad_id).all()):
        return batch[:, :width]
    return batch


# shift_right


@check("shift_right", points=3)
def test_each_input_has_the_next_token_as_its_target(submission, draw):
    """shift_right gives inputs without the last token and targets without the first."""
    batch = draw.tokens([7, 4, 5], vocab=30, low=3)
    inputs, targets = submission.shift_right(batch)
    right, dims = (batch[:, :-1], batch[:, 1:]), "sequence position"
    found = (expect(inputs, "the inputs", dims=dims), expect(targets, "the targets", dims=dims))
    values = tuple(one.value() for one in found)
    if all(isinstance(value, torch.Tensor) for value in values):
        for code, wrong in (
            ("shift-missing", (right[0], right[0])),
            ("shift-missing", (right[1], right[1])),
            ("shift-missing", (batch, batch)),
            ("shift-twice", (batch[:, :-2], batch[:, 2:])),
        ):
            if all(torch.equal(value, guess) for value, guess in zip(values, wrong)):
                mistake(code)
    found[0].equals(right[0])
    found[1].equals(right[1])


# sequence_loss


@check("sequence_loss", points=2)
def test_loss_is_the_mean_over_real_tokens(submission, draw):
    """sequence_loss is the cross-entropy averaged over the real targets, each with the same weight."""
    logits, targets = draw.normal(3, 6, 7, dtype=draw.exact), draw.tokens([6, 2, 4], vocab=7, low=1)
    expect(submission.sequence_loss(logits, targets), "the loss").equals(
        losses.right(logits, targets), mistakes=losses.mistakes(logits, targets)
    )


@check("sequence_loss", points=2)
def test_label_smoothing_is_spread_over_all_classes(submission, draw):
    """Label smoothing spreads its share over all classes, the right one included, as F.cross_entropy does."""
    logits, targets = draw.normal(3, 5, 8, dtype=draw.exact), draw.tokens([3, 5, 2], vocab=8, low=1)
    expect(submission.sequence_loss(logits, targets, label_smoothing=0.3), "the smoothed loss").equals(
        losses.right(logits, targets, smoothing=0.3), mistakes=losses.mistakes(logits, targets, 0, 0.3)
    )


LOSS = (
    test_each_input_has_the_next_token_as_its_target,
    test_loss_is_the_mean_over_real_tokens,
    test_label_smoothing_is_spread_over_all_classes,
)

# noam_lr


@check("noam_lr", points=3)
def test_learning_rate_follows_the_paper(submission, draw):
    """noam_lr rises linearly up to step `warmup` and falls as 1 / sqrt(step) from there."""
    for d_model, warmup in ((64, 10), (512, 4000)):
        for step in (1, 2, warmup // 2, warmup, warmup + 1, 2 * warmup, 9 * warmup + draw.integer(0, 9)):
            expect(
                submission.noam_lr(step, d_model, warmup),
                f"the learning rate at step {step} (d_model {d_model}, warmup {warmup})",
            ).equals(
                noam(step, d_model, warmup),
                mistakes={
                    "noam-max": d_model**-0.5 * max(step**-0.5, step * warmup**-1.5),
                    "noam-d-model": d_model**0.5 * min(step**-0.5, step * warmup**-1.5),
                    "noam-off-by-one": noam(step + 1, d_model, warmup),
                },
                facts={"step": step, "warmup": warmup, "d_model": d_model},
            )


def noam(step, d_model, warmup):
    """Equation 3 of the paper."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


# train_epoch


@check("train_epoch", points=3)
def test_every_batch_moves_the_weights_once(submission, draw):
    """train_epoch makes one step for each batch, along the gradient of the loss of that batch alone."""
    with made_of(submission, draw, *LOSS):
        batches = random_batches(draw, [(6, 4), (3, 7, 5), (4, 4)], TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task())


@check("train_epoch", points=2)
def test_epoch_returns_the_mean_loss_per_token(submission, draw):
    """train_epoch returns the epoch's loss as a float: the mean over all real tokens, not over batches."""
    with made_of(submission, draw, *LOSS, test_every_batch_moves_the_weights_once):
        batches = random_batches(draw, [(8, 7, 8), (3,), (4, 3)], TGT_VOCAB - 2)
        model, weights = new_model(submission, draw)
        returned = expect(train(submission, model, batches, Task(lr=0.1)), "the loss of the epoch")
        right = trained(weights, batches, Task(lr=0.1))
        returned.equals(
            right.mean_loss,
            mistakes={
                "train-loss-mean-of-batches": sum(right.losses) / 3,
            },
        )


@check("train_epoch", points=2)
def test_gradients_are_clipped_before_the_step(submission, draw):
    """train_epoch scales the gradient of all parameters together down to the norm `clip`, then makes the step."""
    with made_of(submission, draw, *LOSS, test_every_batch_moves_the_weights_once):
        batches = random_batches(draw, [(6, 4), (3, 7, 5)], TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(lr=0.02, clip=1.5), scale=20.0)


@check("train_epoch", points=2)
def test_schedule_moves_once_after_each_step(submission, draw):
    """train_epoch calls scheduler.step() once after each step of the optimizer."""
    with made_of(submission, draw, *LOSS, test_every_batch_moves_the_weights_once, expect_scheduled_groups):
        batches = random_batches(draw, [(6, 4), (3, 7, 5), (4, 4)], TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(lr=1.0, rates=(0.5, 0.1, 0.9, 0.3), epochs=2))


def expect_scheduled_groups(submission, draw):
    """With accumulation, too, the schedule moves once a step: only here each batch and each step are told apart."""
    batches = random_batches(draw, [(7, 6), (3,), (4, 3, 5), (3, 3), (8, 7)], TGT_VOCAB - 2)
    expect_trained(submission, draw, batches, Task(accumulate=2, lr=1.0, rates=(0.5, 0.1, 0.9, 0.3)))


@check("train_epoch", points=3)
def test_accumulated_batches_equal_one_large_batch(submission, draw):
    """With accumulate=3, three small batches give the gradient of one large batch, however long each is."""
    with made_of(submission, draw, *LOSS, test_every_batch_moves_the_weights_once):
        lengths = [(7, 6), (3,), (4, 3, 5), (3, 3), (8, 7), (5,)]
        expect_trained(
            submission, draw, random_batches(draw, lengths, TGT_VOCAB - 2), Task(accumulate=3, lr=1.0)
        )


@check("train_epoch", points=1)
def test_training_is_in_training_mode(submission, draw):
    """train_epoch puts the model into training mode, so that dropout acts, whatever mode it was in."""
    with made_of(submission, draw, *LOSS, test_every_batch_moves_the_weights_once):
        batches = random_batches(draw, [(6, 4), (3, 7, 5)], TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(dropout=1.0), training=False)


TRAINING = (
    *LOSS,
    test_every_batch_moves_the_weights_once,
    test_epoch_returns_the_mean_loss_per_token,
)


# evaluate


@check("evaluate", points=2)
def test_evaluation_is_in_eval_mode_and_restores_the_mode(submission, draw):
    """evaluate measures in eval mode, without dropout, and leaves the model in the mode that it was in."""
    with made_of(submission, draw, *TRAINING):
        batches = random_batches(draw, [(6, 4, 7)], TGT_VOCAB - 2)
        for training in (True, False):
            model, weights = new_model(submission, draw, dropout=1.0)
            model.train(training)
            returned = submission.evaluate(model, batches, device=submission.device)
            right, dropped = (trained(weights, batches, Task(dropout=rate)).mean_loss for rate in (0.0, 1.0))
            expect(returned, "the loss in eval mode").equals(
                right, mistakes={"evaluate-in-training-mode": dropped}
            )
            mode = expect(model.training, "the mode after evaluate").value()
            if mode is not training:
                names = {True: "training", False: "eval"}
                mistake("evaluate-mode-not-restored", before=names[training], after=names[bool(mode)])


@check("evaluate", points=2)
def test_evaluation_returns_the_mean_loss_per_token(submission, draw):
    """evaluate returns the mean loss over all real tokens of all batches, and changes no weight."""
    with made_of(submission, draw, *TRAINING):
        batches = random_batches(draw, [(8, 7, 8), (3,), (4, 3)], TGT_VOCAB - 2)
        model, weights = new_model(submission, draw)
        rights = [trained(weights, [batch], Task()) for batch in batches]
        losses_, tokens = [one.mean_loss for one in rights], [one.tokens[0] for one in rights]
        returned = submission.evaluate(model, batches, device=submission.device)
        expect(returned, "the mean loss of all batches").equals(
            sum(loss * count for loss, count in zip(losses_, tokens)) / sum(tokens),
            mistakes={"evaluate-mean-of-batches": sum(losses_) / 3},
        )
        for name, value in model.parameters().items():
            expect(value, f"{name} after evaluate").equals(weights[name])


# EarlyStopping


@check("EarlyStopping", points=2)
def test_stops_after_patience_losses_without_a_gain(submission, draw):
    """EarlyStopping says True once `patience` losses in a row are no better than the best one."""
    for patience, values in ((2, [3.0, 4.0, 4.0, 2.0, 2.5, 1.0, 1.5, 1.25]), (3, [2.0, 3.0, 2.5, 2.0, 9.0])):
        expect_answers(submission, values, patience)


@check("EarlyStopping", points=2)
def test_best_state_is_a_copy(submission, draw):
    """best_state holds the weights of the best loss, also after the model has been trained further."""
    model, weights = new_model(submission, draw)
    stopping = an_object(submission.EarlyStopping(3), "EarlyStopping(3)")
    stopping.step(2.0, model)
    later = {name: value + 1 for name, value in weights.items()}
    model.load_state_dict(later)
    if same_state(stopping, later):
        mistake("stopping-state-is-a-reference")
    stopping.step(5.0, model)
    kept = state_of(stopping)
    expect(sorted(kept), "the names in best_state").equals(sorted(weights))
    for name, value in weights.items():
        expect(kept[name], f"best_state[{name!r}]").equals(value)
    expect(stopping.best_loss, "best_loss").equals(2.0)
