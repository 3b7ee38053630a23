"""The solution of stage 7 against `transformers`: GPT-2, Llama, and what stays after top-k and top-p."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from solutions.stage7_gpt.generation import filter_logits, generate
from solutions.stage7_gpt.gpt import GPT, GPTConfig, load_gpt2

BATCH, SEQ, VOCAB, BLOCK, D_MODEL, HEADS, LAYERS = 2, 9, 37, 16, 24, 3, 3


def gpt2(**changes: object) -> GPT2LMHeadModel:
    """A GPT-2 in which every parameter is random, biases and norms too."""
    sizes = {"n_embd": D_MODEL, "n_head": HEADS, "n_layer": LAYERS, "n_positions": BLOCK, "vocab_size": VOCAB}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(**(sizes | dropout | changes), attn_implementation="eager")
    return randomised(GPT2LMHeadModel(config)).eval()


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def config(**changes: object) -> GPTConfig:
    sizes = {"vocab_size": VOCAB, "block_size": BLOCK, "d_model": D_MODEL, "num_heads": HEADS}
    return GPTConfig(**(sizes | {"num_layers": LAYERS} | changes))


def tokens(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def test_the_logits_are_those_of_gpt2() -> None:
    theirs = gpt2()
    model = GPT(config()).eval()
    load_gpt2(model, theirs.state_dict())
    ids = tokens(BATCH, BLOCK)
    torch.testing.assert_close(model(ids)[0], theirs(ids).logits, atol=1e-4, rtol=1e-4)
