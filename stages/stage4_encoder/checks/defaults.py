"""Is a layer that was made without settings what the docstring says? It is held against one with them written out."""

from __future__ import annotations

import torch

from grader.checks import expect, mistake

from .comparing import STREAM
from .dropout import rate_of, same

CONSTANT_ATTENTION = {"self_attn.w_o.bias": torch.ones(4)}
"""All other weights are 0, norms included: a pre-norm layer adds 1 to its stream, a post-norm one leaves 0."""


WRITTEN_OUT = {"dropout": 0.1, "norm_first": True}
"""The defaults, as arguments."""


def name_other_defaults(default, written_out, x, code):
    """Ends the check when a layer made with defaults is not what one is that was given `WRITTEN_OUT`.

    Both have the weights of `CONSTANT_ATTENTION`. Where the second one is no pre-norm layer at the rate 0.1 either,
    something else is wrong, and other checks say what.
    """
    if settings_seen(written_out, x) != WRITTEN_OUT:
        return
    seen = settings_seen(default, x)
    for argument, value in WRITTEN_OUT.items():
        if seen[argument] != value:
            mistake(code, argument=argument, seen=seen[argument], default=value)


def settings_seen(layer, x):
    """What a layer of `CONSTANT_ATTENTION` does in training: a post-norm layer gives 0, a pre-norm one x and more."""
    layer.train()
    output = expect(layer(x), "the output in training", dims=STREAM).tensor(shape=tuple(x.shape))
    pre_norm = not same(output, 0.0)
    return {"dropout": rate_of(output - x) if pre_norm else 0.1, "norm_first": pre_norm}
