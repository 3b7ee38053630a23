"""Pictures of a run and of a translation: curves, and where each written word looks in the source.

Given, not an exercise.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import font_manager, ft2font
from matplotlib import pyplot as plt
from torch import Tensor

from .settings import BadInput

# How fonts with Chinese characters are called on Linux, macOS and Windows, simplified ones first.
CHINESE_FONTS = (
    "Noto Sans CJK",
    "Noto Sans SC",
    "Source Han Sans",
    "WenQuanYi",
    "Droid Sans Fallback",
    "PingFang",
    "Hiragino Sans GB",
    "Heiti",
    "STHeiti",
    "Songti",
    "Microsoft YaHei",
    "SimHei",
    "SimSun",
    "DengXian",
    "Noto Serif CJK",
    "AR PL",
    "LXGW WenKai",
    "Arial Unicode",
)

NO_FONT = (
    "no font here has {characters}, so the picture counts the characters; the list is below. For a picture that "
    "shows them, install Noto Sans CJK SC (Debian and Ubuntu: apt install fonts-noto-cjk), or give --font FILE"
)


def draw_curves(path: Path, history: Sequence[dict[str, Any]]) -> None:
    """Draw loss, BLEU and learning rate over the epochs."""
    epochs = [entry["epoch"] for entry in history]
    best = max(history, key=lambda entry: entry["bleu"])
    figure, (losses, bleu, rate) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    losses.plot(epochs, [entry["train_loss"] for entry in history], label="training")
    losses.plot(epochs, [entry["valid_loss"] for entry in history], label="validation")
    losses.set(title="Loss per token", xlabel="epoch", ylabel="cross-entropy (nats)", ylim=(0, None))
    bleu.plot(epochs, [entry["bleu"] for entry in history], color="tab:green", label="validation, greedy")
    bleu.plot(
        best["epoch"], best["bleu"], "*", markersize=13, color="tab:green", label=f"best: {best['bleu']:.1f}"
    )
    bleu.set(title="BLEU", xlabel="epoch", ylim=(0, 100))
    rate.plot(epochs, [entry["lr"] for entry in history], color="tab:red")
    rate.set(title="Learning rate", xlabel="epoch", ylim=(0, None))
    for axes in (losses, bleu):
        axes.legend()
    for axes in (losses, bleu, rate):
        axes.grid(alpha=0.3)
    _save(figure, path)


def draw_attention(
    path: Path, weights: Tensor, source: Sequence[str], target: Sequence[str], font: Path | None = None
) -> str:
    """Draw cross-attention `(layers, tgt_len, src_len)`: a panel a layer, and the mean of all.

    `font` is a file to use; without one, the system's fonts are looked through. Returns an empty text, or a
    note with the list of characters where no font has them all: the picture then shows their numbers.
    """
    characters = {char for token in source for char in token if ord(char) > 127}
    if font is not None and not font.is_file():
        raise BadInput(f"there is no font {font}; leave out --font to use one of the system")
    chosen = font or find_font(characters)
    note = ""
    labels = list(source)
    if characters and (chosen is None or not covers(chosen, characters)):
        note = NO_FONT.format(characters="".join(sorted(characters)))
        numbers = {}
        for place, token in enumerate(source):
            if any(ord(char) > 127 for char in token):
                labels[place] = numbers[token] = numbers.get(token, str(len(numbers) + 1))
        note += "\n    " + "  ".join(f"{number} {token}" for token, number in numbers.items())
        chosen = None
    properties = font_manager.FontProperties(fname=chosen) if chosen else font_manager.FontProperties()

    panels = {f"layer {layer + 1}": weights[layer] for layer in range(len(weights))}
    panels = {"mean of the layers": weights.mean(0), **(panels if len(panels) > 1 else {})}
    width, height = 0.34 * len(source) + 1.2, 0.32 * len(target) + 1.6
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(width * len(panels) + 1.5, height),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for axes, (title, panel) in zip(grid[0], panels.items()):
        axes.imshow(panel.float().cpu().numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(source)), labels, fontproperties=properties, fontsize=11)
        axes.set_yticks(range(len(target)), target)
    grid[0][0].set_ylabel("word that is written")
    figure.supxlabel("character that is read", fontsize=10)
    _save(figure, path)
    return note


def find_font(characters: Iterable[str]) -> Path | None:
    """Find a font of the system that has all the characters; None where there is none."""
    wanted = set(characters)
    known = font_manager.fontManager.ttflist
    by_rank: list[tuple[int, int, str]] = []
    for entry in known:
        for rank, name in enumerate(CHINESE_FONTS):
            if entry.name.startswith(name):
                by_rank.append((rank, abs(int(entry.weight) - 400), entry.fname))
    named = [file for _, _, file in sorted(by_rank)]
    others = [entry.fname for entry in known if entry.fname not in named and entry.style == "normal"]
    for file in [*named, *others]:
        if Path(file).name.startswith("LastResort"):
            continue  # has a box for every character
        if covers(Path(file), wanted):
            return Path(file)
    return None


def covers(font: Path, characters: Iterable[str]) -> bool:
    """Whether a font file has a glyph for each of the characters."""
    try:
        face = ft2font.FT2Font(str(font))
    except (OSError, RuntimeError, ValueError):
        return False
    return all(face.get_char_index(ord(char)) for char in characters)


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
