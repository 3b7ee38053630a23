"""Show a training run as it happens: live on a terminal, in plain lines everywhere else.

Given, not an exercise.
"""

from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from .corpus import Pair
from .translator import shortened

LAST_EPOCHS = 8  # rows of the live table

Entry = dict[str, Any]


class Progress:
    """Shows nothing. It is what the other ranks under torchrun have, and the list of what can be shown."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, text: str) -> None:
        """Say something in between."""

    def epoch_begins(self, epoch: int, batches: int) -> None:
        """An epoch of so many batches begins."""

    def step(self, batches: int, loss: float) -> None:
        """So many batches more are done; `loss` is the mean of the epoch so far."""

    def epoch_ended(self, history: list[Entry]) -> None:
        """An epoch is over; its entry is the last of `history`."""


class PlainProgress(Progress):
    """One line an epoch, and the translations whenever BLEU has risen."""

    def __init__(self, console: Console, epochs: int, samples: list[Pair]) -> None:
        self.console = console
        self.epochs = epochs
        self.samples = samples

    def note(self, text: str) -> None:
        print(text, file=self.console.file, flush=True)

    def epoch_ended(self, history: list[Entry]) -> None:
        entry = history[-1]
        best = is_best(history, entry)
        self.note(
            f"epoch {entry['epoch']}/{self.epochs}  train loss {entry['train_loss']:.3f}  "
            f"valid loss {entry['valid_loss']:.3f}  BLEU {entry['bleu']:.1f}  lr {entry['lr']:.1e}  "
            f"{entry['seconds']:.1f} s{'  best so far' if best else ''}"
        )
        if best:
            for pair, translation in zip(self.samples, entry["samples"]):
                self.note(f"    {pair.chinese}  {_shown(translation)}")


class LiveProgress(Progress):
    """A bar, the last epochs, and the translations as they improve, redrawn in place."""

    def __init__(self, console: Console, epochs: int, samples: list[Pair]) -> None:
        self.epochs = epochs
        self.samples = samples
        self.history: list[Entry] = []
        self.bar = Bar(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("train loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task = self.bar.add_task("", epoch=1, epochs=epochs, loss="-")
        self.live = Live(self._view(), console=console, refresh_per_second=4)

    def __enter__(self) -> "LiveProgress":
        self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.live.__exit__(*error)

    def note(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)

    def epoch_begins(self, epoch: int, batches: int) -> None:
        self.bar.reset(self.task, total=batches, epoch=epoch, epochs=self.epochs, loss="-")

    def step(self, batches: int, loss: float) -> None:
        self.bar.update(self.task, advance=batches, loss=f"{loss:.3f}")

    def epoch_ended(self, history: list[Entry]) -> None:
        self.history = history
        self.live.update(self._view())

    def _view(self) -> Group:
        if not self.history:
            return Group(self.bar)
        return Group(
            epochs_table(self.history), translations_table(self.samples, self.history[-1:]), self.bar
        )


def progress_on(console: Console, epochs: int, samples: list[Pair]) -> Progress:
    """Choose what the output can show."""
    kind = LiveProgress if console.is_terminal and not console.is_dumb_terminal else PlainProgress
    return kind(console, epochs, samples)


def epochs_table(history: list[Entry]) -> Table:
    """The last epochs, the best one marked by a star."""
    table = Table(box=None, pad_edge=False)
    for title in ("epoch", "train loss", "valid loss", "valid BLEU", "learning rate", "seconds"):
        table.add_column(title, justify="right")
    for entry in history[-LAST_EPOCHS:]:
        table.add_row(
            f"{entry['epoch']}{' *' if is_best(history, entry) else '  '}",
            f"{entry['train_loss']:.3f}",
            f"{entry['valid_loss']:.3f}",
            f"{entry['bleu']:.1f}",
            f"{entry['lr']:.1e}",
            f"{entry['seconds']:.1f}",
        )
    return table


def translations_table(samples: list[Pair], entries: list[Entry]) -> Table:
    """Sentences of the validation part with what the model made of them, epoch by epoch, and the reference."""
    table = Table(box=None, pad_edge=False)
    table.add_column("sentence")
    table.add_column("epoch", justify="right")
    table.add_column("translation")
    for index, pair in enumerate(samples):
        name = pair.chinese
        for entry in entries:
            table.add_row(Text(name), str(entry["epoch"]), Text(_shown(entry["samples"][index])))
            name = ""
        table.add_row("", "person", Text(pair.english), style="dim")
    return table


def telling_epochs(history: list[Entry], count: int = 4) -> list[Entry]:
    """Choose the epochs whose translations tell the story: first, best, and best-so-far ones between."""
    rises = [entry for i, entry in enumerate(history) if is_best(history[: i + 1], entry)]
    chosen = [rises[len(rises) * i // count] for i in range(count)] + rises[-1:]
    return list({entry["epoch"]: entry for entry in [history[0], *chosen]}.values())


def is_best(history: list[Entry], entry: Entry) -> bool:
    """Whether an epoch is the first of those with the highest BLEU."""
    return entry is max(history, key=lambda each: each["bleu"])


def _shown(translation: str) -> str:
    return shortened(translation, 48) or "(nothing)"
