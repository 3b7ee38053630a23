"""Draws your own attention at work: `python -m stages.stage1_attention.demo` (or `solutions.`).

Nothing is trained here. What each word asks for and offers is written by hand, so you know beforehand
what every picture must show.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor

from .attention import SingleHeadAttention, causal_mask, padding_mask, scaled_dot_product_attention

LONG = ["the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "tired"]
SHORT = ["it", "was", "tired"]
VOCABULARY = ["<pad>", *dict.fromkeys(LONG)]

# The features of a word, by hand. <pad> looks like an animal here: training may make it look like anything.
THING, ALIVE, DEED, PRONOUN, STATE, D_MODEL = range(6)
FEATURES = {
    "<pad>": (THING, ALIVE),
    "animal": (THING, ALIVE),
    "street": (THING,),
    "cross": (DEED,),
    "it": (PRONOUN,),
    "tired": (STATE,),
}

WIDTHS = [4, 16, 64, 256, 1024]  # the d_k of the experiments


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw what your own attention does.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage1"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        draw_masks(options.out / "masks.png", options.device)
        draw_attention_maps(options.out / "attention.png", options.device)
        draw_variance(options.out / "variance.png", options.device)
        draw_saturation(options.out / "saturation.png", options.device)
        show_traps(options.device)


def draw_masks(path: Path, device: str) -> None:
    """The padding mask of two sentences, the causal mask, and both together."""
    tokens = encode([LONG, SHORT], device)
    seq = tokens.size(1)
    padding, causal = padding_mask(tokens), causal_mask(seq, device)
    both = padding & causal  # (batch, 1, seq, seq)

    figure, panels = plt.subplots(1, 3, figsize=(14, 5), layout="constrained")
    draw_mask(panels[0], padding[1, 0].expand(seq, seq), "padding_mask: every query sees 3 keys")
    draw_mask(panels[1], causal[0, 0], "causal_mask: itself and what came before")
    draw_mask(panels[2], both[1, 0], "padding_mask & causal_mask")
    words = pad(SHORT)
    for axes in (panels[0], panels[2]):
        axes.set_xticks(range(seq), words, rotation=90)
        axes.set_yticks(range(seq), words)
    save(
        figure,
        path,
        "blue may be seen; masks are combined with &, and the padding mask hides columns, not rows",
    )


def draw_mask(axes: Axes, mask: Tensor, title: str) -> None:
    axes.imshow(mask.cpu(), cmap="Blues", vmin=0, vmax=1.6)
    axes.set(title=title, xlabel="key", ylabel="query")
    axes.set_xticks([place - 0.5 for place in range(1, mask.size(1))], minor=True)
    axes.set_yticks([place - 0.5 for place in range(1, mask.size(0))], minor=True)
    axes.grid(which="minor", color="white")
    axes.tick_params(which="minor", length=0)


def draw_attention_maps(path: Path, device: str) -> None:
    """One head on a real sentence, with each kind of mask."""
    tokens = encode([LONG, SHORT], device)
    x = embed(tokens)
    head = head_by_hand().to(device)
    _, free = head(x)
    _, causal = head(x, causal_mask(tokens.size(1), device)[0])
    _, padded = head(x, padding_mask(tokens)[:, 0])

    figure, panels = plt.subplots(2, 2, figsize=(11, 11), layout="constrained")
    draw_weights(panels[0, 0], free[0], LONG, "no mask")
    draw_weights(panels[0, 1], causal[0], LONG, "causal mask")
    draw_weights(panels[1, 0], free[1], pad(SHORT), "a short sentence, no mask")
    draw_weights(panels[1, 1], padded[1], pad(SHORT), "padding mask")
    save(
        figure,
        path,
        "'it' and 'tired' look at 'animal', 'cross' at both things; a word that asks for nothing looks everywhere",
    )
    it, animal = LONG.index("it"), LONG.index("animal")
    print(f"    weight that 'it' gives to 'animal', without a mask: {free[0, it, animal]:.2f}")
    print(
        f"    weight that the short sentence's 'it' gives to <pad>, without a mask: {free[1, 0, 3:].sum():.2f}"
    )
    print(
        f"    weight that the short sentence's 'it' gives to <pad>, padding masked: {padded[1, 0, 3:].sum():.2f}"
    )


def draw_weights(axes: Axes, weights: Tensor, words: list[str], title: str) -> None:
    axes.imshow(weights.cpu(), cmap="Blues", vmin=0, vmax=1)
    axes.set(title=title, xlabel="looks at (key)", ylabel="word (query)")
    axes.set_xticks(range(len(words)), words, rotation=90)
    axes.set_yticks(range(len(words)), words)


def draw_variance(path: Path, device: str) -> None:
    """How the variance of a dot product grows with the number of its terms."""
    raw, scaled = [], []
    print("    d_k   variance of q·k   variance of q·k / sqrt(d_k)")
    for d_k in WIDTHS:
        query, key = random_query_and_key(d_k, device)
        scores = query @ key.mT
        raw.append(scores.var().item())
        scaled.append((scores / math.sqrt(d_k)).var().item())
        print(f"   {d_k:4}   {raw[-1]:15.1f}   {scaled[-1]:27.3f}")

    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    axes.plot(WIDTHS, WIDTHS, color="lightgrey", linewidth=6, label="d_k")
    axes.plot(WIDTHS, raw, "o-", label="q·k")
    axes.plot(WIDTHS, scaled, "o-", label="q·k / sqrt(d_k)")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(
        title="queries and keys of independent N(0, 1) numbers", xlabel="d_k", ylabel="variance of a score"
    )
    axes.legend()
    save(figure, path, "the variance of q·k is d_k; divided by sqrt(d_k) it is 1, however wide the head")


def draw_saturation(path: Path, device: str) -> None:
    """What that does to your softmax: the weights of 16 keys, and how much gradient comes through."""
    scaled, unscaled = [], []
    print("    d_k   largest of 16 weights: yours, unscaled   slope of the softmax: yours, unscaled")
    for d_k in WIDTHS:
        query, key = random_query_and_key(d_k, device)
        _, with_division = scaled_dot_product_attention(query, key, key)
        # Queries sqrt(d_k) times as large undo the division: this is attention without it.
        _, without = scaled_dot_product_attention(query * math.sqrt(d_k), key, key)
        scaled.append(with_division)
        unscaled.append(without)
        print(
            f"   {d_k:4}   {largest(with_division):29.2f} {largest(without):10.2f}"
            f"   {slope(with_division):27.2f} {slope(without):10.3f}"
        )

    figure, (bars, lines) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    for weights, label in ((scaled[-1], "yours"), (unscaled[-1], "without / sqrt(d_k)")):
        first = weights[0, 0].cpu()
        offset = -0.2 if label == "yours" else 0.2
        bars.bar([place + offset for place in range(len(first))], first.tolist(), width=0.4, label=label)
    bars.set(title=f"the weights of one query, d_k = {WIDTHS[-1]}", xlabel="key", ylabel="weight")
    bars.legend()
    lines.plot(WIDTHS, [slope(weights) for weights in scaled], "o-", label="yours")
    lines.plot(WIDTHS, [slope(weights) for weights in unscaled], "o-", label="without / sqrt(d_k)")
    lines.set_xscale("log", base=2)
    lines.set_ylim(0, 1)
    lines.set(title="slope of the softmax, sum of w (1 - w)", xlabel="d_k", ylabel="slope")
    lines.legend()
    save(
        figure,
        path,
        "without the division one key takes everything and the softmax has no slope left to learn by",
    )


def largest(weights: Tensor) -> float:
    """The largest weight of a query, averaged over the queries."""
    return weights.amax(dim=-1).mean().item()


def slope(weights: Tensor) -> float:
    """The trace of the softmax's Jacobian, sum of w (1 - w), averaged over the queries."""
    return (weights * (1 - weights)).sum(dim=-1).mean().item()


