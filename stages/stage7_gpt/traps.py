"""Springs the traps of the lesson on purpose, in numbers: `python -m stages.stage7_gpt.traps` (or `solutions.`).

Given, not an exercise. Beside each wrong way stands what your own classes and functions make of the same thing.
"""

import argparse
import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..stage3_positional_encoding.positional_encoding import apply_rotary, rotary_table
from .generation import filter_logits, generate
from .gpt import GPT, GPTConfig, RMSNorm

VOCAB = 1000
CONFIG = GPTConfig(VOCAB, block_size=32, d_model=128, num_heads=4, num_layers=4)


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description="Spring the traps of stage 7 on purpose.").parse_args(argv)
    torch.manual_seed(0)
    show_parameters()
    show_first_loss()
    show_depth()
    show_tie()
    show_shift()
    show_norms()
    show_gelu()
    show_rotary()
    show_top_p()
    show_zero()
    show_temperature()


def show_parameters() -> None:
    """Where the numbers of a GPT are."""
    small = GPTConfig(50_257, 1024, 768, 12, 12)
    per_block = 12 * 768**2 + 13 * 768
    embeddings = (small.vocab_size + small.block_size) * small.d_model
    print(
        f"GPT-2 small: 12 blocks of {per_block:,}, embeddings {embeddings:,}, last norm {2 * 768:,}: "
        f"{12 * per_block + embeddings + 2 * 768:,}; {small.vocab_size * small.d_model:,} more if they are not tied"
    )


def show_first_loss() -> None:
    """How bad a fresh model is, with weights as here and as nn.Embedding makes them."""
    tokens = torch.randint(VOCAB, (4, 33))
    model = GPT(CONFIG)
    loss = first_loss(model, tokens)
    nn.init.normal_(model.token_embed.weight)
    print(
        f"the first loss: {loss:.2f}; guessing among {VOCAB:,} tokens: {math.log(VOCAB):.2f}; with tied embeddings "
        f"of standard deviation 1: {first_loss(model, tokens):.0f}"
    )


def show_depth() -> None:
    """What the factor 1 / sqrt(2 * num_layers) is for."""
    tokens = torch.randint(VOCAB, (4, 32))
    for layers in (2, 32):
        config = replace(CONFIG, num_layers=layers)
        model = GPT(config)
        scaled = stream_size(model, tokens)
        for block in model.blocks:
            for weight in (block.attn.w_o.weight, block.mlp.linear2.weight):
                weight.data *= math.sqrt(2 * layers)
        print(
            f"{layers} layers: the stream grows by {scaled:.2f} times from the first block to the last; without the "
            f"factor by {stream_size(model, tokens):.2f}"
        )


def show_tie() -> None:
    """One parameter, or two that are equal on the first day."""
    tokens = torch.randint(VOCAB, (4, 33))
    for how in ("the parameter itself", "a copy"):
        model = GPT(CONFIG)
        if how == "a copy":
            model.head.weight = nn.Parameter(model.token_embed.weight.detach().clone())
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model(tokens[:, :-1], tokens[:, 1:])[1].backward()
        optimizer.step()
        apart = (model.head.weight - model.token_embed.weight).abs().max()
        count = sum(parameter.numel() for parameter in model.parameters())
        print(f"tied by {how}: {count:,} parameters; after one step the two are {apart:.4f} apart")


def show_shift() -> None:
    """Targets that are the tokens themselves: a few steps are enough to repeat."""
    tokens = torch.randint(20, (8, 33))
    start = GPT(replace(CONFIG, vocab_size=20))
    for name, targets in (("the next token", tokens[:, 1:]), ("the token itself", tokens[:, :-1])):
        model = copy.deepcopy(start)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(20):
            optimizer.zero_grad()
            loss = model(tokens[:, :-1], targets)[1]
            loss.backward()
            optimizer.step()
        text = generate(model, tokens[:1, :4], 6, temperature=0)[0, 4:].tolist()
        print(f"random tokens, 20 steps, targets are {name}: loss {loss.item():.2f}, then it writes {text}")


