"""Draws your own positions: `python -m stages.stage3_positional_encoding.demo` (or `solutions.`).

Nothing is trained here. The pictures come in the order of the exercises: what is done already is drawn.
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
from torch import Tensor, nn

from .positional_encoding import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
    apply_rotary,
    rotary_table,
    sinusoidal_table,
)

SENTENCE, TURNED = "dog bites man".split(), "man bites dog".split()
POSITIONS = 128
D_MODEL = 64
D_K = 32
SHADES = ("#4477aa", "#ee6677", "#228833", "#ccbb44")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw what your own positional encoding does.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage3"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        draw_table(options.out / "table.png")
        draw_wavelengths(options.out / "wavelengths.png")
        draw_dot_products(options.out / "dot_products.png")
        draw_scale(options.out / "scale.png")
        show_order(options.device)
        show_offset(options.device)
        show_saving()
        show_half_precision()
        draw_learned(options.out / "learned.png")
        draw_rotation(options.out / "rotation.png")
        draw_relative_scores(options.out / "rotary_scores.png", options.device)


# The fixed table


def draw_table(path: Path) -> None:
    """The whole table as an image, and its first rows in numbers."""
    table = sinusoidal_table(POSITIONS, D_MODEL)
    figure, axes = plt.subplots(figsize=(7, 7), layout="constrained")
    image = axes.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set(title=f"sinusoidal_table({POSITIONS}, {D_MODEL})", xlabel="column", ylabel="position")
    figure.colorbar(image)
    save(
        figure,
        path,
        "each row is a position; the left columns change at every step, the right ones hardly at all",
    )
    print(
        "the first 4 of 8 columns:",
        *(f"[{' '.join(f'{x:5.2f}' for x in row[:4])}]" for row in sinusoidal_table(3, 8)),
    )


def draw_wavelengths(path: Path) -> None:
    """Some columns as waves, and the length of every wave."""
    table = sinusoidal_table(POSITIONS, D_MODEL)
    figure, (waves, lengths) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    for column, shade in zip((0, 8, 16, 24), SHADES, strict=True):
        waves.plot(table[:, column], color=shade, label=f"column {column}")
    waves.set(title="four of the sine columns", xlabel="position", ylabel="value")
    waves.legend(loc="upper right")
    # The angle that a pair turns in one step, read from row 1: its sine and cosine.
    steps = torch.atan2(table[1, 0::2], table[1, 1::2])
    lengths.semilogy(2 * math.pi / steps, ".-", color=SHADES[0])
    lengths.set(title="positions until a column pair repeats", xlabel="pair", ylabel="wavelength")
    lengths.grid(alpha=0.3)
    save(
        figure,
        path,
        f"from pair to pair the waves grow by the same factor, from {2 * math.pi / steps[0]:.2f} positions "
        f"to {2 * math.pi / steps[-1]:,.0f}",
    )


def draw_dot_products(path: Path) -> None:
    """The dot products of all rows with all rows, and as curves over the distance."""
    table = sinusoidal_table(POSITIONS, D_MODEL)
    figure, (matrix, curves) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    image = matrix.imshow(table @ table.T, cmap="viridis")
    matrix.set(title="row p times row q", xlabel="q", ylabel="p")
    figure.colorbar(image, ax=matrix)
    draw_over_distance(curves, table @ table.T, "the same, over the distance q - p")
    save(
        figure,
        path,
        "every diagonal has one colour: the dot product depends on the distance alone, and is largest at 0",
    )


def draw_over_distance(axes: Axes, products: Tensor, title: str, what: str = "dot product") -> None:
    """One curve for each of three rows of a (positions, positions) matrix; they should lie on one another."""
    for start, width, shade in zip((20, 60, 100), (7, 3.5, 1.2), SHADES, strict=False):
        distances = torch.arange(len(products)) - start
        axes.plot(distances, products[start].cpu(), color=shade, linewidth=width, label=f"p = {start}")
    axes.set(title=title, xlabel="distance", ylabel=what)
    axes.legend()
    axes.grid(alpha=0.3)


# The layers that add


def draw_scale(path: Path) -> None:
    """How large embeddings are beside the table, as they begin and times sqrt(d_model)."""
    torch.manual_seed(0)
    d_model, vocabulary = 512, 1000
    table = sinusoidal_table(POSITIONS, d_model)
    starts = {
        "nn.Embedding as it begins: N(0, 1)": torch.randn(vocabulary, d_model),
        "embedding of std 1/sqrt(d_model)": torch.randn(vocabulary, d_model) / math.sqrt(d_model),
    }
    figure, both = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    print(f"rms of the numbers of the table: {rms(table):.2f}")
    for axes, (title, weights) in zip(both, starts.items(), strict=True):
        scaled = math.sqrt(d_model) * weights
        bins = torch.linspace(-120, 120, 3601).numpy()
        for values, label, shade in (
            (weights, "embedding", SHADES[0]),
            (scaled, "embedding * sqrt(512)", SHADES[1]),
            (table, "table of positions", SHADES[3]),
        ):
            axes.hist(
                values.flatten().numpy(),
                bins,
                density=True,
                histtype="step",
                linewidth=2,
                color=shade,
                label=label,
            )
        axes.set(title=title, xlabel="value", ylabel="density", xlim=(-4, 4), yscale="log", ylim=(1e-3, 30))
        axes.legend(loc="upper left")
        print(f"{title}: rms {rms(weights):.3f}, times sqrt(512) {rms(scaled):.2f}")
    xavier = nn.init.xavier_uniform_(torch.empty(vocabulary, d_model))
    scaled = math.sqrt(d_model) * xavier
    print(f"Xavier-uniform, {vocabulary} words: rms {rms(xavier):.3f}, times sqrt(512) {rms(scaled):.2f}")
    save(figure, path, "left, the factor drowns the positions; right, the words drown in them without it")


def rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def show_order(device: str) -> None:
    """What attention makes of "bites" in two sentences of the same words, without positions and with them."""
    torch.manual_seed(0)
    vocabulary = {word: torch.randn(D_MODEL) for word in SENTENCE}
    positions = SinusoidalPositionalEncoding(D_MODEL, max_len=10).to(device).eval()
    maps = (torch.randn(3, D_MODEL, D_MODEL) / math.sqrt(D_MODEL)).to(device)
    x, turned = (
        torch.stack([vocabulary[word] for word in words]).to(device)[None] for words in (SENTENCE, TURNED)
    )
    for what, first, second in (("without", x, turned), ("with", positions(x), positions(turned))):
        apart = (attend(first, maps) - attend(second, maps))[0, 1].abs().max()
        print(f"'bites' in 'dog bites man' and in 'man bites dog', {what} positions: {apart:.1g} apart")


def attend(x: Tensor, maps: Tensor) -> Tensor:
    """Self-attention with one head, in two lines."""
    query, key, value = x @ maps[:, None]
    return (query @ key.mT / math.sqrt(x.size(-1))).softmax(dim=-1) @ value


def show_offset(device: str) -> None:
    """A sequence that goes through in two pieces, and what the second piece gets without its offset."""
    torch.manual_seed(0)
    positions = SinusoidalPositionalEncoding(D_MODEL, max_len=10).to(device).eval()
    x = torch.randn(1, 8, D_MODEL).to(device)
    whole, start = positions(x), positions(x[:, :5])
    for what, rest in (("with offset=5", positions(x[:, 5:], offset=5)), ("without it", positions(x[:, 5:]))):
        apart = (torch.cat([start, rest], dim=1) - whole).abs().max()
        print(f"5 tokens, then 3 more {what}: {apart:.1f} apart from all 8 at once")


class PlainAttribute(nn.Module):
    """WRONG, to be shown: the table is a tensor like any other, so nn.Module does not know it."""

    def __init__(self) -> None:
        super().__init__()
        self.pe = sinusoidal_table(10, 4).unsqueeze(0)


def show_saving() -> None:
    """What is saved, and what moves."""
    for name, module in (
        ("yours", SinusoidalPositionalEncoding(4, 10)),
        ("plain attribute", PlainAttribute()),
    ):
        moved = module.double()
        print(f"{name}: saved {list(module.state_dict())}, after .double() pe is {moved.pe.dtype}")


def show_half_precision() -> None:
    """How many of the first 4096 positions half precision can tell apart."""
    positions = torch.arange(4096)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        print(f"{dtype} tells {len(positions.to(dtype).unique())} of the positions 0 ... 4095 apart")


def draw_learned(path: Path) -> None:
    """The dot products of the rows of a learned table before training."""
    torch.manual_seed(0)
    rows = LearnedPositionalEncoding(D_MODEL, POSITIONS).embedding.weight
    figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    image = axes.imshow(rows @ rows.T, cmap="viridis", vmin=-D_MODEL / 2, vmax=D_MODEL / 2)
    axes.set(title="learned positions before training", xlabel="q", ylabel="p")
    figure.colorbar(image)
    save(
        figure,
        path,
        "noise: which positions are near each other has to be learned, from sequences long enough",
    )


# Rotation


def draw_rotation(path: Path) -> None:
    """What apply_rotary does to the vector (1, 0) of a pair, for three pairs and the first positions."""
    positions = 12
    cos, sin = rotary_table(positions, D_K)
    x = torch.cat([torch.ones(1, 1, positions, D_K // 2), torch.zeros(1, 1, positions, D_K // 2)], dim=-1)
    first, second = apply_rotary(x, cos, sin)[0, 0].chunk(2, dim=-1)  # each (positions, d_k/2)
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
    for axes, pair in zip(panels, (0, 4, 8), strict=True):
        shades = plt.get_cmap("viridis")(torch.linspace(0, 0.95, positions).numpy())
        axes.quiver(
            [0] * positions, [0] * positions, first[:, pair], second[:, pair],
            color=shades, angles="xy", scale_units="xy", scale=1, width=0.012,
        )  # fmt: skip
        for p in range(positions):
            if pair == 8 and 0 < p < positions - 1:
                continue  # too close together
            axes.text(1.13 * first[p, pair], 1.13 * second[p, pair], p, ha="center", va="center", fontsize=8)
        axes.set(
            title=f"features {pair} and {pair + D_K // 2}", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal"
        )
    save(
        figure,
        path,
        "one vector at the positions 0 to 11: the first pair turns fast, later ones more and more slowly",
    )


def draw_relative_scores(path: Path, device: str) -> None:
    """The score of one query and one key at all positions: yours, and with two layouts mixed."""
    torch.manual_seed(4)
    cos, sin = (table.to(device) for table in rotary_table(POSITIONS, D_K))
    query, key = (torch.randn(D_K).expand(1, 1, POSITIONS, D_K).to(device) for _ in range(2))
    yours = (apply_rotary(query, cos, sin) @ apply_rotary(key, cos, sin).mT)[0, 0]
    mixed = (mix_layouts(query, cos, sin) @ mix_layouts(key, cos, sin).mT)[0, 0]
    figure, rows = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
    for (matrix, curves), scores, title in zip(
        rows, (yours, mixed), ("yours", "two layouts mixed"), strict=True
    ):
        image = matrix.imshow(scores.cpu(), cmap="viridis")
        matrix.set(title=f"{title}: score of one query at p with one key at q", xlabel="q", ylabel="p")
        figure.colorbar(image, ax=matrix)
        draw_over_distance(curves, scores, f"{title}: the same, over the distance q - p", "score")
    save(
        figure,
        path,
        "above, the curves are one: only the distance counts; below, with two layouts mixed, they part",
    )


def mix_layouts(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """WRONG, to be shown: angles laid out for neighbours (0, 0, 1, 1, ...), features paired by halves."""
    first, second = x.chunk(2, dim=-1)
    swapped = torch.cat([-second, first], dim=-1)
    return x * cos.repeat_interleave(2, dim=-1) + swapped * sin.repeat_interleave(2, dim=-1)


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
