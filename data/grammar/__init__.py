"""A small grammar of everyday sentences: every sentence is made in Chinese and in English at once."""

from . import days, doing, eating, going, things
from .sentence import Pattern, Sentence

PATTERNS: list[Pattern] = [
    *eating.PATTERNS,
    *doing.PATTERNS,
    *going.PATTERNS,
    *things.PATTERNS,
    *days.PATTERNS,
]

__all__ = ["PATTERNS", "Pattern", "Sentence"]
