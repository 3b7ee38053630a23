"""Measures your own cache at work: `python -m stages.stage8_kv_cache.demo` (or `solutions.`).

A random GPT is enough: how long a token takes does not depend on what the model has learned.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from torch import Tensor

from ..stage1_attention.attention import causal_mask
from ..stage5_decoder.transformer import Transformer
from ..stage6_training.decoding import beam_search, greedy_decode
from ..stage7_gpt.generation import generate
from ..stage7_gpt.gpt import GPT, GPTConfig
from .cached_decoding import beam_search_cached, compare_with_torch, generate_cached, greedy_decode_cached
from .kv_cache import CachedAttention, KVCache

LENGTHS = (8, 16, 32, 64, 128, 256, 384, 504)
NEW = 8  # tokens that are written after each length
ATTENTION_LENGTHS = (32, 64, 128, 256, 512, 1024)

Write = Callable[..., Tensor]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure your own KV cache.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage8"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    draw_reading(options.out / "reading.png", options.device)
    draw_time(options.out / "time_per_token.png", options.device)
    draw_attention(options.out / "attention.png", options.device)
    show_translations(options.device)
    show_chunks(options.device)
    show_traps(options.device)


def make_gpt(device: str) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=256, block_size=512, d_model=128, num_heads=4, num_layers=4)
    return GPT(config).to(device).eval()


# What is read


def draw_reading(path: Path, device: str) -> None:
    """Which tokens go through the model at each step, seen at the embedding."""
    model = make_gpt(device)
    prompt = torch.randint(256, (1, 6), device=device)
    steps = 14
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axes, (title, write) in zip(
        panels, {"without a cache": generate, "with a cache": generate_cached}.items(), strict=True
    ):
        read = tokens_read(model, write, prompt, steps)
        draw_read(axes, read, prompt.size(1), steps, f"{title}: {sum(read)} tokens read")
    save(
        figure, path, "each row is a step; without a cache it reads the whole text, with one the newest token"
    )


def tokens_read(model: GPT, write: Write, prompt: Tensor, steps: int) -> list[int]:
    """How many tokens each step sends into the model."""
    read: list[int] = []
    hook = model.token_embed.register_forward_hook(
        lambda module, inputs, output: read.append(inputs[0].numel())
    )
    write(model, prompt, steps, temperature=0)
    hook.remove()
    return read


def draw_read(axes: Axes, read: list[int], prompt_len: int, steps: int, title: str) -> None:
    width = prompt_len + steps - 1
    grid = torch.zeros(len(read), width)
    for step, count in enumerate(read):
        end = prompt_len + step
        grid[step, :end] = 0.25  # its keys and values are needed
        grid[step, max(0, end - count) : end] = 1.0  # it is read
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    axes.axvline(prompt_len - 0.5, color="black", linewidth=1, linestyle=":")
    axes.set(title=title, xlabel="token (prompt, then new ones)", ylabel="step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


# How long it takes


def draw_time(path: Path, device: str) -> None:
    """Time per token for growing texts."""
    model = make_gpt(device)
    print("    length   without a cache   with a cache")
    curves: dict[str, list[float]] = {"without a cache": [], "with a cache": []}
    for length in LENGTHS:
        prompt = torch.randint(256, (1, length), device=device)
        without = seconds_per_token(generate, model, prompt)
        cached = seconds_per_token(generate_cached, model, prompt)
        curves["without a cache"].append(without * 1000)
        curves["with a cache"].append(cached * 1000)
        print(f"    {length:6}   {without * 1000:12.2f} ms   {cached * 1000:9.2f} ms")
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for label, milliseconds in curves.items():
        axes.plot(LENGTHS, milliseconds, marker="o", label=label)
    axes.set(xlabel="tokens so far", ylabel="milliseconds for the next token", ylim=(0, None))
    axes.set_title("d_model 128, 4 layers, batch 1")
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, path, "without a cache a token takes longer the longer the text is; with one, hardly")


def seconds_per_token(write: Write, model: GPT, prompt: Tensor) -> float:
    """The time between two steps, seen at the embedding; the first step, which reads the prompt, does not count."""
    clock: list[float] = []

    def note(*_: object) -> None:
        wait_for(prompt.device)
        clock.append(time.perf_counter())

    hook = model.token_embed.register_forward_hook(note)
    write(model, prompt, NEW, temperature=0)
    hook.remove()
    return statistics.median(after - before for before, after in pairwise(clock[1:]))


def wait_for(device: torch.device) -> None:
    """On a GPU the work goes on after a call has returned."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Beside PyTorch


