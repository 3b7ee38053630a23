"""The table of a report: a line for each exercise or stage with a bar, points and a word."""

from __future__ import annotations

from dataclasses import dataclass

from grader.report.page import Page, Part, columns, padded
from grader.report.story import points, share

LONGEST_BAR = 10
SHORTEST_BAR = 4
MARGIN = "  "


@dataclass(frozen=True)
class Row:
    """One line: a mark or number, a name, points earned and possible, and a word on where it stands."""

    mark: str
    name: str
    earned: float
    possible: float
    word: str
    style: str = ""


def lay_rows(page: Page, rows: list[Row]) -> None:
    """Write the rows in columns. On a narrow page the bar shrinks, then goes, then the word moves below."""
    marks, names, scores, words = (
        max((columns(text) for text in texts), default=0)
        for texts in (
            [row.mark for row in rows],
            [row.name for row in rows],
            [points(row.earned, row.possible) for row in rows],
            [row.word for row in rows],
        )
    )
    start = len(MARGIN) + (marks + len(MARGIN) if marks else 0)
    fixed = start + names + 2 + scores
    one_line = fixed + 2 + words <= page.look.width
    bar = min(LONGEST_BAR, page.look.width - fixed - 2 - (2 + words if one_line else 0))
    for row in rows:
        parts: list[Part] = [MARGIN]
        parts += [(padded(row.mark, marks), row.style), MARGIN] if marks else []
        parts += [padded(row.name, names), "  "]
        if bar >= SHORTEST_BAR:
            parts += [*page.bar(share(row.earned, row.possible), bar), "  "]
        parts.append(padded(points(row.earned, row.possible), scores, right=True))
        if one_line:
            page.line(*parts, "  ", (row.word, row.style))
        else:
            page.paragraph(*parts)
            page.paragraph((row.word, row.style), indent=start)