def show_norms() -> None:
    """What RMSNorm leaves that layer norm takes away."""
    x = torch.randn(1, 6) * 3 + 10
    layer, rms = F.layer_norm(x, (6,))[0], RMSNorm(6)(x)[0].detach()
    print(f"features {shown(x[0])}: layer norm {shown(layer)}, RMSNorm {shown(rms)}")
    tiny = torch.full((1, 6), 1e-4)
    outside = tiny / (tiny.square().mean().sqrt() + 1e-6)
    print(
        f"features of 0.0001: RMSNorm {RMSNorm(6)(tiny)[0, 0]:.2f}; with eps outside the root {outside[0, 0]:.2f}"
    )


def show_gelu() -> None:
    """The two GELUs."""
    x = torch.linspace(-5, 5, 1001)
    apart = (F.gelu(x) - F.gelu(x, approximate="tanh")).abs().max()
    print(f"the GELU with tanh differs from the exact one by up to {apart:.5f}")


def show_rotary() -> None:
    """Scores between two tokens, here and 20 positions later."""
    cos, sin = rotary_table(64, 8)
    query, key, value = torch.randn(3, 1, 1, 1, 8)

    def score(query_at: int, key_at: int, turn_key: bool = True) -> float:
        turned_key = apply_rotary(key, cos, sin, key_at) if turn_key else key
        return float((apply_rotary(query, cos, sin, query_at) * turned_key).sum())

    print(f"rotary, both turned: 5 looks at 2 with {score(5, 2):.3f}, 25 at 22 with {score(25, 22):.3f}")
    print(f"    keys not turned: {score(5, 2, False):.3f} and {score(25, 22, False):.3f}")
    here, there = (apply_rotary(value, cos, sin, place)[0, 0, 0] for place in (2, 22))
    print(
        f"    a value that is turned too, at 2 and at 22: {(here - there).norm() / value.norm():.2f} of itself apart"
    )


def show_top_p() -> None:
    """The table of the lesson."""
    chances = torch.tensor([[0.1, 0.5, 0.05, 0.35]])
    print(f"top_p on the chances {shown(chances[0])}:")
    for top_p in (0.3, 0.5001, 0.9):
        kept = filter_logits(chances.log(), top_p=top_p)[0].isfinite().nonzero().flatten().tolist()
        falling, order = chances[0].sort(descending=True)
        short = sorted(order[falling.cumsum(0) <= top_p].tolist())
        print(f"    {top_p:g}: tokens {kept}; without the one that crosses p: {short or 'none at all'}")


def show_zero() -> None:
    """Logits that are left out with 0."""
    logits = torch.tensor([[-1.0, -3.0, -8.0, -9.0]])
    right = filter_logits(logits, top_k=2).softmax(dim=-1)[0]
    wrong = logits.masked_fill(logits < -3, 0.0).softmax(dim=-1)[0]
    print(
        f"logits {logits[0].tolist()}, top_k=2: chances {shown(right)}; with 0 for what is left out {shown(wrong)}"
    )


def show_temperature() -> None:
    """Temperature after the softmax, and temperature 0."""
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    cool = filter_logits(logits, temperature=0.5).softmax(dim=-1)[0]
    late = logits.softmax(dim=-1)[0] / 0.5
    print(
        f"logits {logits[0].tolist()}: chances {shown(logits.softmax(-1)[0])}, at temperature 0.5 {shown(cool)}; "
        f"divided after the softmax {shown(late / late.sum())}"
    )
    print(f"    divided by 0: {shown((logits / 0).softmax(dim=-1)[0])}")


def first_loss(model: GPT, tokens: Tensor) -> float:
    with torch.no_grad():
        return model(tokens[:, :-1], tokens[:, 1:])[1].item()


@torch.no_grad()
def stream_size(model: GPT, tokens: Tensor) -> float:
    """How many times larger the stream is after the last block than before the first, in root mean squares."""
    x = first = model.token_embed(tokens)
    for block in model.blocks:
        x = block(x)
    return float((x.square().mean() / first.square().mean()).sqrt())


def shown(values: Tensor) -> str:
    return "[" + " ".join(f"{value:.2f}" for value in values.tolist()) + "]"


if __name__ == "__main__":
    main()
