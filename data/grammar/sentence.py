"""A sentence of the grammar, and the parts that sentences are put together from."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .english import ing
from .words import DIGITS, Action, Thing


class Sentence(NamedTuple):
    """A sentence, its translation, and the words that carry its meaning: who does what, where, to which thing."""

    chinese: str
    english: str
    content: tuple[str, ...]


Pattern = Callable[[], Iterator[Sentence]]  # gives all sentences that the pattern can make


def statement(chinese: str, english: str, *content: str) -> Sentence:
    return Sentence(f"{chinese}。", f"{english[0].upper()}{english[1:]}.", content)


def question(chinese: str, english: str, *content: str) -> Sentence:
    return Sentence(f"{chinese}？", f"{english[0].upper()}{english[1:]}?", content)


def joined(*parts: str) -> str:
    """The parts with spaces between them, without the empty ones."""
    return " ".join(part for part in parts if part)


def once(action: Action) -> str:
    """The action for one time: watch a movie."""
    return joined(action.verb, action.now)


def always(action: Action) -> str:
    """The action in general: watch movies."""
    return joined(action.verb, action.always)


def doing(action: Action) -> str:
    """The action as it goes on: watching a movie."""
    return joined(ing(action.verb), action.now)


def counted(number: int, thing: Thing) -> str:
    """A number, the measure word and the thing: 两本书."""
    return f"{DIGITS[number]}{thing.measure}{thing.chinese}"


def pointed(thing: Thing, near: bool) -> tuple[str, str]:
    """The thing with "this" or "that", and its form of "be": ("this book", "is"), ("those shoes", "are")."""
    if thing.pair:
        return f"{'these' if near else 'those'} {thing.pair}", "are"
    return f"{'this' if near else 'that'} {thing.singular}", "is"


def owned(thing: Thing, owner: str) -> tuple[str, str]:
    """The thing with its owner, and its form of "be": ("my book", "is"), ("my shoes", "are")."""
    return (f"{owner} {thing.pair}", "are") if thing.pair else (f"{owner} {thing.singular}", "is")
