"""Draws your own heads at work: `python -m stages.stage2_multi_head.demo` (or `solutions.`).

The weights are set by hand, one job for each head, so you know beforehand what every picture must show.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from torch import Tensor

from ..stage1_attention.attention import scaled_dot_product_attention
from .multi_head import MultiHeadAttention, split_heads

WORDS = ["the", "cat", "chased", "the", "mouse", "and", "the", "mouse", "hid"]
NOUNS = ("cat", "mouse")
JOBS = ("the word before", "the same word", "the nouns", "the first word")
HEADS = len(JOBS)
D_K = 12
D_MODEL = HEADS * D_K

# Where the features of a token stand: which word it is, at which place, and whether it is a noun.
WORD, PLACE, NOUN = 0, 12, 24

HEAD_COLOURS = ListedColormap(["#4477aa", "#ee6677", "#ccbb44", "#228833"])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw what each head of your own attention looks at.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage2"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        draw_split(options.out / "split.png", options.device)
        draw_heads(options.out / "heads.png", options.device)
        draw_one_head(options.out / "one_head.png", options.device)
        draw_reach(options.out / "reach.png", options.device)
        count_parameters()


def draw_split(path: Path, device: str) -> None:
    """Who gets which number: a sequence of 6 tokens with 12 features, 3 heads."""
    seq, d_model, heads = 6, 12, 3
    numbers = torch.arange(seq * d_model, dtype=torch.float32, device=device).reshape(1, seq, d_model)
    figure, (right, wrong) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    draw_owners(right, split_heads(numbers, heads), seq, d_model, "split_heads: every head, every token")
    draw_owners(
        wrong, split_by_view(numbers, heads), seq, d_model, "split by view: whole tokens go to one head"
    )
    save(
        figure,
        path,
        "left, each head (colour) owns a column of every token; right, view hands out whole tokens",
    )


def draw_owners(axes: Axes, heads: Tensor, seq: int, d_model: int, title: str) -> None:
    """Colour each place of a (seq, d_model) table of 0, 1, 2 ... by the head that its number went to."""
    owners = torch.empty(seq * d_model)
    for h, numbers in enumerate(heads[0].cpu()):
        owners[numbers.flatten().long()] = h
    axes.imshow(owners.reshape(seq, d_model), cmap=HEAD_COLOURS, vmin=0, vmax=3)
    axes.set(title=title, xlabel="feature", ylabel="token", xticks=range(d_model), yticks=range(seq))
    for h in range(heads.shape[1]):
        axes.plot([], [], "s", color=HEAD_COLOURS(h), label=f"head {h}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def draw_heads(path: Path, device: str) -> None:
    """The attention of the four heads on one sentence, and what split by view makes of the same weights."""
    attention = attention_with_jobs().to(device)
    x = embed(WORDS).to(device)
    _, weights = attention(x, x, x)
    query, key = split_by_view(attention.w_q(x), HEADS), split_by_view(attention.w_k(x), HEADS)
    _, wrong = scaled_dot_product_attention(query, key, key)

    figure, rows = plt.subplots(2, HEADS, figsize=(15, 8.4), layout="constrained")
    for h, job in enumerate(JOBS):
        draw_attention(rows[0, h], weights[0, h], f"head {h}: {job}")
        draw_attention(rows[1, h], wrong[0, h], f"head {h}, split by view")
    save(
        figure,
        path,
        "above, each head does its own job; below, the same weights, split by view: the jobs are gone",
    )


def draw_one_head(path: Path, device: str) -> None:
    """The very same weights in a single head: one softmax has to serve all four jobs."""
    attention = attention_with_jobs(num_heads=1).to(device)
    x = embed(WORDS).to(device)
    _, weights = attention(x, x, x)
    figure, axes = plt.subplots(figsize=(4.4, 4.8), layout="constrained")
    draw_attention(axes, weights[0, 0], "the same weights, one head")
    save(
        figure,
        path,
        "with one head the jobs compete in one softmax: mouse sees both mice and loses the word before it",
    )


def draw_attention(axes: Axes, weights: Tensor, title: str) -> None:
    axes.imshow(weights.cpu(), cmap="Blues", vmin=0, vmax=1)
    axes.set_title(title)
    axes.set_xticks(range(len(WORDS)), WORDS, rotation=90)
    axes.set_yticks(range(len(WORDS)), WORDS)
    axes.set(xlabel="looks at", ylabel="word")


def draw_reach(path: Path, device: str) -> None:
    """Which output tokens move when one input token changes: without a mask, all of them must."""
    torch.manual_seed(0)
    seq, d_model, heads = 6, 12, 3
    attention = MultiHeadAttention(d_model, heads).to(device).eval()

    def yours(x: Tensor) -> Tensor:
        return attention(x, x, x)[0]

    def by_view(x: Tensor) -> Tensor:
        query, key, value = (
            split_by_view(w(x), heads) for w in (attention.w_q, attention.w_k, attention.w_v)
        )
        output, _ = scaled_dot_product_attention(query, key, value)
        return attention.w_o(output.reshape(1, seq, d_model))

    x = torch.randn(1, seq, d_model).to(device)
    figure, both = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axes, layer, title in zip(both, (yours, by_view), ("yours", "split and merged by view"), strict=True):
        moved = torch.zeros(seq, seq)
        for changed in range(seq):
            edited = x.clone()
            edited[0, changed] += 1.0
            moved[:, changed] = (layer(edited) - layer(x)).abs().amax(dim=-1)[0].cpu() > 1e-6
        axes.imshow(moved, cmap="Greys", vmin=0, vmax=1.5)
        axes.set(title=title, xlabel="input token that changes", ylabel="output token that moves")
    save(
        figure,
        path,
        "left, every input reaches every output; right, split and merged by view, only within thirds",
    )

    for layer, name in ((yours, "yours"), (by_view, "split and merged by view")):
        difference = (layer(x.roll(1, dims=1)) - layer(x).roll(1, dims=1)).abs().max().item()
        print(f"tokens in another order: the outputs, put back in order, differ by {difference:.0e} ({name})")


def count_parameters() -> None:
    """The number of heads costs nothing."""
    for heads in (1, 2, 4, 8):
        parameters = sum(parameter.numel() for parameter in MultiHeadAttention(512, heads).parameters())
        print(f"d_model = 512, num_heads = {heads}, d_k = {512 // heads:3}: {parameters:,} parameters")


def split_by_view(x: Tensor, num_heads: int) -> Tensor:
    """WRONG, for the pictures: the shape is right, but a head gets whole tokens, cut into pieces."""
    batch, seq, d_model = x.shape
    return x.reshape(batch, num_heads, seq, d_model // num_heads)


def embed(words: list[str]) -> Tensor:
    """(1, seq, d_model): a token says which word it is, where it stands, and whether it is a noun."""
    vocabulary = list(dict.fromkeys(words))
    x = torch.zeros(1, len(words), D_MODEL)
    for place, word in enumerate(words):
        x[0, place, WORD + vocabulary.index(word)] = 1.0
        x[0, place, PLACE + place] = 1.0
        x[0, place, NOUN] = float(word in NOUNS)
    return x


def attention_with_jobs(num_heads: int = HEADS) -> MultiHeadAttention:
    """Your layer, with the job of each head written into its own rows of w_q and w_k."""
    attention = MultiHeadAttention(D_MODEL, num_heads).eval()
    for parameter in attention.parameters():
        parameter.zero_()
    asks, asks_always, offers = attention.w_q.weight, attention.w_q.bias, attention.w_k.weight
    large = 4.0  # a match scores 4 * 4 / sqrt(12), about 4.6: nearly all the attention
    for i in range(D_K):
        if i > 0:
            asks[0 * D_K + i - 1, PLACE + i] = large  # head 0: the word at place i asks for place i-1
        offers[0 * D_K + i, PLACE + i] = large
        asks[1 * D_K + i, WORD + i] = large  # head 1: a word asks for itself
        offers[1 * D_K + i, WORD + i] = large
    asks_always[2 * D_K] = large  # head 2: every word asks for nouns
    offers[2 * D_K, NOUN] = large
    asks_always[3 * D_K] = large  # head 3: every word asks for place 0
    offers[3 * D_K, PLACE] = large
    return attention


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