def draw_attention(path: Path, device: str) -> None:
    """Your attention of stage 1 beside F.scaled_dot_product_attention, for growing sequences."""
    torch.manual_seed(0)
    print("    length   largest difference   yours / PyTorch's time   with a causal mask")
    ratios: dict[str, list[float]] = {"no mask": [], "causal mask": []}
    for length in ATTENTION_LENGTHS:
        query, key, value = (torch.randn(2, 4, length, 32, device=device) for _ in range(3))
        difference, ratio = compare_with_torch(query, key, value, repeats=11)
        _, masked = compare_with_torch(query, key, value, causal_mask(length, device), repeats=11)
        ratios["no mask"].append(ratio)
        ratios["causal mask"].append(masked)
        print(f"    {length:6}   {difference:18.1e}   {ratio:23.2f}   {masked:18.2f}")
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for label, values in ratios.items():
        axes.plot(ATTENTION_LENGTHS, values, marker="o", label=label)
    axes.axhline(1, color="black", linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set(
        xlabel="sequence length",
        ylabel="your time / PyTorch's",
        ylim=(0, None),
        title="batch 2, 4 heads, d_k 32",
    )
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, path, "above the dotted line PyTorch's own is faster: it never writes down the whole matrix")


# Translations


def show_translations(device: str) -> None:
    """The same ids with and without a cache, and how much faster."""
    torch.manual_seed(0)
    model = (
        Transformer(60, 60, d_model=128, num_heads=4, num_layers=3, d_ff=256, max_len=200).to(device).eval()
    )
    with torch.no_grad():
        model.fc_out.bias[2] = -100.0  # it never ends: all rows are 60 tokens long
    src = torch.randint(4, 60, (2, 20), device=device)
    for name, plain, cached in (
        ("greedy", greedy_decode, greedy_decode_cached),
        ("beam of 4", beam_search, beam_search_cached),
    ):
        times, ids = [], []
        for decode in (plain, cached):
            start = time.perf_counter()
            ids.append(decode(model, src, 60))
            wait_for(src.device)
            times.append(time.perf_counter() - start)
        same = "the same ids" if torch.equal(*ids) else "OTHER IDS"
        print(f"translating, {name}: {same}; {times[0]:.2f} s without a cache, {times[1]:.2f} s with one")


# The layer, and how it goes wrong


@torch.no_grad()
def show_chunks(device: str) -> None:
    """However a text comes in, its rows are the same."""
    attention, x, whole = attention_and_text(device)
    for name, lengths in {"at once": [12], "token by token": [1] * 12, "in blocks": [5, 1, 4, 2]}.items():
        largest = (read_in_chunks(attention, KVCache, x, lengths) - whole).abs().max().item()
        print(
            f"a text of 12 tokens read {name}: differs from causal attention over all of it by {largest:.0e}"
        )


@torch.no_grad()
def show_traps(device: str) -> None:
    """Two caches with a mistake, and what shows of it."""
    attention, x, whole = attention_and_text(device)
    for name, cache in {
        "new keys before the old": NewFirst,
        "empty places returned": WithEmptyPlaces,
    }.items():
        for way, lengths in {"token by token": [1] * 12, "in blocks of 4": [4, 4, 4]}.items():
            try:
                largest = (read_in_chunks(attention, cache, x, lengths) - whole).abs().max().item()
                print(f"trap, {name}, {way}: off by {largest:.2f}")
            except ValueError:
                print(f"trap, {name}, {way}: a ValueError, the mask does not fit")


class NewFirst(KVCache):
    """WRONG: what is new stands before what is old."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Turn the order of the calls round."""
        new = key.size(2)
        keys, values = super().append(key, value)
        order = torch.arange(keys.size(2), device=keys.device).roll(new)
        keys[:], values[:] = keys[:, :, order], values[:, :, order]
        return keys, values


class WithEmptyPlaces(KVCache):
    """WRONG: all places are returned, also the empty ones."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put zeros behind what there is."""
        rows = super().append(key, value)
        keys, values = (torch.nn.functional.pad(part, (0, 0, 0, 20 - part.size(2))) for part in rows)
        return keys, values


def attention_and_text(device: str) -> tuple[CachedAttention, Tensor, Tensor]:
    """A layer, a text, and causal attention over all of it."""
    torch.manual_seed(0)
    attention = CachedAttention(16, 2).to(device).eval()
    for parameter in attention.parameters():
        parameter.data.normal_(std=0.5)
    x = torch.randn(1, 12, 16).to(device)
    return attention, x, attention(x, x, x, causal_mask(12, device))[0]


def read_in_chunks(attention: CachedAttention, cache: type[KVCache], x: Tensor, lengths: list[int]) -> Tensor:
    """The rows of a text that comes in chunks."""
    filled = cache(1, 2, 20, 8, device=x.device)
    return torch.cat([attention(chunk, cache=filled)[0] for chunk in x.split(lengths, dim=1)], dim=1)


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
