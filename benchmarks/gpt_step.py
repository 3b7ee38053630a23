"""How long a training step of the solution's GPT takes, as a multiple of Hugging Face's `GPT2LMHeadModel`.

Both models have the same sizes and the same weights to begin with, no dropout, and learn from the same batches:
forward, loss, backward, AdamW. Hugging Face's runs in eager mode, whose attention is written out as the solution's is.
They take turns in one process on one thread, in an order that changes, and the median of the ratios counts, so that a
busy machine does not decide. Exits with 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from solutions.stage7_gpt.gpt import GPT, GPTConfig, load_gpt2

VOCAB, D_MODEL, HEADS, LAYERS = 65, 128, 4, 4
SHAPES = ((12, 64), (4, 256))  # batch and length; the first is the one of the demo
LIMIT = 1.0

LossOf = Callable[[Tensor, Tensor], Tensor]


def models(length: int) -> tuple[nn.Module, nn.Module]:
    """The solution's model and Hugging Face's, with the same weights."""
    settings = GPT2Config(
        vocab_size=VOCAB,
        n_positions=length,
        n_embd=D_MODEL,
        n_head=HEADS,
        n_layer=LAYERS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    theirs = GPT2LMHeadModel(settings).train()
    theirs.loss_type = "ForCausalLM"  # what it would use anyway, after a warning
    own = GPT(GPTConfig(VOCAB, length, D_MODEL, HEADS, LAYERS))
    load_gpt2(own, theirs.state_dict())
    return own, theirs


def step(
    optimizer: torch.optim.Optimizer, loss_of: LossOf, tokens: Tensor, targets: Tensor
) -> tuple[float, float]:
    """The computing time of one training step, in seconds, and its loss."""
    start = time.process_time()
    loss = loss_of(tokens, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.process_time() - start, loss.item()


def measure(batch: int, length: int, rounds: int) -> tuple[float, float, float]:
    """Median seconds of a step of the solution and of Hugging Face's model, and the median of their ratios."""
    torch.manual_seed(0)
    own, theirs = models(length)
    runs: list[tuple[torch.optim.Optimizer, LossOf]] = [
        (torch.optim.AdamW(own.parameters()), lambda tokens, targets: own(tokens, targets)[1]),
        (
            torch.optim.AdamW(theirs.parameters()),
            # `shift_labels` are targets that are shifted already, as the solution's are.
            lambda tokens, targets: theirs(tokens, labels=targets, shift_labels=targets).loss,
        ),
    ]
    times: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        tokens, targets = torch.randint(VOCAB, (2, batch, length))
        losses = [0.0, 0.0]
        for which in (0, 1) if number % 2 else (1, 0):
            seconds, losses[which] = step(*runs[which], tokens, targets)
            if number:  # the first step prepares what later ones reuse
                times[which].append(seconds)
        assert abs(losses[0] - losses[1]) < 0.01, f"the two models do not compute the same: {losses}"
    ratios = [mine / other for mine, other in zip(*times)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def main() -> int:
    """Measure, print one line for each shape, and say whether every ratio is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="steps of each model (default: 40)")
    parser.add_argument("--quick", action="store_true", help="ten steps of each model")
    options = parser.parse_args()
    rounds = 10 if options.quick else options.rounds

    torch.set_num_threads(1)
    print(f"A training step of a GPT (d_model {D_MODEL}, {LAYERS} layers, {HEADS} heads):")
    within = True
    for batch, length in SHAPES:
        own, theirs, ratio = measure(batch, length, rounds)
        line = (
            f"  batch {batch:<2} length {length:<4} solution {own * 1000:5.0f} ms, "
            f"GPT2LMHeadModel {theirs * 1000:5.0f} ms   {ratio:.3f} (at most {LIMIT})"
        )
        if ratio > LIMIT:
            within = False
            line += "  ABOVE ITS LIMIT"
        print(line, flush=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
