"""Patterns about things: to have, to buy, to describe and to find."""

from collections.abc import Iterator

from .english import NUMBERS, PAST, count
from .sentence import Pattern, Sentence, counted, owned, pointed, question, statement
from .words import (
    ADJECTIVES,
    ADULTS,
    BOUGHT,
    COLOURED,
    COLOURS,
    DIGITS,
    OWNED,
    OWNERS,
    PAST_TIMES,
    PEOPLE,
    PRICED,
    SPOTS,
    THINGS,
    TOO,
)

THING = {thing.chinese: thing for thing in THINGS}


def bought() -> Iterator[Sentence]:
    for who in PEOPLE:
        for thing in (THING[name] for name in BOUGHT):
            for number in range(1, thing.most + 1):
                for time, english_time in PAST_TIMES:
                    goods = count(number, thing.singular, thing.plural)
                    english = f"{who.english} {PAST['buy']} {goods} {english_time}"
                    chinese = f"{who.chinese}{time}买了{counted(number, thing)}"
                    yield statement(chinese, english, who.chinese, thing.chinese)


def owns() -> Iterator[Sentence]:
    for who in PEOPLE:
        for thing in (THING[name] for name in OWNED):
            for number in range(1, thing.most + 1):
                english = f"{who.english} {who.verb('have')} {count(number, thing.singular, thing.plural)}"
                yield statement(
                    f"{who.chinese}有{counted(number, thing)}", english, who.chinese, thing.chinese
                )


def wants_to_buy() -> Iterator[Sentence]:
    for who in PEOPLE:
        for thing in (THING[name] for name in BOUGHT):
            english = f"{who.english} {who.verb('want')} to buy {count(1, thing.singular, thing.plural)}"
            yield statement(f"{who.chinese}想买{counted(1, thing)}", english, who.chinese, thing.chinese)


def things_are() -> Iterator[Sentence]:
    for thing in THINGS:
        for adjective in thing.described:
            english, _ = ADJECTIVES[adjective]
            for this, near in (("这", True), ("那", False)):
                subject, be = pointed(thing, near)
                one = f"{this}{thing.measure}{thing.chinese}"
                content = (thing.chinese, adjective)
                yield statement(f"{one}很{adjective}", f"{subject} {be} very {english}", *content)
                yield statement(f"{one}不{adjective}", f"{subject} {be}n't {english}", *content)
                yield question(f"{one}{adjective}吗", f"{be} {subject} {english}", *content)


def things_compare() -> Iterator[Sentence]:
    for thing in THINGS:
        subject, be = pointed(thing, near=True)
        other = "those" if thing.pair else "that one"
        for adjective in thing.described:
            _, comparative = ADJECTIVES[adjective]
            chinese = f"这{thing.measure}{thing.chinese}比那{thing.measure}{adjective}"
            english = f"{subject} {be} {comparative} than {other}"
            yield statement(chinese, english, thing.chinese, adjective)


def thinks_too() -> Iterator[Sentence]:
    for thing in THINGS:
        for adjective in thing.described:
            if adjective in TOO:
                for this, near in (("这", True), ("那", False)):
                    subject, be = pointed(thing, near)
                    chinese = f"{this}{thing.measure}{thing.chinese}太{adjective}了"
                    english = f"{subject} {be} too {ADJECTIVES[adjective][0]}"
                    yield statement(chinese, english, thing.chinese, adjective)
                    for who in ADULTS:
                        thinks = f"{who.english} {who.verb('think')} {english}"
                        thought = f"{who.chinese}觉得{chinese}"
                        yield statement(thought, thinks, who.chinese, thing.chinese, adjective)


def colours() -> Iterator[Sentence]:
    for thing in (THING[name] for name in COLOURED):
        for colour, english_colour in COLOURS:
            for owner, english_owner in OWNERS:
                subject, be = owned(thing, english_owner)
                english = f"{subject} {be} {english_colour}"
                yield statement(f"{owner}{thing.chinese}是{colour}的", english, owner, thing.chinese, colour)


def prices() -> Iterator[Sentence]:
    for thing in (THING[name] for name in PRICED):
        for price in range(20, 110, 10):
            for this, near in (("这", True), ("那", False)):
                subject, be = pointed(thing, near)
                chinese = f"{this}{thing.measure}{thing.chinese}{DIGITS[price]}块钱"
                yield statement(
                    chinese, f"{subject} {be} {NUMBERS[price]} yuan", thing.chinese, DIGITS[price]
                )


def there_are() -> Iterator[Sentence]:
    for (spot, english_spot), names in SPOTS.items():
        for thing in (THING[name] for name in names):
            for number in range(1, thing.most + 1):
                be = "is" if number == 1 else "are"
                english = f"there {be} {count(number, thing.singular, thing.plural)} {english_spot}"
                yield statement(f"{spot}有{counted(number, thing)}", english, spot, thing.chinese)


def things_lie() -> Iterator[Sentence]:
    for (spot, english_spot), names in SPOTS.items():
        for thing in (THING[name] for name in names):
            for owner, english_owner in OWNERS:
                subject, be = owned(thing, english_owner)
                english = f"{subject} {be} {english_spot}"
                yield statement(f"{owner}{thing.chinese}在{spot}", english, owner, thing.chinese, spot)


PATTERNS: list[Pattern] = [
    bought,
    owns,
    wants_to_buy,
    things_are,
    things_compare,
    thinks_too,
    colours,
    prices,
    there_are,
    things_lie,
]
