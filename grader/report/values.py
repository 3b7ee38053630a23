"""The small excerpt of expected and actual values, its rows and columns named after the axes."""

from __future__ import annotations

from dataclasses import dataclass

from grader.report.page import Page, Part, columns, padded
from grader.report.visible import one_line
from grader.result import Comparison

GAP = "  "
BESIDE = "     "


@dataclass
class Excerpt:
    """Values with the name of each row and each column."""

    row_names: list[str]
    column_names: list[str]
    expected: list[list[str]]
    actual: list[list[str]]

    def differs(self, row: int, column: int) -> bool:
        return _cell(self.expected, row, column) != _cell(self.actual, row, column)

    def marks_help(self) -> bool:
        """Whether some shown values agree and others do not."""
        found = {self.differs(row, column) for row, column in self.positions()}
        return found == {True, False}

    def positions(self) -> list[tuple[int, int]]:
        return [
            (row, column) for row in range(len(self.row_names)) for column in range(len(self.column_names))
        ]


def excerpt(detail: Comparison) -> Excerpt:
    """The excerpt of a comparison; an axis without a name is called row or column."""
    height = max(len(detail.expected), len(detail.actual))
    width = max((len(row) for row in [*detail.expected, *detail.actual]), default=0)
    column_axis = detail.dims[-1] if detail.dims else "column"
    row_axis = detail.dims[-2] if len(detail.dims) > 1 else "row"
    one_row = len(_shape(detail)) < 2 and height == 1
    scalar = not _shape(detail) and one_row and width == 1
    return Excerpt(
        row_names=[""] if one_row else _names(row_axis, detail.rows, height),
        column_names=[""] if scalar else _names(column_axis, detail.columns, width),
        expected=[[one_line(value) for value in row] for row in detail.expected],
        actual=[[one_line(value) for value in row] for row in detail.actual],
    )


def place_in_tensor(detail: Comparison) -> str:
    """'attention weights at batch 0, head 1': what is shown, with the leading indices that select it."""
    names = [*detail.dims, *["axis"] * len(detail.index)]
    chosen = ", ".join(f"{_singular(name)} {index}" for name, index in zip(names, detail.index, strict=False))
    return f"{one_line(detail.what)} at {chosen}" if chosen else one_line(detail.what)


def shapes(detail: Comparison) -> str:
    """What the shapes are: one where they agree, both where they do not, with the names of the axes."""
    expected, actual = _by(detail.expected_shape), _by(detail.actual_shape)
    if not detail.expected_shape and not detail.actual_shape:
        return ""
    names = f" ({', '.join(detail.dims)})" if detail.dims else ""
    if expected == actual:
        return f"shape {expected}{names}"
    return f"expected shape {expected}{names}, yours {actual}"


def lay_values(page: Page, detail: Comparison, indent: int) -> None:
    """Write the excerpt: expected and actual side by side where that fits, else one below the other."""
    shown = excerpt(detail)
    heading = ", ".join(part for part in (place_in_tensor(detail), shapes(detail)) if part)
    page.paragraph(heading + (":" if shown.row_names else "."), indent=indent)
    if not shown.row_names or not shown.column_names:
        return
    room = page.look.width - indent - 2
    while len(shown.column_names) > 1 and max(_widths(_blocks(shown))) > room:
        shown = _narrower(shown)
    blocks = _blocks(shown)
    widths = _widths(blocks)
    page.blank()
    if sum(widths) + len(BESIDE) * (len(blocks) - 1) <= room:
        for parts in zip(*blocks, strict=True):
            page.line(" " * (indent + 2), *_beside(parts, widths))
    elif max(widths) <= room:
        for number, block in enumerate(blocks):
            if number:
                page.blank()
            for line in block:
                page.line(" " * (indent + 2), *line)
    else:
        for sentence in pairs(shown):
            page.paragraph(sentence, indent=indent + 2, hang=2)
    note = _note(detail, shown)
    if note:
        page.blank()
        page.paragraph(note, indent=indent)


