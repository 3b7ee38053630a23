"""English agreement: who does it decides on the form of the verb."""

from typing import NamedTuple

THIRD_PERSON = {"be": "is", "do": "does", "go": "goes", "have": "has"}
ING = {"run": "running", "swim": "swimming"}
PAST = {"buy": "bought", "go": "went", "order": "ordered", "walk": "walked"}

NUMBERS = {
    1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine",
    10: "ten", 11: "eleven", 12: "twelve", 20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty",
    70: "seventy", 80: "eighty", 90: "ninety", 100: "one hundred",
}  # fmt: skip


class Person(NamedTuple):
    """Who a sentence is about, in both languages, and the pronoun whose verb forms they take."""

    chinese: str
    english: str
    pronoun: str  # "I", "you" (and all plurals) or "he"

    @property
    def be(self) -> str:
        return {"I": "am", "he": "is"}.get(self.pronoun, "are")

    @property
    def was(self) -> str:
        return "were" if self.pronoun == "you" else "was"

    @property
    def do(self) -> str:
        return "does" if self.pronoun == "he" else "do"

    def verb(self, base: str) -> str:
        """The present tense: I read, she reads."""
        return third_person(base) if self.pronoun == "he" else base


def third_person(base: str) -> str:
    if base in THIRD_PERSON:
        return THIRD_PERSON[base]
    if base.endswith(("ch", "sh")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def ing(base: str) -> str:
    if base in ING:
        return ING[base]
    if base.endswith("e"):
        return base[:-1] + "ing"
    return base + "ing"


def count(number: int, singular: str, plural: str) -> str:
    """A counted noun: a book, an egg, two books."""
    if number > 1:
        return f"{NUMBERS[number]} {plural}"
    article = "an" if singular[0] in "aeiou" else "a"
    return f"{article} {singular}"
