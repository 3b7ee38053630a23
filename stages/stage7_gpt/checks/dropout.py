"""Where a model in training drops: weights are chosen so that it can be read off."""

from __future__ import annotations

from typing import Any

import torch

from grader.checks import expect, fail, mistake

from .building import load, new_config
from .model import GPT2, LLAMA, Settings, block_shapes, gpt_shapes

HALF = GPT2.but(d_model=6, num_heads=2, d_ff=5, dropout=0.5)


def branches_drop(submission: Any, draw: Any) -> None:
    """Attention gives 1 everywhere and the network 10, but for dropout: what is added is 0 or 2, and 0 or 20."""
    weights = {name: torch.zeros(shape, dtype=draw.exact) for name, shape in block_shapes(HALF).items()}
    weights["attn.w_o.bias"] += 1
    weights["mlp.linear2.bias"] += 10
    added = added_in_training(submission, draw, HALF, weights)
    ones = added.round() % 10
    tens = (added.round() - ones) / 10
    if not (among_0_1_2(added - 10 * tens) and among_0_1_2(tens)):
        fail(
            "In training, what a block adds to the stream fits no dropout, at the rate 0.5, on its branches.",
            "Compare with the docstring of Block: x + dropout(attn(norm1(x))), then the same with mlp.",
        )
    for name, branch in (("attention", ones), ("feed-forward", tens)):
        if bool((branch == 1).all()):
            mistake("gpt-dropout-missing", where=f"what the {name} branch returns")


def attention_drops(submission: Any, draw: Any) -> None:
    """All scores are 0, all values 1: a position gives their mean, 1, if no weight is dropped.

    The branch is dropped afterwards, which makes 0 or 2 of a 1; other numbers come from the weights.
    """
    weights = {name: torch.zeros(shape, dtype=draw.exact) for name, shape in block_shapes(HALF).items()}
    weights["attn.w_v.bias"] += 1
    weights["attn.w_o.weight"] += torch.eye(HALF.d_model)
    added = added_in_training(submission, draw, HALF, weights)
    if among_0_1_2(added):
        mistake("gpt-dropout-missing", where="an attention weight")


def among_0_1_2(values: torch.Tensor) -> bool:
    whole = values.round()
    return bool(((values - whole).abs() < 1e-6).all() and ((whole >= 0) & (whole <= 2)).all())


def added_in_training(submission: Any, draw: Any, settings: Settings, weights: Any) -> torch.Tensor:
    """What a block in training adds to the stream."""
    block = submission.Block(new_config(submission, settings))
    load(block, weights, draw)
    block.train()
    x = draw.normal(6, 7, settings.d_model, dtype=draw.exact)
    return expect(block(x), "the output in training").tensor(tuple(x.shape)) - x


def embeddings_drop(submission: Any, draw: Any) -> None:
    """The branches give nothing, so only dropout on the embeddings can make a difference."""
    for settings in (HALF, LLAMA.but(dropout=0.5)):
        weights = draw.weights(gpt_shapes(settings), draw.exact)
        for name in weights:
            if name.endswith(("w_o.weight", "w_o.bias", "linear2.weight", "linear2.bias", "w_down.weight")):
                weights[name] = torch.zeros_like(weights[name])
        if settings.tie_weights:
            weights["head.weight"] = weights["token_embed.weight"]
        model = submission.GPT(new_config(submission, settings))
        load(model, weights, draw)
        tokens = draw.integers(0, settings.vocab_size, 3, 7)
        in_eval, _ = model(tokens)
        model.train()
        in_training, _ = model(tokens)
        logits = expect(in_eval, "the logits").tensor((3, 7, settings.vocab_size))
        expect(in_training, "the logits in training").differs_from(
            logits,
            mistake="gpt-dropout-missing",
            facts={"where": f"an embedding, with {settings.position} positions,"},
        )
