"""What dropout did to an output, read off from the output itself.

The rate is 0.5 throughout: what is kept is doubled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from grader.checks import expect, fail, mistake

from .building import loaded
from .oracles import Settings, Weights, feed_forward_shapes
from .wrong_encoders import layer_norm

BIAS = 5.0
GELU_OF_1, GELU_OF_2 = (float(value) for value in gelu(torch.tensor([1.0, 2.0], dtype=torch.float64)))


def same(found: Tensor, *values: float) -> bool:
    """Every number of `found` is one of the values."""
    return bool(torch.stack([(found - value).abs() < 1e-4 for value in values]).any(0).all())


# Inside FeedForward


def network_of_ones(submission: Any, draw: Any, **options: Any) -> Any:
    """A `FeedForward(6, 9)` whose hidden features are all 1 for an input of ones.

    Each output feature copies one hidden feature and adds 5, so it is 6 when nothing is dropped (with relu).
    """
    weights = {
        name: torch.zeros(shape, dtype=draw.exact) for name, shape in feed_forward_shapes(6, 9).items()
    }
    weights["linear1.weight"][:, 0] = 1.0
    weights["linear2.weight"][:, :6] = torch.eye(6)
    weights["linear2.bias"][:] = BIAS
    return loaded(submission.FeedForward(6, 9, **options), weights, draw)[0]


def output_for_ones(network: Any, draw: Any) -> Tensor:
    """What the network makes of 20 tokens of ones."""
    ones = torch.ones(4, 5, 6, dtype=draw.exact)
    return expect(network(ones), "the output of FeedForward", dims="batch seq d_model").tensor(
        shape=(4, 5, 6)
    )


def name_feed_forward_dropout(found: Tensor) -> None:
    """Ends the check unless the output of `network_of_ones` in training shows dropout between the two linear maps."""
    if same(found, BIAS + 1):
        mistake("ffn-dropout-missing")
    if (found.abs() < 1e-4).any():
        mistake("ffn-dropout-at-end")
    if same(found, BIAS, BIAS + 2):
        if bool((found == found[..., :1]).all()):
            mistake("ffn-dropout-at-start")
        return
    kept = float(found.max()) - BIAS
    if same(found, BIAS, BIAS + 1):
        fail(
            "What dropout keeps is not scaled up: with the rate 0.5 a kept feature has to be doubled, "
            "so that the sum stays the same on average.",
            "Use `nn.Dropout`, which scales by itself.",
        )
    if same(found, BIAS, BIAS + kept) and kept > 1:
        mistake("ffn-dropout-rate-ignored", asked=0.5, seen=f"{1 - 1 / kept:.2g}")
    fail("The output of FeedForward in training fits no dropout, at the rate 0.5, on its hidden features.")


def name_dropout_before_gelu(found: Tensor) -> None:
    """Ends the check where GELU saw what dropout had doubled. With ReLU the order of the two makes no difference."""
    if not same(found, BIAS, BIAS + GELU_OF_1 * 2) and same(found, BIAS, BIAS + GELU_OF_2):
        mistake("ffn-dropout-before-activation")


def rate_of(ones: Tensor) -> float:
    """The rate of a dropout, by what it made of many ones."""
    kept = float(ones.max())
    return round(1 - 1 / kept, 6) if kept >= 1 else 0.0


# On the branches of a layer

Story = Callable[[], Tensor]


def branch_stories(x: Tensor, weights: Weights, settings: Settings) -> dict[str, Story]:
    """All outputs `(tokens, possibilities, d_model)` of a layer of `constant_branches`, by where dropout acts."""
    attended, fed = weights["self_attn.w_o.bias"], weights["feed_forward.linear2.bias"]
    norms = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in ("norm1", "norm2")]
    kept = 2 * torch.tensor(list(itertools.product([0.0, 1.0], repeat=settings.d_model)), dtype=x.dtype)
    tokens = x.reshape(-1, 1, 1, settings.d_model)
    every = torch.ones(1, settings.d_model, dtype=x.dtype)

    def story(attention: Tensor, feed: Tensor, sums: Tensor = every, normed: Tensor = every) -> Tensor:
        # Axis 1 runs through the possibilities of the first half of the layer, axis 2 through those of the second.
        stream = sums[:, None] * (tokens + attention[:, None] * attended)
        if not settings.norm_first:
            stream = normed[:, None] * layer_norm(stream, *norms[0])
        stream = sums * (stream + feed * fed)
        if not settings.norm_first:
            stream = normed * layer_norm(stream, *norms[1])
        return stream.flatten(1, 2)

    return {
        "branches": lambda: story(kept, kept),
        "nowhere": lambda: story(every, every),
        "feed-forward branch": lambda: story(every, kept),
        "attention branch": lambda: story(kept, every),
        "sums": lambda: story(every, every, sums=kept),
        "norms": lambda: story(every, every, normed=kept),
    }


def tells(story: Story, output: Tensor) -> bool:
    """Each token of the output is one of the story's possibilities."""
    tokens = output.reshape(-1, 1, output.shape[-1])
    return bool(((tokens - story()).abs().amax(-1).amin(-1) < 1e-5).all())
