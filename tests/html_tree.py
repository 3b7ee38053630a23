"""HTML as a tree, read by Python's own parser, which must find every element closed as it was opened."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Element:
    """A tag with its attributes, and what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.inside: list[Element | str] = []

    @property
    def text(self) -> str:
        """All text in it, white space as single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for part in self.inside:
            yield from [part] if isinstance(part, str) else part._texts()

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """The elements in it with this tag and these attributes: `class_` stands for class, `data_x` for data-x."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            one
            for one in self._walk()
            if (not tag or one.tag == tag) and wanted.items() <= one.attributes.items()
        ]

    def one(self, tag: str = "", **attributes: str) -> Element:
        """The only such element."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]

    def _walk(self) -> Iterator[Element]:
        for part in self.inside:
            if isinstance(part, Element):
                yield part
                yield from part._walk()


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, (tag, [each.tag for each in self.open], self.getpos())
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def parsed(text: str) -> Element:
    """The document as a tree."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert builder.open == [builder.root], [each.tag for each in builder.open]
    return builder.root
