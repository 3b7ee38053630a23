"""Runs `train_epoch` and `evaluate` of a submission on the tiny model, beside what they should make of it."""

from __future__ import annotations

from typing import Any

from grader.checks import expect

from .epochs import Task, Weights, in_a_row, trained, wrong_outcomes
from .probes import Batches

SRC_VOCAB, TGT_VOCAB, D_MODEL = 9, 11, 5

DEFAULTS = {"clip": 1.0, "accumulate": 1, "label_smoothing": 0.0}

SHAPES = {
    "src_embed.weight": (SRC_VOCAB, D_MODEL),
    "tgt_embed.weight": (TGT_VOCAB, D_MODEL),
    "fc_out.weight": (TGT_VOCAB, D_MODEL),
    "fc_out.bias": (TGT_VOCAB,),
}


def new_model(
    submission: Any, draw: Any, pad_id: int = 0, dropout: float = 0.0, scale: float = 1.0
) -> tuple[Any, Weights]:
    """A tiny model beside the submission, in training mode, and the random weights in it.

    With a `scale` above 1 its logits, and its gradients, are larger.
    """
    weights = draw.weights(SHAPES, draw.exact)
    weights["fc_out.weight"] *= scale
    model = submission.probes.TinyModel(SRC_VOCAB, TGT_VOCAB, D_MODEL, pad_id, dropout)
    model.to(draw.exact)
    model.load_state_dict(weights)
    return model, weights


def train(submission: Any, model: Any, batches: Any, task: Task) -> Any:
    """The last value that `train_epoch` returned."""
    optimizer = submission.probes.sgd(model, task.lr)
    scheduler = submission.probes.schedule(optimizer, list(task.rates)) if task.rates else None
    options = {"clip": task.clip, "accumulate": task.accumulate, "label_smoothing": task.label_smoothing}
    asked = {name: value for name, value in options.items() if value != DEFAULTS[name]}
    returned = None
    for _ in range(task.epochs):
        returned = submission.train_epoch(
            model, batches, optimizer, scheduler, device=submission.device, **asked
        )
    return returned


def expect_trained(
    submission: Any, draw: Any, batches: Batches, task: Task, training: bool = True, scale: float = 1.0
) -> None:
    """`train_epoch` leaves the weights that plain gradient descent on the right loss leaves."""
    model, weights = new_model(submission, draw, task.pad_id, task.dropout, scale)
    model.train(training)
    train(submission, model, batches, task)
    expected = trained(weights, batches, task).weights
    found = in_a_row(model.parameters())
    facts = {
        "accumulate": task.accumulate,
        "clip": task.clip,
        "pad_id": task.pad_id,
        "batches": len(batches),
        "label_smoothing": task.label_smoothing,
    }
    expect(found, "the weights after training").equals(
        expected, mistakes=wrong_outcomes(weights, batches, task), facts=facts
    )
