"""Checks of training, stage 6, that are held back from a class."""

from __future__ import annotations

import math

import torch

from grader.checks import check, expect, fail, mistake, raising_means

from . import losses
from . import test_public as public
from .epochs import RIGHT, Task, batch_loss, in_a_row, random_batches, tiny_model, trained
from .objects import an_object
from .parts import made_of
from .stopping import expect_answers
from .training_runs import TGT_VOCAB, expect_trained, new_model, train

# pad_batch


@check("pad_batch", points=1)
def test_padding_is_the_id_that_was_given(submission, draw):
    """pad_batch fills up with the pad_id that it was given; the batch is int64."""
    sequences = [draw.integers(10, 30, length).tolist() for length in (2, 5, 4)]
    expected = torch.full((3, 5), 7)
    for row, sequence in enumerate(sequences):
        expected[row, : len(sequence)] = torch.tensor(sequence)
    expect(
        public.without_more_padding(submission.pad_batch(sequences, pad_id=7), 5, 7),
        "the batch padded with 7",
        dims="sequence position",
    ).equals(expected, mistakes={"pad-value-ignored": expected.where(expected != 7, 0)})


@check("pad_batch", points=1)
def test_what_did_not_end_in_eos_gets_none(submission, draw):
    """pad_batch adds no <eos> to a sequence that is cut and had none, and cuts nothing that fits."""
    body = draw.integers(3, 30, 12).tolist()
    sequences = [body[:7], [*body[7:10], 2], body[10:]]
    expected = torch.tensor([body[:4], [*body[7:10], 2], [*body[10:], 0, 0]])
    added = expected.clone()
    added[0, -1] = 2
    returned = submission.pad_batch(sequences, max_len=4)
    expect(
        public.without_more_padding(returned, 4), "the batch cut to 4 ids", dims="sequence position"
    ).equals(expected, mistakes={"pad-cut-adds-eos": added})


@check("pad_batch", points=1)
def test_padding_leaves_the_sequences_alone(submission, draw):
    """pad_batch does not modify the sequences that it is given."""
    sequences = [[1, 5, 6, 7, 8, 2], [1, 9, 2]]
    expect(submission.pad_batch(sequences, max_len=4), "the batch").tensor(shape=(2, 4))
    after = submission.probes.sequences_after_padding(sequences, 4)
    if expect(after, "the sequences after pad_batch").value() != sequences:
        fail(
            "The lists that were given to pad_batch had changed when it was done.",
            "Cut and fill a copy: `sequence[:n]` is one.",
        )


# sequence_loss


@check("sequence_loss", points=1)
def test_loss_skips_the_padding_that_was_given(submission, draw):
    """sequence_loss skips the targets that are pad_id, whatever id that is, and counts id 0 like any other."""
    for smoothing in (0.0, 0.2):
        logits, targets = (
            draw.normal(3, 6, 7, dtype=draw.exact),
            draw.tokens([2, 6, 3], vocab=5, pad_id=5, low=0),
        )
        targets[1, :2] = 0
        expect(
            submission.sequence_loss(logits, targets, pad_id=5, label_smoothing=smoothing),
            "the loss where 5 is padding",
        ).equals(
            losses.right(logits, targets, 5, smoothing),
            mistakes=losses.mistakes(logits, targets, 5, smoothing),
            facts={"pad_id": 5},
        )


@check("sequence_loss", points=2)
def test_loss_without_any_real_token_is_zero(submission, draw):
    """A batch that is all padding has the loss 0, not NaN, and leaves no NaN in the gradients."""
    with made_of(submission, draw, *public.LOSS):
        logits = draw.normal(2, 3, 5, dtype=draw.exact)
        targets = torch.full((2, 3), 4)
        found = submission.gradients(submission.sequence_loss, logits, targets, 4, 0.1)
        value = expect(found.output, "the loss of a batch of padding").tensor(shape=(), finite=False)
        gradient = found.inputs[0]
        if bool(value.isnan()) or (gradient is not None and bool(gradient.isnan().any())):
            mistake("loss-nan-without-tokens")
        expect(value, "the loss of a batch of padding").equals(torch.zeros((), dtype=draw.exact))


