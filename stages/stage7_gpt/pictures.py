"""Pictures of a GPT of characters: how it learned, what surprises it, and what top-k and top-p leave to chance.

Given, not an exercise.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import font_manager
from matplotlib import pyplot as plt
from torch import Tensor

from ..stage6_training.pictures import covers, find_font
from .generation import filter_logits

LINE = 64  # characters of a row in the picture of surprise
SHOWN = 16  # tokens of the picture of sampling
FILTERS: dict[str, dict[str, Any]] = {
    "as the model says": {},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0},
    "top_k = 3": {"top_k": 3},
    "top_p = 0.9": {"top_p": 0.9},
}
NAMES = {"\n": "↵", " ": "␣", "\t": "⇥"}


def draw_curves(path: Path, history: Sequence[dict[str, Any]], guessing: float) -> None:
    """Draw loss and learning rate over the steps; `guessing` is the loss of one who knows nothing."""
    steps = [entry["step"] for entry in history]
    figure, (losses, rate) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    losses.plot(steps, [entry["train_loss"] for entry in history], label="training, mean of the round")
    losses.plot(steps, [entry["valid_loss"] for entry in history], label="validation")
    losses.axhline(guessing, color="gray", linestyle="--", label=f"guessing: {guessing:.2f}")
    losses.set(title="Loss per character", xlabel="step", ylabel="cross-entropy (nats)", ylim=(0, None))
    losses.legend()
    rate.plot(steps, [entry["lr"] for entry in history], "o-", color="tab:red")
    rate.set(title="Learning rate", xlabel="step", ylim=(0, None))
    for axes in (losses, rate):
        axes.grid(alpha=0.3)
    _save(figure, path)


def draw_surprise(path: Path, text: str, surprises: Sequence[float]) -> None:
    """Draw a text with each character on a ground that is the darker the less it was expected.

    `surprises` are the losses, in nats, of the characters after the first.
    """
    values = [0.0, *surprises]
    text, font = drawable(text)
    rows = -(-len(text) // LINE)
    figure, axes = plt.subplots(figsize=(0.16 * LINE + 1.4, 0.3 * rows + 1.0), layout="constrained")
    grid = [[0.0] * LINE for _ in range(rows)]
    for place, (character, value) in enumerate(zip(text, values)):
        row, column = divmod(place, LINE)
        grid[row][column] = value
        shown = NAMES.get(character, character) if character != " " else ""
        color = "white" if value > 3.5 else "black"
        axes.text(column, row, shown, ha="center", va="center", color=color, fontproperties=font, fontsize=8)
    image = axes.imshow(grid, cmap="Oranges", vmin=0, vmax=6, aspect="auto")
    axes.set(xticks=[], yticks=[], title="How little each character was expected")
    figure.colorbar(image, ax=axes, label="loss (nats)")
    _save(figure, path)


def draw_sampling(path: Path, names: str, logits: Tensor, before: str) -> None:
    """Draw the chances of the next character after `before`, as temperature, top-k and top-p leave them."""
    names, font = drawable(names)
    likeliest = logits.argsort(descending=True)[:SHOWN]
    labels = [NAMES.get(names[index], names[index]) for index in likeliest.tolist()]
    figure, grid = plt.subplots(
        1, len(FILTERS), figsize=(2.6 * len(FILTERS), 4.2), layout="constrained", sharey=True, sharex=True
    )
    for axes, (title, options) in zip(grid, FILTERS.items()):
        chances = filter_logits(logits[None], **options).softmax(dim=-1)[0]
        possible = int((chances > 0).sum())
        axes.barh(range(len(labels)), chances[likeliest].tolist(), color="tab:blue")
        axes.set(title=f"{title}\n{possible} possible", xlabel="probability")
        axes.set_yticks(range(len(labels)), labels, fontproperties=font)
    grid[0].invert_yaxis()
    grid[0].set_xlim(0, None)
    figure.suptitle(
        f"Chances of the next character after …{drawable(before)[0]!r}", fontproperties=font, fontsize=11
    )
    _save(figure, path)


def drawable(text: str) -> tuple[str, font_manager.FontProperties]:
    """A text and a font that has its characters; where there is none, boxes stand for those that it lacks."""
    usual = font_manager.FontProperties(family="monospace")
    rare = {character for character in text if ord(character) > 127}
    if not rare or covers(Path(font_manager.findfont(usual)), rare):
        return text, usual
    if found := find_font(rare):
        return text, font_manager.FontProperties(fname=found)
    return "".join("□" if character in rare else character for character in text), usual


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
