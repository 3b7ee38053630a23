"""How long a training step of the solution's Transformer takes, as a multiple of `nn.Transformer`.

Both models have the same sizes, embeddings, output layer and dropout, and learn from the same padded batches:
forward, backward, Adam. They take turns in one process on one thread, in an order that changes, and the median
of the ratios counts, so that a busy machine does not decide. Exits with 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.models.pytorch_transformer import PyTorchTransformer
from solutions.stage5_decoder.transformer import Transformer

VOCAB, D_MODEL, HEADS, LAYERS, D_FF, DROPOUT, PAD = 1000, 128, 4, 4, 512, 0.1, 0
BATCH, LENGTHS = 64, (12, 64)
LIMIT = 1.05


def batch(length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Source and target ids; the sentences are between half and all of the length."""
    lengths = torch.randint(length // 2, length + 1, (2, BATCH, 1), generator=generator)
    ids = torch.randint(4, VOCAB, (2, BATCH, length), generator=generator)
    src, tgt = ids.masked_fill(torch.arange(length) >= lengths, PAD)
    return src, tgt


def step(model: nn.Module, optimizer: torch.optim.Optimizer, src: Tensor, tgt: Tensor) -> float:
    """The computing time of one training step, in seconds."""
    start = time.process_time()
    logits = model(src, tgt[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.process_time() - start


def measure(length: int, rounds: int) -> tuple[float, float, float]:
    """Median seconds of a step of the solution and of PyTorch's model, and the median of their ratios."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(length)
    sizes = (VOCAB, VOCAB, D_MODEL, HEADS, LAYERS, D_FF, DROPOUT, max(LENGTHS))
    models = (Transformer(*sizes), PyTorchTransformer(*sizes))
    runs = [(model, torch.optim.Adam(model.parameters())) for model in models]
    for model, optimizer in runs:  # the first step prepares what later ones reuse
        step(model, optimizer, *batch(length, generator))
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        data = batch(length, generator)
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append(step(*runs[which], *data))
    ratios = [own / theirs for own, theirs in zip(*times)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def main() -> int:
    """Measure, print one line for each length, and say whether every ratio is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="steps of each model (default: 30)")
    parser.add_argument("--quick", action="store_true", help="four steps of each model")
    options = parser.parse_args()
    rounds = 4 if options.quick else options.rounds

    torch.set_num_threads(1)
    print(f"A training step (d_model {D_MODEL}, {LAYERS}+{LAYERS} layers, {HEADS} heads, batch {BATCH}):")
    within = True
    for length in LENGTHS:
        own, theirs, ratio = measure(length, rounds)
        line = f"  length {length:<3} solution {own * 1000:6.0f} ms, nn.Transformer {theirs * 1000:6.0f} ms"
        line += f"   {ratio:.3f} (at most {LIMIT})"
        if ratio > LIMIT:
            within = False
            line += "  ABOVE ITS LIMIT"
        print(line, flush=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