@check("sequence_loss", points=1)
def test_loss_survives_large_logits(submission, draw):
    """sequence_loss stays finite and right in float32 when logits are hundreds apart."""
    with made_of(submission, draw, *public.LOSS):
        logits, targets = draw.normal(2, 5, 7, scale=300.0), draw.tokens([5, 3], vocab=7, low=1)
        returned = expect(submission.sequence_loss(logits, targets), "the loss for large logits")
        value = returned.tensor(shape=(), finite=False)
        if not bool(value.isfinite()):
            mistake("loss-not-stable")
        returned.equals(losses.right(logits, targets))


@check("sequence_loss", points=2)
def test_loss_sends_the_right_gradient_back(submission, draw):
    """The gradient of sequence_loss is that of F.cross_entropy; padding gets none. Transposed tensors are fine."""
    with made_of(submission, draw, *public.LOSS):
        logits, targets = draw.normal(3, 4, 6, dtype=draw.exact), draw.tokens([4, 2, 3], vocab=6, low=1)
        found = submission.gradients(submission.sequence_loss, logits, targets, 0, 0.1)
        leaf = logits.clone().requires_grad_()
        (expected,) = torch.autograd.grad(losses.right(leaf, targets, 0, 0.1), leaf)
        expect(found.output, "the loss").equals(losses.right(logits, targets, 0, 0.1))
        if found.inputs[0] is None:
            fail("No gradient reaches the logits.", "Leave out .detach(), .item() and .data on the way.")
        expect(found.inputs[0], "the gradient of the logits", dims="batch seq vocab").equals(expected)
        logits, targets = draw.normal(4, 3, 6, dtype=draw.exact).transpose(0, 1), targets.T.clone().T
        expect(submission.sequence_loss(logits, targets), "the loss of transposed tensors").equals(
            losses.right(logits, targets)
        )


# noam_lr


@check("noam_lr", points=1)
def test_learning_rate_is_finite_at_step_0(submission, draw):
    """At step 0, where schedulers begin, noam_lr gives a finite number no larger than that of step 1."""
    with made_of(submission, draw, public.test_learning_rate_follows_the_paper):
        for d_model, warmup in ((64, 10), (512, 4000)):
            with raising_means(
                "noam-not-finite-at-0", ["zero", "negative power"], what="a ZeroDivisionError"
            ):
                value = expect(submission.noam_lr(0, d_model, warmup), "the learning rate at step 0").value()
            if isinstance(value, float) and not math.isfinite(value):
                mistake("noam-not-finite-at-0", what=value)
            first = public.noam(1, d_model, warmup)
            is_small = type(value) in (int, float) and 0 <= value <= first * (1 + 1e-6)
            expect(is_small, f"whether the rate at step 0, {value!r}, lies between 0 and {first:.3g}").equals(
                True
            )


# train_epoch

STEPS = (*public.LOSS, public.test_every_batch_moves_the_weights_once)
ACCUMULATION = (*STEPS, public.test_accumulated_batches_equal_one_large_batch)


@check("train_epoch", points=2)
def test_the_last_short_group_is_stepped_too(submission, draw):
    """With accumulate=3 and five batches, the last two make a step of their own."""
    with made_of(submission, draw, *ACCUMULATION):
        lengths = [(7, 6), (3,), (4, 3, 5), (3, 3), (8, 7)]
        batches = random_batches(draw, lengths, TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(accumulate=3, lr=1.0))


@check("train_epoch", points=2)
def test_padding_is_what_the_model_says(submission, draw):
    """train_epoch and its accumulation take model.pad_id for padding, and sources may be padded on either side."""
    with made_of(submission, draw, test_loss_skips_the_padding_that_was_given, *ACCUMULATION):
        for side in ("left", "right"):
            batches = random_batches(
                draw, [(7, 4), (3, 6, 5), (5, 3)], TGT_VOCAB - 2, pad_id=TGT_VOCAB - 3, side=side
            )
            for _, tgt in batches:
                tgt[:, 2] = tgt[:, 2].where(tgt[:, 2] == 2, 0)  # id 0 is a token like any other here
            expect_trained(submission, draw, batches, Task(accumulate=2, lr=1.0, pad_id=TGT_VOCAB - 3))


