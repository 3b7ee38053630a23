"""Models of a submission with random weights in them, compared with what they should compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, expect_error, mistake

from .model import (
    FLAWS,
    GPT2,
    Flaw,
    Settings,
    Shapes,
    Weights,
    block_shapes,
    gpt_shapes,
    rms_norm,
    run_block,
    run_gpt,
)

BATCH, SEQ = 2, 7
ODD_HEADS = {"d_model": 15, "position": "rotary"}
"""5 features a head cannot be turned in pairs; the message may speak of the 15 or of the 5."""
TOLERANCE = 1e-5
"""Rotary tables may be float32, and the widest float type shows it."""


def new_config(submission: Any, settings: Settings) -> Any:
    return submission.GPTConfig(**settings.arguments())


def expect_refused(submission: Any, **changes: Any) -> None:
    """A GPT-2's config with these changes raises `ValueError`, which names the first of their values."""
    value = next(iter(changes.values()))
    expect_error(
        ValueError,
        lambda: new_config(submission, GPT2.but(**changes)),
        mentions=["5" if changes == ODD_HEADS else str(value)],
        mistake="gpt-config-unchecked",
        facts={"settings": ", ".join(f"{name}={value!r}" for name, value in changes.items())},
    )


def new_block(submission: Any, draw: Any, settings: Settings) -> tuple[Any, Weights]:
    """A `Block` in eval mode and the random weights in it."""
    block = submission.Block(new_config(submission, settings))
    return block, load(block, draw.weights(block_shapes(settings), draw.exact), draw)


def new_gpt(submission: Any, draw: Any, settings: Settings) -> tuple[Any, Weights]:
    """A `GPT` in eval mode and the random weights in it; tied ones are equal."""
    model = submission.GPT(new_config(submission, settings))
    return model, load(model, random_weights(draw, settings), draw)


def random_weights(draw: Any, settings: Settings) -> Weights:
    weights = draw.weights(gpt_shapes(settings), draw.exact)
    if settings.tie_weights:
        weights["head.weight"] = weights["token_embed.weight"]
    return weights


def load(module: Any, weights: Weights, draw: Any) -> Weights:
    """Puts weights in; names those that are too many by what they are."""
    name_what_is_left_over(module, {name: tuple(value.shape) for name, value in weights.items()})
    module.to(draw.exact)
    module.load_state_dict(weights)
    module.eval()
    return weights


def name_what_is_left_over(module: Any, expected: Shapes) -> None:
    found = module.shapes()
    extra = [name for name in found if name not in expected]
    if not extra or any(name not in found for name in expected):
        return
    trained = module.parameters()
    if all(name.endswith(".bias") for name in extra):
        mistake("gpt-bias-left", names=", ".join(extra[:4]), count=len(extra))
    if all(name not in trained for name in extra):
        mistake("gpt-tables-saved", names=", ".join(extra[:4]), count=len(extra))


def expect_normed(norm: Any, x: Tensor, weight: Tensor, **options: float) -> None:
    """What an `RMSNorm` with this weight gives for `x` (batch, seq, d_model)."""
    run = partial(rms_norm, x, weight, **options)
    expect(norm(x), "the normalised tokens", dims="batch position feature").equals(
        run(),
        mistakes={
            "rms-mean-subtracted": lambda: run(flaw="centred"),
            "rms-sum": lambda: run(flaw="sum"),
            "rms-eps-outside": lambda: run(flaw="eps outside"),
        },
    )


def expect_block(found: Any, weights: Weights, settings: Settings, x: Tensor) -> Tensor:
    run = partial(run_block, weights, settings, x)
    return expect(found, "the output of the block", dims="batch position feature").equals(
        run(), mistakes=candidates(run), atol=TOLERANCE, rtol=TOLERANCE
    )


def expect_logits(
    found: Any, weights: Weights, settings: Settings, tokens: Tensor, further: dict[str, Any] | None = None
) -> Tensor:
    """`found` is what a model returned: `(logits, loss)`."""
    logits, _ = found
    run = partial(run_gpt, weights, settings, tokens)
    return expect(logits, "the logits", dims="batch position vocab").equals(
        run(), mistakes={**(further or {}), **candidates(run)}, atol=TOLERANCE, rtol=TOLERANCE
    )


def candidates(run: Callable[[Flaw], Tensor]) -> dict[str, list[Callable[[], Tensor]]]:
    """What is returned under each known mistake."""
    return {code: [partial(run, flaw) for flaw in flaws] for code, flaws in FLAWS.items()}


def agrees(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> bool:
    if found.shape != expected.shape:
        return False
    return torch.allclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance)
