"""How the solution of stage 7 writes: what top-k and top-p leave, as in `transformers`, and the loop around them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from transformers.generation.logits_process import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from solutions.stage7_gpt.generation import filter_logits, generate
from solutions.stage7_gpt.gpt import GPT, GPTConfig

BATCH, SEQ, VOCAB, BLOCK, D_MODEL, HEADS, LAYERS, D_FF = 2, 9, 37, 16, 24, 3, 3, 40


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def config(**changes: object) -> GPTConfig:
    sizes = {"vocab_size": VOCAB, "block_size": BLOCK, "d_model": D_MODEL, "num_heads": HEADS}
    return GPTConfig(**(sizes | {"num_layers": LAYERS} | changes))


def tokens(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape)


def randomised(model: nn.Module) -> nn.Module:
    """Every parameter random, biases and norms too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


# Filters


def warped(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """What transformers makes of logits, one warper after the other."""
    logits = TemperatureLogitsWarper(temperature)(None, logits) if temperature != 1 else logits
    logits = TopKLogitsWarper(top_k)(None, logits) if top_k is not None else logits
    return TopPLogitsWarper(top_p)(None, logits) if top_p is not None else logits


def adversarial(rows: int, vocab: int) -> dict[str, Tensor]:
    normal = torch.randn(rows, vocab) * 3
    ties = torch.randint(-2, 3, (rows, vocab)).float()
    holes = normal.masked_fill(torch.rand(rows, vocab) < 0.4, -torch.inf)
    holes[:, 0] = 1.0
    lonely = torch.full((rows, vocab), -torch.inf)
    lonely[:, 3] = -5.0
    return {
        "normal": normal,
        "ties": ties,
        "all equal": torch.zeros(rows, vocab),
        "minus infinities": holes,
        "one alone": lonely,
        "far apart": normal * 100,
        "powers of two": -torch.arange(vocab).float().expand(rows, -1) * math.log(2),
        "double": normal.double(),
    }


@pytest.mark.parametrize("kind", list(adversarial(1, 8)))
def test_the_kept_sets_are_those_of_transformers(kind: str) -> None:
    logits = adversarial(50, 20)[kind]
    for temperature, top_k, top_p in itertools.product(
        (1.0, 0.3, 2.5), (None, 1, 2, 7, 20, 45), (None, 1e-9, 0.25, 0.5, 0.75, 0.9, 1.0)
    ):
        found = filter_logits(logits, temperature, top_k, top_p)
        expected = warped(logits, temperature, top_k, top_p)
        assert torch.equal(found.isneginf(), expected.isneginf()), (temperature, top_k, top_p)
        torch.testing.assert_close(found, expected)


def test_filters_take_any_leading_axes_and_change_nothing() -> None:
    logits = torch.randn(2, 3, 11)
    before = logits.clone()
    filtered = filter_logits(logits, 0.7, 5, 0.8)
    torch.testing.assert_close(filtered[1, 2], filter_logits(logits[1, 2], 0.7, 5, 0.8))
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -0.5}, ["-0.5", "at least 0"]),
        ({"temperature": math.nan}, ["nan"]),
        ({"top_k": 0}, ["0", "at least 1"]),
        ({"top_p": 0.0}, ["0.0", "above 0 and at most 1"]),
        ({"top_p": 1.01}, ["1.01"]),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, float], words: list[str]) -> None:
    for call in (
        lambda: filter_logits(torch.zeros(1, 5), **options),
        lambda: generate(GPT(config()), tokens(1, 2), 1, **options),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert all(word in str(error.value) for word in words)


def test_a_filter_at_temperature_0_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        filter_logits(torch.zeros(1, 5), temperature=0)


# Generation


def test_generate_slides_its_window_and_keeps_the_text() -> None:
    model = randomised(GPT(config()))
    prompt = tokens(BATCH, BLOCK + 3)
    text = generate(model, prompt, 5, temperature=0)
    assert text.shape == (BATCH, BLOCK + 8)
    assert torch.equal(text[:, : BLOCK + 3], prompt)
    for place in range(BLOCK + 3, BLOCK + 8):
        logits = model(text[:, place - BLOCK : place])[0][:, -1]
        assert torch.equal(text[:, place], logits.argmax(-1))


def test_generate_is_reproducible_and_restores_the_mode() -> None:
    model = randomised(GPT(config(dropout=0.5)))
    prompt = tokens(BATCH, 3)
    for training in (True, False):
        model.train(training)
        one, same = (
            generate(model, prompt, 12, top_k=9, generator=torch.Generator().manual_seed(3)) for _ in range(2)
        )
        assert torch.equal(one, same)
        assert model.training == training
    assert torch.equal(generate(model, prompt, 0), prompt)


def test_the_mode_is_restored_after_an_error() -> None:
    model = GPT(config())
    with pytest.raises(IndexError):
        generate(model, torch.full((1, 2), VOCAB), 1)
    assert model.training


def test_prompts_that_cannot_be_continued_are_refused() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        generate(GPT(config()), tokens(2, 0), 3)
    with pytest.raises(ValueError, match="max_new_tokens is -1"):
        generate(GPT(config()), tokens(2, 2), -1)
