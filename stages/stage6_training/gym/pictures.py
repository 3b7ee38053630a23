"""Draws a case: the healthy run beside the broken one, on the same scales."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from .runs import Run

COLOURS = ("#4477aa", "#ee6677")


def draw(path: Path, title: str, healthy: Run, broken: Run) -> None:
    """Loss and gradient norm at each step, and the attention maps if there are any."""
    with_maps = healthy.map is not None and broken.map is not None
    rows = 3 if with_maps else 2
    figure, panels = plt.subplots(rows, 2, figsize=(11, 3.4 * rows), layout="constrained", squeeze=False)
    figure.suptitle(title)
    highest = max(max(run.history.losses) for run in (healthy, broken))
    strongest = max(max(run.history.norms) for run in (healthy, broken))
    weakest = min(min(run.history.norms) for run in (healthy, broken))
    for column, (run, name) in enumerate(((healthy, "healthy"), (broken, "broken"))):
        colour = COLOURS[column]
        steps = range(1, len(run.history.losses) + 1)
        losses, norms = panels[0, column], panels[1, column]
        losses.plot(steps, run.history.losses, color=colour, linewidth=1)
        losses.set(title=f"{name}: training loss", xlabel="step", ylim=(0, 1.05 * highest))
        norms.semilogy(steps, run.history.norms, color=colour, linewidth=1)
        norms.set(title=f"{name}: norm of the gradient, before any clipping", xlabel="step")
        norms.set_ylim(max(weakest, 1e-6) / 1.5, 1.5 * strongest)
        for axes in (losses, norms):
            axes.grid(alpha=0.3)
            for step in run.marks:
                axes.axvline(step + 1, color="grey", linestyle="--", linewidth=1)
        if with_maps:
            draw_map(panels[2, column], run, f"{name}: attention, last decoder layer, mean of the heads")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_map(axes: Axes, run: Run, title: str) -> None:
    axes.imshow(run.map.weights.numpy(), cmap="Blues", vmin=0, vmax=1)
    axes.set(title=title, xlabel="key", ylabel="query (token read)")
    axes.set_xticks(range(len(run.map.keys)), run.map.keys, rotation=90)
    axes.set_yticks(range(len(run.map.queries)), run.map.queries)
