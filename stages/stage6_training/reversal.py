"""The first task: write a sequence backwards. It cannot be done without reading the source.

Given, not an exercise. Your `train_epoch`, `evaluate` and `greedy_decode` do the work.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..stage5_decoder.transformer import Transformer
from .decoding import greedy_decode
from .training import evaluate, pad_batch, train_epoch

SOS, EOS, FIRST = 1, 2, 4  # FIRST: the id of the first letter
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 10
# Fresh words in every batch, and a schedule that rises and falls: a fixed list and a constant rate do not get there.
BATCHES, BATCH, PEAK, WARMUP = 60, 64, 3e-3, 100


class Report(NamedTuple):
    """What one round of training has come to."""

    round: int
    loss: float
    valid_loss: float
    exact: float  # the share of fresh words that are written backwards without a single mistake
    written: dict[str, str]


def learn_reversal(rounds: int, seed: int, device: str) -> Iterator[Report]:
    """Train a small model on random words for so many rounds of 60 batches; report after each."""
    torch.manual_seed(seed)
    words = torch.Generator().manual_seed(seed)
    size = FIRST + len(LETTERS)
    model = Transformer(
        size, size, d_model=64, num_heads=4, num_layers=2, d_ff=128, dropout=0.0, max_len=LONGEST + 2
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK, betas=(0.9, 0.98), eps=1e-9)
    steps = rounds * BATCHES
    warmup = min(WARMUP, steps // 3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup))
    )
    examples = random_words(4, torch.Generator().manual_seed(seed + 1))
    test = random_words(200, torch.Generator().manual_seed(seed + 2))
    for number in range(1, rounds + 1):
        fresh = (batch_of(random_words(BATCH, words)) for _ in range(BATCHES))
        loss = train_epoch(model, fresh, optimizer, scheduler, device=device)
        valid_loss = evaluate(model, [batch_of(test)], device)
        written = write(model, test, device)
        exact = sum(out == word[::-1] for out, word in zip(written, test)) / len(test)
        yield Report(number, loss, valid_loss, exact, dict(zip(examples, write(model, examples, device))))


def write(model: Transformer, words: list[str], device: str) -> list[str]:
    """Let the model write, each letter after those that it wrote itself."""
    ids = greedy_decode(model, batch_of(words)[0].to(device), LONGEST + 2).tolist()
    return ["".join(_letters(row)) for row in ids]


def random_words(count: int, generator: torch.Generator) -> list[str]:
    lengths = torch.randint(1, LONGEST + 1, (count,), generator=generator).tolist()
    picks = torch.randint(0, len(LETTERS), (count, LONGEST), generator=generator).tolist()
    return ["".join(LETTERS[pick] for pick in row[:length]) for row, length in zip(picks, lengths)]


def batch_of(words: list[str]) -> tuple[Tensor, Tensor]:
    """Words and their reversals as ids, both padded: `(src, tgt)`."""
    ids = [[FIRST + LETTERS.index(letter) for letter in word] for word in words]
    return pad_batch(ids), pad_batch([[SOS, *reversed(row), EOS] for row in ids])


def _letters(ids: list[int]) -> Iterator[str]:
    for index in ids[1:]:
        if index == EOS:
            return
        yield LETTERS[index - FIRST] if index >= FIRST else "?"