def pairs(shown: Excerpt) -> list[str]:
    """The values in sentences, those that differ first: 'query 0, key 1: expected 0.12, yours 0.40'."""
    ordered = sorted(shown.positions(), key=lambda at: not shown.differs(*at))
    sentences = []
    for row, column in ordered:
        name = ", ".join(part for part in (shown.row_names[row], shown.column_names[column]) if part)
        expected, actual = _cell(shown.expected, row, column), _cell(shown.actual, row, column)
        told = [f"expected {expected}"] if expected else []
        told += [f"yours {actual}"] if actual else []
        sentences.append(f"{name}: {', '.join(told)}" if name else ", ".join(told))
    return sentences


def _narrower(shown: Excerpt) -> Excerpt:
    """The excerpt without its first or its last column, whichever shows fewer differences."""
    rows = range(len(shown.row_names))
    last = len(shown.column_names) - 1
    at_ends = [sum(shown.differs(row, column) for row in rows) for column in (0, last)]
    kept = slice(1, None) if at_ends[0] < at_ends[1] else slice(0, last)
    return Excerpt(
        shown.row_names,
        shown.column_names[kept],
        [row[kept] for row in shown.expected],
        [row[kept] for row in shown.actual],
    )


def _blocks(shown: Excerpt) -> list[list[list[Part]]]:
    sides = (("expected", shown.expected), ("yours", shown.actual))
    return [_block(shown, side, values) for side, values in sides if values]


def _widths(blocks: list[list[list[Part]]]) -> list[int]:
    return [max(_length(line) for line in block) for block in blocks]


def _block(shown: Excerpt, side: str, values: list[list[str]]) -> list[list[Part]]:
    """A heading line and one line for each row, each made of parts that can carry a colour."""
    mark = shown.marks_help() and side == "yours"
    cells = [
        [
            _cell(values, row, column) + ("*" if mark and shown.differs(row, column) else "")
            for column in range(len(shown.column_names))
        ]
        for row in range(len(shown.row_names))
    ]
    if mark:
        cells = [[cell if cell.endswith("*") else f"{cell} " for cell in row] for row in cells]
    first = max(columns(text) for text in (side, *shown.row_names))
    widths = [
        max(columns(text) for text in (name, *(row[column] for row in cells)))
        for column, name in enumerate(shown.column_names)
    ]
    head: list[Part] = [(padded(side, first), "bold")]
    head += [
        (GAP + padded(name, width, right=True), "dim")
        for name, width in zip(shown.column_names, widths, strict=True)
    ]
    lines = [head]
    for index, (name, row) in enumerate(zip(shown.row_names, cells, strict=True)):
        line: list[Part] = [(padded(name, first), "dim")]
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            wrong = mark and shown.differs(index, column)
            line.append((GAP + padded(cell, width, right=True), "red" if wrong else ""))
        lines.append(line)
    return lines


def _beside(parts: tuple[list[Part], ...], widths: list[int]) -> list[Part]:
    line: list[Part] = []
    for number, (part, width) in enumerate(zip(parts, widths, strict=True)):
        line += [BESIDE] if number else []
        line += [*part, " " * (width - _length(part))]
    return line


def _note(detail: Comparison, shown: Excerpt) -> str:
    notes = []
    if detail.largest_difference is not None:
        notes.append(f"The largest difference is {detail.largest_difference:.3g}.")
    if shown.marks_help():
        notes.append("A star marks the values that differ.")
    return " ".join(notes)


def _names(axis: str, indices: list[int], number: int) -> list[str]:
    known = indices if len(indices) == number else list(range(number))
    return [f"{_singular(axis)} {index}" for index in known]


def _singular(axis: str) -> str:
    """'head' for the axis called `heads`."""
    plural = len(axis) > 3 and axis.endswith("s") and not axis.endswith(("ss", "is", "as"))
    return axis[:-1] if plural else axis


def _shape(detail: Comparison) -> list[int]:
    return detail.expected_shape or detail.actual_shape


def _by(shape: list[int]) -> str:
    return " x ".join(str(size) for size in shape) or "of a single number"


def _cell(values: list[list[str]], row: int, column: int) -> str:
    return values[row][column] if row < len(values) and column < len(values[row]) else ""


def _length(parts: list[Part]) -> int:
    return sum(columns(part if isinstance(part, str) else part[0]) for part in parts)