def show_traps(device: str) -> None:
    """The traps of the lesson, sprung on purpose, in plain PyTorch."""
    hidden = torch.full((1, 3), float("-inf"), device=device)
    print(f"softmax of a row of minus infinities: {hidden.softmax(dim=-1)[0].tolist()}")

    try:
        torch.zeros(3, dtype=torch.float16, device=device).masked_fill(
            torch.tensor(True, device=device), -1e9
        )
    except RuntimeError as error:
        print(f"filling float16 scores with -1e9: {str(error).splitlines()[0]}")

    scores = torch.tensor([[-30.0, -31.0, 0.0]], device=device)  # the third key is hidden: its score became 0
    print(
        f"hidden score set to 0 instead of minus infinity: its weight is {scores.softmax(dim=-1)[0, 2]:.2f}"
    )

    print(
        f"~ on the integer mask [1, 0]: {(~torch.tensor([1, 0], device=device)).tolist()}, both of them true"
    )

    scores = torch.zeros(2, 3, 3, device=device)
    too_large = torch.ones(4, 1, 3, 3, dtype=torch.bool, device=device)  # meant for a model with heads
    grown = scores.masked_fill(~too_large, 0.0)
    print(
        f"scores {tuple(scores.shape)} with a mask {tuple(too_large.shape)}: {tuple(grown.shape)}, and no error"
    )

    scores = torch.zeros(2, 2, device=device)
    causal = torch.ones(2, 2, dtype=torch.bool, device=device).tril()
    changed = scores.clone()
    changed[1, 0] = 3.0  # the second word's score, which depends on the second word
    before, after = (s.masked_fill(~causal, float("-inf")).softmax(dim=0) for s in (scores, changed))
    print(
        "softmax over the queries under a causal mask: the first word's weight moves "
        f"from {before[0, 0]:.2f} to {after[0, 0]:.2f} when the second word changes"
    )


