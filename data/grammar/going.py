"""Patterns about places and journeys."""

from collections.abc import Iterator

from .english import PAST
from .sentence import Pattern, Sentence, joined, question, statement
from .words import (
    ADULTS,
    ASKED,
    BY_BUS,
    BY_LAND_AND_AIR,
    BY_ONESELF,
    CITIES,
    COMING_TIMES,
    DAILY_PLACES,
    FAR_PLACES,
    PAST_TIMES,
    PEOPLE,
    PLACES,
)


def went() -> Iterator[Sentence]:
    for who in PEOPLE:
        for place in PLACES:
            for time, english_time in PAST_TIMES:
                yes = f"{who.english} {PAST['go']} {place.english} {english_time}"
                no = f"{who.english} didn't go {place.english} {english_time}"
                yield statement(f"{who.chinese}{time}去了{place.chinese}", yes, who.chinese, place.chinese)
                yield statement(f"{who.chinese}{time}没去{place.chinese}", no, who.chinese, place.chinese)


def was_busy() -> Iterator[Sentence]:
    for who in ADULTS:
        for place in PLACES:
            english = f"{who.english} {who.was} very busy yesterday and didn't go {place.english}"
            yield statement(
                f"{who.chinese}昨天很忙，没去{place.chinese}", english, who.chinese, place.chinese
            )


def asks_whether_one_went() -> Iterator[Sentence]:
    for who in ASKED:
        for place in PLACES:
            for time, english_time in PAST_TIMES:
                english = f"did {who.english} go {place.english} {english_time}"
                yield question(
                    f"{who.chinese}{time}去{place.chinese}了吗", english, who.chinese, place.chinese
                )


def will_go() -> Iterator[Sentence]:
    for who in PEOPLE:
        for place in PLACES:
            for time, english_time in COMING_TIMES:
                english = f"{who.english} {who.be} going {place.english} {english_time}"
                yield statement(
                    f"{who.chinese}{time}要去{place.chinese}", english, who.chinese, place.chinese
                )


def goes_by() -> Iterator[Sentence]:
    for who in PEOPLE:
        for place in PLACES:
            ways = BY_BUS if place.chinese in FAR_PLACES else BY_BUS + BY_ONESELF
            for way, verb, means in ways:
                past = joined(who.english, PAST[verb], place.english, means, "yesterday")
                yield statement(
                    f"{who.chinese}昨天{way}去了{place.chinese}", past, who.chinese, way, place.chinese
                )
                if place.chinese in DAILY_PLACES:
                    daily = joined(who.english, who.verb(verb), place.english, means, "every day")
                    yield statement(
                        f"{who.chinese}每天{way}去{place.chinese}", daily, who.chinese, way, place.chinese
                    )


def travels() -> Iterator[Sentence]:
    for who in PEOPLE:
        for way, english_way in BY_LAND_AND_AIR:
            for city, english_city in CITIES:
                for time, english_time in COMING_TIMES:
                    english = f"{who.english} {who.be} going to {english_city} {english_way} {english_time}"
                    yield statement(f"{who.chinese}{time}{way}去{city}", english, who.chinese, way, city)


def has_been_to() -> Iterator[Sentence]:
    for who in PEOPLE:
        for city, english_city in CITIES:
            yes = f"{who.english} {who.verb('have')} been to {english_city}"
            no = f"{who.english} {who.verb('have')} never been to {english_city}"
            yield statement(f"{who.chinese}去过{city}", yes, who.chinese, city)
            yield statement(f"{who.chinese}没去过{city}", no, who.chinese, city)


PATTERNS: list[Pattern] = [
    went,
    was_busy,
    asks_whether_one_went,
    will_go,
    goes_by,
    travels,
    has_been_to,
]