@check("train_epoch", points=2)
def test_clip_is_the_norm_that_was_given(submission, draw):
    """The norm that gradients are clipped to is `clip`, 1 if nothing is said; with None nothing is clipped."""
    with made_of(submission, draw, *STEPS, public.test_gradients_are_clipped_before_the_step):
        batches = random_batches(draw, [(6, 4), (3, 7, 5)], TGT_VOCAB - 2)
        for clip in (1.7, 1.0, None):
            expect_trained(submission, draw, batches, Task(lr=0.02, clip=clip), scale=20.0)


@check("train_epoch", points=2)
def test_a_group_is_clipped_and_scheduled_as_one(submission, draw):
    """With accumulation the whole group's gradient is clipped, once, and the schedule moves once a group."""
    with made_of(
        submission,
        draw,
        *ACCUMULATION,
        public.test_gradients_are_clipped_before_the_step,
        public.test_schedule_moves_once_after_each_step,
    ):
        lengths = [(7, 6), (3,), (4, 3, 5), (3, 3), (8, 7)]
        batches = random_batches(draw, lengths, TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(accumulate=2, lr=0.02, clip=1.5), scale=20.0)
        public.expect_scheduled_groups(submission, draw)


@check("train_epoch", points=1)
def test_labels_are_smoothed_in_training(submission, draw):
    """train_epoch trains on the loss with the label smoothing that it was given."""
    with made_of(submission, draw, *STEPS):
        batches = random_batches(draw, [(6, 4), (3, 7, 5)], TGT_VOCAB - 2)
        expect_trained(submission, draw, batches, Task(label_smoothing=0.3))


@check("train_epoch", points=1)
def test_batches_may_come_from_a_generator(submission, draw):
    """train_epoch goes through its batches once, one after the other: a generator, which has no length, will do."""
    with made_of(submission, draw, *ACCUMULATION):
        batches = random_batches(draw, [(7, 4), (3, 6, 5), (5, 3)], TGT_VOCAB - 2)
        model, weights = new_model(submission, draw)
        task = Task(accumulate=2, lr=1.0)
        train(submission, model, submission.probes.stream(batches), task)
        expect(in_a_row(model.parameters()), "the weights after training").equals(
            trained(weights, batches, task).weights
        )


# evaluate


@check("evaluate", points=2)
def test_evaluation_records_no_gradients(submission, draw):
    """evaluate builds no graph for gradients, and leaves the recording of gradients switched on afterwards."""
    batches = random_batches(draw, [(6, 4), (3, 7)], TGT_VOCAB - 2)
    model, _ = new_model(submission, draw)
    submission.evaluate(model, submission.probes.stream(batches), device=submission.device)
    modes = expect(model.modes, "the modes of the model's calls").value()
    if not modes:
        fail("The model was not called.", "Call it for each batch: `model(src, inputs)`.")
    if any(recorded for _, recorded in modes):
        mistake("evaluate-records-gradients")
    if not expect(submission.probes.grad_enabled(), "whether gradients are recorded").value():
        fail(
            "After evaluate no gradients are recorded any more.",
            "Use `with torch.no_grad():`, which switches them on again.",
        )


# EarlyStopping


@check("EarlyStopping", points=1)
def test_nan_is_no_gain(submission, draw):
    """A loss that is NaN is no gain: it counts towards the patience, and best_loss stays."""
    for values in ([2.0, 3.0, 3.0, math.nan, math.nan], [math.nan, math.nan, 3.0, 4.0, 4.0]):
        stopping = expect_answers(submission, values, patience=2)
    expect(stopping.best_loss, "best_loss after nan, nan, 3, 4, 4").equals(3.0)


@check("EarlyStopping", points=2)
def test_a_gain_is_more_than_min_delta(submission, draw):
    """Only a loss that is lower than the best one by more than min_delta is a gain."""
    for values in (
        [1.0, 1.5, 1.5, 0.875, 0.75, 0.75],
        [1.0, 1.5, 1.5, 0.25, 0.1875, 0.0625, 0.046875, 0.046875],
    ):
        expect_answers(submission, values, patience=2, min_delta=0.5)
    # A gain of exactly min_delta is none.
    expect_answers(submission, [1.0, 1.5, 1.5, 0.5, 0.5], patience=2, min_delta=0.5, known={})
    expect_answers(submission, [1.0, 2.0, 2.0, 1.0, 1.0], patience=2, known={})
