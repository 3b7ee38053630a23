"""Patterns about food and drink."""

from collections.abc import Iterator

from .english import PAST, count
from .sentence import Pattern, Sentence, question, statement
from .words import ADULTS, ASKED, DIGITS, DRINKS, FOODS, MEALS, PEOPLE, SERVINGS

FOOD = {food.chinese: food for food in FOODS}


def likes_food() -> Iterator[Sentence]:
    for who in PEOPLE:
        for food in FOODS + DRINKS:
            take, eat = food.verb
            yes = f"{who.english} {who.verb('like')} to {eat} {food.english}"
            no = f"{who.english} {who.do}n't like to {eat} {food.english}"
            yield statement(f"{who.chinese}喜欢{take}{food.chinese}", yes, who.chinese, food.chinese)
            yield statement(f"{who.chinese}不喜欢{take}{food.chinese}", no, who.chinese, food.chinese)


def wants_food() -> Iterator[Sentence]:
    for who in PEOPLE:
        for food in FOODS + DRINKS:
            take, eat = food.verb
            english = f"{who.english} {who.verb('want')} to {eat} some {food.english}"
            yield statement(f"{who.chinese}想{take}一些{food.chinese}", english, who.chinese, food.chinese)


def asks_about_food() -> Iterator[Sentence]:
    for who in ASKED:
        for food in FOODS + DRINKS:
            take, eat = food.verb
            english = f"{who.do} {who.english} like to {eat} {food.english}"
            yield question(f"{who.chinese}喜欢{take}{food.chinese}吗", english, who.chinese, food.chinese)


def has_for_a_meal() -> Iterator[Sentence]:
    for who in PEOPLE:
        for (meal, english_meal), served in MEALS.items():
            for first in served:
                for second in served:
                    if first < second:
                        dishes = f"{FOOD[first].english} and {FOOD[second].english}"
                        english = f"{who.english} {who.verb('have')} {dishes} for {english_meal}"
                        yield statement(
                            f"{who.chinese}{meal}吃{first}和{second}", english, who.chinese, first, second
                        )


def orders() -> Iterator[Sentence]:
    for content, dish, serving in servings():
        yield statement(f"我要{dish}", f"I would like {serving}", *content)
        yield statement(f"我们要{dish}", f"we would like {serving}", *content)
        yield statement(f"请给我{dish}", f"please give me {serving}", *content)
        yield statement(f"请给我们{dish}", f"please give us {serving}", *content)


def ordered() -> Iterator[Sentence]:
    for content, dish, serving in servings():
        for who in ADULTS:
            english = f"{who.english} {PAST['order']} {serving}"
            yield statement(f"{who.chinese}点了{dish}", english, who.chinese, *content)


def servings() -> Iterator[tuple[tuple[str, str], str, str]]:
    """What one orders: its two words of content, and all of it in both languages."""
    for measure, singular, plural, contents in SERVINGS:
        for number in range(1, 6):
            for chinese, english in contents:
                content = (DIGITS[number] + measure, chinese)
                yield content, "".join(content), f"{count(number, singular, plural)} of {english}"


PATTERNS: list[Pattern] = [
    likes_food,
    wants_food,
    asks_about_food,
    has_for_a_meal,
    orders,
    ordered,
]
