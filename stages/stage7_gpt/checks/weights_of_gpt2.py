"""State dicts with the names and shapes of Hugging Face's GPT-2."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from .building import BATCH, SEQ, expect_logits, new_config, random_weights
from .model import Settings, Weights, run_gpt

LAYER_NAMES = {
    "norm1": "ln_1",
    "attn.w_o": "attn.c_proj",
    "norm2": "ln_2",
    "mlp.linear1": "mlp.c_fc",
    "mlp.linear2": "mlp.c_proj",
}


def gpt2_state(draw: Any, settings: Settings) -> Weights:
    """A random state dict of a `GPT2LMHeadModel`."""
    own = random_weights(draw, settings)
    state = {
        "transformer.wte.weight": own["token_embed.weight"],
        "transformer.wpe.weight": own["positions.embedding.weight"],
    }
    for index in range(settings.num_layers):
        ours, theirs = f"blocks.{index}.", f"transformer.h.{index}."
        for kind in ("weight", "bias"):
            three = [own[f"{ours}attn.{name}.{kind}"] for name in ("w_q", "w_k", "w_v")]
            state[f"{theirs}attn.c_attn.{kind}"] = torch.cat([turned(value) for value in three], -1)
            for name, their_name in LAYER_NAMES.items():
                state[f"{theirs}{their_name}.{kind}"] = turned(own[f"{ours}{name}.{kind}"])
    for kind in ("weight", "bias"):
        state[f"transformer.ln_f.{kind}"] = own[f"norm.{kind}"]
    return {**state, "lm_head.weight": own["head.weight"]}


def weights_from(state: Weights, settings: Settings, flaw: str | tuple[int, ...] = "") -> Weights:
    """The weights, under the contract's names, that a state dict holds; with a flaw, those that a mistake finds there.

    A flaw that is a tuple is the order in which queries, keys and values are thought to stand.
    """
    own = {
        "token_embed.weight": state["transformer.wte.weight"],
        "positions.embedding.weight": state["transformer.wpe.weight"],
        "norm.weight": state["transformer.ln_f.weight"],
        "norm.bias": state["transformer.ln_f.bias"],
        "head.weight": state["lm_head.weight"],
    }
    for index in range(settings.num_layers):
        ours, theirs = f"blocks.{index}.", f"transformer.h.{index}."
        for kind in ("weight", "bias"):
            three = thirds(state[f"{theirs}attn.c_attn.{kind}"], settings.num_heads, flaw)
            for name, value in zip(("w_q", "w_k", "w_v"), three):
                value = value if flaw == "all as they are" else turned(value)
                own[f"{ours}attn.{name}.{kind}"] = value
            for name, their_name in LAYER_NAMES.items():
                value = state[f"{theirs}{their_name}.{kind}"]
                as_it_is = flaw in ("output as it is", "all as they are") and name == "attn.w_o"
                own[f"{ours}{name}.{kind}"] = value if as_it_is else turned(value)
    return own


def turned(value: Tensor) -> Tensor:
    return value.mT if value.dim() == 2 else value


def thirds(value: Tensor, num_heads: int, flaw: str | tuple[int, ...]) -> list[Tensor]:
    if flaw == "head by head":
        parts = value.unflatten(-1, (num_heads, 3, -1)).unbind(-2)
        return [part.flatten(-2) for part in parts]
    parts = value.chunk(3, -1)
    return [parts[index] for index in flaw] if isinstance(flaw, tuple) else list(parts)


def expect_loaded(
    submission: Any, draw: Any, settings: Settings, state: Weights, whole: Weights | None = None
) -> None:
    """A model with the weights of `state` gives the logits of a GPT-2; `whole` is `state` under its full names."""
    whole = whole or state
    model = submission.GPT(new_config(submission, settings)).to(draw.exact)
    model.eval()
    submission.load_gpt2(model, state)
    tokens = draw.integers(0, settings.vocab_size, BATCH, SEQ)

    def read(flaw: str | tuple[int, ...]) -> Any:
        return lambda: run_gpt(weights_from(whole, settings, flaw), settings, tokens)

    expect_logits(
        model(tokens),
        weights_from(whole, settings),
        settings,
        tokens,
        further={
            "gpt2-output-not-transposed": [read("output as it is"), read("all as they are")],
            "gpt2-qkv-cut-wrongly": [
                *(read(order) for order in permutations(range(3)) if order != (0, 1, 2)),
                read("head by head"),
            ],
        },
    )