def pad(words: list[str]) -> list[str]:
    return words + ["<pad>"] * (len(LONG) - len(words))


def encode(sentences: list[list[str]], device: str) -> Tensor:
    """(batch, seq) token ids, padded on the right; <pad> is 0."""
    return torch.tensor(
        [[VOCABULARY.index(word) for word in pad(words)] for words in sentences], device=device
    )


def embed(tokens: Tensor) -> Tensor:
    """(batch, seq, D_MODEL): 1 for each feature that a word has."""
    table = torch.zeros(len(VOCABULARY), D_MODEL, device=tokens.device)
    for word, features in FEATURES.items():
        table[VOCABULARY.index(word), list(features)] = 1.0
    return table[tokens]


def head_by_hand() -> SingleHeadAttention:
    """Your layer, with a job written into it: pronouns and states ask for what is alive, deeds for things."""
    things, alive = range(2)  # the two features of queries and keys
    head = SingleHeadAttention(D_MODEL, 2)
    for parameter in head.parameters():
        parameter.zero_()
    large = 2.7  # a match scores 2.7 * 2.7 / sqrt(2), about 5
    head.w_q.weight[things, DEED] = large
    head.w_q.weight[alive, PRONOUN] = large
    head.w_q.weight[alive, STATE] = large
    head.w_k.weight[things, THING] = large
    head.w_k.weight[alive, ALIVE] = large
    return head


def random_query_and_key(d_k: int, device: str) -> tuple[Tensor, Tensor]:
    """Independent N(0, 1) numbers: 256 times, 16 queries and 16 keys."""
    generator = torch.Generator().manual_seed(d_k)
    query, key = torch.randn(2, 256, 16, d_k, generator=generator)
    return query.to(device), key.to(device)


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
