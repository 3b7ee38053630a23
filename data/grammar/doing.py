"""Patterns about what people do, like to do and can do."""

from collections.abc import Iterator

from .sentence import Pattern, Sentence, always, doing, joined, once, question, statement
from .words import ACTIONS, ADULTS, ASKED, CHORES, COMPANY, DONE_AT, HABITS, PEOPLE, SKILLS, TOGETHER

ACTION = {action.chinese: action for action in ACTIONS + CHORES}


def acts_now() -> Iterator[Sentence]:
    for who in PEOPLE:
        for action in ACTIONS + CHORES:
            english = f"{who.english} {who.be} {doing(action)}"
            yield statement(f"{who.chinese}在{action.chinese}", english, who.chinese, action.chinese)


def asks_what_one_does() -> Iterator[Sentence]:
    for who in ASKED:
        for action in ACTIONS + CHORES:
            english = f"{who.be} {who.english} {doing(action)}"
            yield question(f"{who.chinese}在{action.chinese}吗", english, who.chinese, action.chinese)


def acts_somewhere() -> Iterator[Sentence]:
    for who in PEOPLE:
        for (place, english_place), actions in DONE_AT.items():
            for action in (ACTION[name] for name in actions):
                english = f"{who.english} {who.be} {doing(action)} {english_place}"
                yield statement(
                    f"{who.chinese}{place}{action.chinese}", english, who.chinese, place, action.chinese
                )


def likes_to_act() -> Iterator[Sentence]:
    for who in PEOPLE:
        for action in ACTIONS:
            wish = f"to {always(action)}"
            yes = f"{who.english} {who.verb('like')} {wish}"
            no = f"{who.english} {who.do}n't like {wish}"
            yield statement(f"{who.chinese}喜欢{action.chinese}", yes, who.chinese, action.chinese)
            yield statement(f"{who.chinese}不喜欢{action.chinese}", no, who.chinese, action.chinese)


def wants_to_act() -> Iterator[Sentence]:
    for who in PEOPLE:
        for action in ACTIONS:
            wish = f"to {once(action)}"
            yes = f"{who.english} {who.verb('want')} {wish}"
            no = f"{who.english} {who.do}n't want {wish}"
            yield statement(f"{who.chinese}想{action.chinese}", yes, who.chinese, action.chinese)
            yield statement(f"{who.chinese}不想{action.chinese}", no, who.chinese, action.chinese)


def asks_what_one_wants() -> Iterator[Sentence]:
    for who in ASKED:
        for action in ACTIONS:
            english = f"{who.do} {who.english} want to {once(action)}"
            yield question(f"{who.chinese}想{action.chinese}吗", english, who.chinese, action.chinese)


def acts_always() -> Iterator[Sentence]:
    for who in PEOPLE:
        for habit, english_habit in HABITS:
            for action in ACTIONS + CHORES:
                does = joined(who.verb(action.verb), action.always)
                english = f"{who.english} {does} {english_habit}"
                yield statement(f"{who.chinese}{habit}{action.chinese}", english, who.chinese, action.chinese)


def did_not_act() -> Iterator[Sentence]:
    for who in PEOPLE:
        for action in ACTIONS + CHORES:
            english = f"{who.english} didn't {once(action)} yesterday"
            yield statement(f"{who.chinese}昨天没{action.chinese}", english, who.chinese, action.chinese)


def can_act() -> Iterator[Sentence]:
    for action in (ACTION[name] for name in SKILLS):
        for who in PEOPLE:
            yes = f"{who.english} can {once(action)}"
            no = f"{who.english} can't {once(action)}"
            yield statement(f"{who.chinese}会{action.chinese}", yes, who.chinese, action.chinese)
            yield statement(f"{who.chinese}不会{action.chinese}", no, who.chinese, action.chinese)
        for who in ASKED:
            can = f"can {who.english} {once(action)}"
            yield question(f"{who.chinese}会{action.chinese}吗", can, who.chinese, action.chinese)


def acts_with_somebody() -> Iterator[Sentence]:
    for who in ADULTS:
        for other in COMPANY:
            if who.chinese != other.chinese:
                for action in (ACTION[name] for name in TOGETHER):
                    does = joined(who.verb(action.verb), action.always)
                    english = f"{who.english} often {does} with {other.english}"
                    chinese = f"{who.chinese}常常跟{other.chinese}一起{action.chinese}"
                    yield statement(chinese, english, who.chinese, other.chinese, action.chinese)


PATTERNS: list[Pattern] = [
    acts_now,
    asks_what_one_does,
    acts_somewhere,
    likes_to_act,
    wants_to_act,
    asks_what_one_wants,
    acts_always,
    did_not_act,
    can_act,
    acts_with_somebody,
]
