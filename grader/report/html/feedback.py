"""A learner's feedback as HTML, made from the Markdown that the learner reads, so that both say the same."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from grader.gradebook import Entry
from grader.report import feedback

# Raw HTML stays text, and the feedback has no links or pictures: what is not asked for cannot get in.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])
DEEPER = 2
"""On the page a learner is a heading of level 3, so a stage of the learner (level 2 in the feedback) is one of 4."""


def render(entry: Entry) -> Markup:
    """The feedback without the title of the course, which the page has already."""
    tokens = MARKDOWN.parse(feedback.render(entry))
    return Markup(MARKDOWN.renderer.render(lowered(tokens), MARKDOWN.options, {}))


def lowered(tokens: Sequence[Token]) -> list[Token]:
    """The tokens after the first heading, with headings so many levels deeper."""
    if tokens and tokens[0].type == "heading_open":
        tokens = tokens[3:]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{int(token.tag[1:]) + DEEPER}"
    for opened, inside, closed in zip(tokens, tokens[1:], tokens[2:]):
        if opened.type == "th_open" and not inside.content:  # a heading that says nothing is none
            opened.tag = closed.tag = "td"
    return list(tokens)
