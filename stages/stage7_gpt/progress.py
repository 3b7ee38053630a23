"""Show a GPT as it learns to write: live on a terminal, in plain lines everywhere else.

Given, not an exercise.
"""

from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from ..stage6_training.progress import Entry, Progress

LAST_ROUNDS = 8  # rows of the live table


class PlainProgress(Progress):
    """One line a round, and below it what the model writes by now."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.steps = steps

    def note(self, text: str) -> None:
        print(text, file=self.console.file, flush=True)

    def epoch_ended(self, history: list[Entry]) -> None:
        entry = history[-1]
        self.note(
            f"step {entry['step']}/{self.steps}  train loss {entry['train_loss']:.3f}  "
            f"valid loss {entry['valid_loss']:.3f}  lr {entry['lr']:.1e}  {entry['seconds']:.1f} s"
        )
        for line in entry["sample"].splitlines():
            self.note(f"    | {line}")


class LiveProgress(Progress):
    """A bar, the last rounds, and what the model writes by now, redrawn in place."""

    def __init__(self, console: Console, steps: int) -> None:
        self.history: list[Entry] = []
        self.bar = Bar(
            TextColumn("round {task.fields[round]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"steps, of {steps} in all  train loss {{task.fields[loss]}}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task = self.bar.add_task("", round=1, loss="-")
        self.live = Live(self._view(), console=console, refresh_per_second=4)

    def __enter__(self) -> "LiveProgress":
        self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.live.__exit__(*error)

    def note(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)

    def epoch_begins(self, epoch: int, batches: int) -> None:
        self.bar.reset(self.task, total=batches, round=epoch, loss="-")

    def step(self, batches: int, loss: float) -> None:
        self.bar.update(self.task, advance=batches, loss=f"{loss:.3f}")

    def epoch_ended(self, history: list[Entry]) -> None:
        self.history = history
        self.live.update(self._view())

    def _view(self) -> Group:
        if not self.history:
            return Group(self.bar)
        sample = Panel(Text(self.history[-1]["sample"]), title="what it writes by now", title_align="left")
        return Group(rounds_table(self.history), sample, self.bar)


def progress_on(console: Console, steps: int) -> Progress:
    """Choose what the output can show."""
    kind = LiveProgress if console.is_terminal and not console.is_dumb_terminal else PlainProgress
    return kind(console, steps)


def rounds_table(history: list[Entry]) -> Table:
    """The last rounds."""
    table = Table(box=None, pad_edge=False)
    for title in ("step", "train loss", "valid loss", "learning rate", "seconds"):
        table.add_column(title, justify="right")
    for entry in history[-LAST_ROUNDS:]:
        table.add_row(
            str(entry["step"]),
            f"{entry['train_loss']:.3f}",
            f"{entry['valid_loss']:.3f}",
            f"{entry['lr']:.1e}",
            f"{entry['seconds']:.1f}",
        )
    return table
