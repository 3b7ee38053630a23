"""Patterns about the weather, the hours of the day and work."""

from collections.abc import Iterator

from .english import NUMBERS, ing
from .sentence import Pattern, Sentence, joined, question, statement
from .words import ADULTS, ASKED, CITIES, DIGITS, FALLS, ROUTINES, SEASONS, WEATHER, WORKPLACES


def warm_or_cold() -> Iterator[Sentence]:
    for city, english_city in CITIES:
        for chinese, english in WEATHER:
            today = f"it is very {english} in {english_city} today"
            yesterday = f"it was very {english} in {english_city} yesterday"
            yield statement(f"今天{city}很{chinese}", today, city, chinese)
            yield statement(f"昨天{city}很{chinese}", yesterday, city, chinese)


def rain_and_snow() -> Iterator[Sentence]:
    for city, english_city in CITIES:
        for chinese, english in FALLS:
            where = f"{english} in {english_city}"
            yield statement(f"明天{city}会{chinese}", f"it will {where} tomorrow", city, chinese)
            yield question(f"明天{city}会{chinese}吗", f"will it {where} tomorrow", city, chinese)
            yield statement(f"昨天{city}没{chinese}", f"it didn't {where} yesterday", city, chinese)
            yield statement(f"{city}在{chinese}", f"it is {ing(english)} in {english_city}", city, chinese)


def climate() -> Iterator[Sentence]:
    for city, english_city in CITIES:
        for (season, english_season), felt in SEASONS.items():
            for chinese in felt:
                english = f"{english_season} in {english_city} is very {dict(WEATHER)[chinese]}"
                yield statement(f"{city}的{season}很{chinese}", english, city, chinese, season)


def routines() -> Iterator[Sentence]:
    for who in ADULTS:
        for (routine, english_routine), hours in ROUTINES.items():
            verb, *rest = english_routine.split()
            does = joined(who.verb(verb), *rest)
            for hour in hours:
                sharp = f"{who.english} {does} at {NUMBERS[hour]} every day"
                half = f"{who.english} {does} at half past {NUMBERS[hour]} every day"
                clock = DIGITS[hour] + "点"
                content = (who.chinese, clock, routine)
                yield statement(f"{who.chinese}每天{clock}{routine}", sharp, *content)
                yield statement(f"{who.chinese}每天{clock}半{routine}", half, *content)


def works_at() -> Iterator[Sentence]:
    for who in ADULTS:
        for place, english_place in WORKPLACES:
            works = f"{who.english} {who.verb('work')} at {english_place}"
            yield statement(f"{who.chinese}在{place}工作", works, who.chinese, place)


def asks_more() -> Iterator[Sentence]:
    for who in ASKED:
        for chinese, english in (
            ("喜欢吃什么", f"what {who.do} {who.english} like to eat"),
            ("想喝什么", f"what {who.do} {who.english} want to drink"),
            ("在做什么", f"what {who.be} {who.english} doing"),
            ("明天要去哪里", f"where {who.be} {who.english} going tomorrow"),
            ("昨天去了哪里", f"where did {who.english} go yesterday"),
            ("昨天买了什么", f"what did {who.english} buy yesterday"),
            ("每天几点起床", f"what time {who.do} {who.english} get up every day"),
            ("在哪里工作", f"where {who.do} {who.english} work"),
        ):
            yield question(f"{who.chinese}{chinese}", english, who.chinese, chinese)


PATTERNS: list[Pattern] = [
    warm_or_cold,
    rain_and_snow,
    climate,
    routines,
    works_at,
    asks_more,
]
