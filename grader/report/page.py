"""A page of text for a terminal or a log: paragraphs, quotes and bars, in the width and colours at hand."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from grader.report.visible import in_encoding, one_line, visible, without_commands

if TYPE_CHECKING:
    from rich.text import Text

WIDEST = 100
NARROWEST = 40
NO_TERMINAL = 80

COPIED = re.compile(r"`[^`\n]{1,40}`|(?:nox -s|python -m) \w+(?: -- [\w-]+)?")
"""What a reader copies, code and commands: it is not broken over two lines."""
HOLD = "\ue000"
"""Stands for a blank that holds together, until the page is done. `visible` lets none through."""

Part = str | tuple[str, str]
"""Text, or text with a rich style."""


@dataclass(frozen=True)
class Look:
    """How a page is shown: its width in columns, in colour or not, with drawn shapes or in letters alone."""

    width: int = NO_TERMINAL
    colour: bool = False
    shapes: bool = False
    encoding: str = "utf-8"


def look_of(file: TextIO, environ: Mapping[str, str] = os.environ) -> Look:
    """The look that suits `file`. `NO_COLOR`, `FORCE_COLOR`, `COLUMNS` and `TERM=dumb` are heeded."""
    terminal = file.isatty() and environ.get("TERM") != "dumb"
    forced = environ.get("FORCE_COLOR", "") not in ("", "0")
    colour = (terminal or forced) and not environ.get("NO_COLOR")
    encoding = file.encoding or "ascii"
    width = shutil.get_terminal_size((NO_TERMINAL, 24)).columns
    return Look(
        width=min(WIDEST, max(NARROWEST, width)),
        colour=colour and not (sys.platform == "win32" and _without_escape_codes()),
        shapes=terminal and encoding.lower().replace("-", "") == "utf8",
        encoding=encoding,
    )


def _without_escape_codes() -> bool:
    from rich.console import detect_legacy_windows

    return detect_legacy_windows()


class Page:
    """Collects lines; `text()` gives them all. Every text passes through `visible` on its way in."""

    def __init__(self, look: Look) -> None:
        from rich.console import Console

        self.look = look
        self._console = Console(
            file=io.StringIO(),
            width=look.width,
            force_terminal=look.colour,
            color_system="standard" if look.colour else None,
            no_color=not look.colour,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            _environ={},
        )

    def text(self) -> str:
        """The page without trailing blanks, safe to print to a build log, in the look's encoding."""
        assert isinstance(self._console.file, io.StringIO)
        written = self._console.file.getvalue().replace(HOLD, " ")
        lines = "\n".join(line.rstrip() for line in written.split("\n"))
        return in_encoding(without_commands(lines), self.look.encoding)

    def blank(self) -> None:
        self._console.print()

    def line(self, *parts: Part) -> None:
        """One line as it is; the caller sees to it that it fits."""
        self._console.print(_text(parts), soft_wrap=True)

    def heading(self, left: str, right: str) -> None:
        """A bold title, and what belongs on its right: on the same line where both fit."""
        left, right = one_line(left), one_line(right)
        gap = self.look.width - columns(left) - columns(right)
        if gap >= 2:
            self.line((left, "bold"), " " * gap, (right, "bold"))
        else:
            self.paragraph((left, "bold"))
            self.paragraph((right, "bold"))

    def paragraph(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        """Text wrapped between words, indented; lines after the first are indented by `hang` more."""
        self._lines(_text(parts), " " * indent, " " * (indent + hang))

    def quote(self, text: str, indent: int = 0, bar: str = "| ", style: str = "") -> None:
        """Somebody else's text: each line begins with a bar, so none can pass for a line of the report."""
        later = " " * (len(bar) - 2) + "| "
        for line in visible(text).split("\n"):
            self._lines(_text([(line, style)]), " " * indent + bar, " " * indent + later)

    def bar(self, share: float, length: int) -> list[Part]:
        """A bar `length` columns long of which `share` is full. Anything short of all is never drawn full."""
        inner = length if self.look.shapes else length - 2
        full = int(share * inner) if share < 1 else inner
        full = max(full, 1) if share > 0 else full
        if self.look.shapes:
            return [("━" * full, "green"), ("─" * (inner - full), "dim")]
        return ["[" + "#" * full + "-" * (inner - full) + "]"]

    def _lines(self, text: Text, first: str, later: str) -> None:
        width = max(8, self.look.width - max(len(first), len(later)))
        wrapped = text.wrap(self._console, width, overflow="fold") or [text]
        for index, line in enumerate(wrapped):
            line.rstrip()
            self._console.print(_text([later if index else first]) + line, soft_wrap=True)


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes: wide characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, right: bool = False) -> str:
    """`text` filled with blanks to `width` columns, on its left where `right`."""
    fill = " " * max(0, width - columns(text))
    return fill + text if right else text + fill


def _text(parts: tuple[Part, ...] | list[Part]) -> Text:
    from rich.text import Text

    text = Text()
    for part in parts:
        content, style = (part, "") if isinstance(part, str) else part
        text.append(COPIED.sub(_held_together, visible(content)), style or None)
    return text


def _held_together(copied: re.Match[str]) -> str:
    return copied[0].replace(" ", HOLD)
