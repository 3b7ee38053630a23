"""Shows the text of a submission instead of obeying it: no control codes, no workflow commands."""

from __future__ import annotations

import re
import unicodedata

TAB = 4
COMBINING_LIMIT = 4
"""Further accents on one letter are shown as escapes: a tower of them paints over other lines."""

SHOWN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, format (with the bidi marks), surrogate, private, unassigned, line and paragraph separators."""

COLOUR_CODE = r"(?:\x1b\[[0-9;]*m)"
WORKFLOW_COMMAND = re.compile(rf"^((?:\s|{COLOUR_CODE})*):(?=:)", re.MULTILINE)
LOGGING_COMMAND = re.compile(r"##(?=\w*\[)")

IN_ASCII = {
    "√": "sqrt", "ᵀ": "^T", "²": "^2", "³": "^3", "·": ".", "×": "x", "−": "-", "±": "+-",
    "∞": "inf", "π": "pi", "ε": "eps", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "→": "->", "←": "<-",
    "…": "...", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'",
    "₀": "_0", "₁": "_1", "₂": "_2", "₃": "_3",
}  # fmt: skip

IN_WORDS = {
    "√": "square root of ", "ᵀ": " transposed", "²": " squared", "³": " cubed", "·": " times ",
    "×": " times ", "−": "minus ", "±": " plus or minus ", "∞": "infinity", "π": "pi", "ε": "epsilon",
    "≤": " at most ", "≥": " at least ", "≠": " not equal to ", "≈": " about ", "→": " to ", "←": " from ",
    "…": "", "–": "-", "—": ", ", "“": '"', "”": '"', "‘": "'", "’": "'", "`": "",
}  # fmt: skip


def visible(text: str) -> str:
    """`text` with line breaks kept, tabs widened, and control, bidi and invisible characters written out."""
    text = text.replace("\r\n", "\n").expandtabs(TAB)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    shown = []
    stacked = 0
    for character in text:
        stacked = stacked + 1 if unicodedata.combining(character) else 0
        hide = character != "\n" and unicodedata.category(character) in SHOWN_CATEGORIES
        shown.append(_escape(character) if hide or stacked > COMBINING_LIMIT else character)
    return "".join(shown)


def one_line(text: str) -> str:
    """`visible(text)` with every run of white space, line breaks too, as one space."""
    return " ".join(visible(text).split())


def without_commands(text: str) -> str:
    """`text` in which no line is a command to a build service (`::error`, `##[error]`, `##vso[...]`)."""
    return LOGGING_COMMAND.sub("# #", WORKFLOW_COMMAND.sub(r"\1: ", text))


def in_encoding(text: str, encoding: str) -> str:
    """`text` in characters that `encoding` has: the others become ASCII (`√` is `sqrt`) or escapes."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_substitute(character, encoding) for character in text)
    return text


def in_words(text: str) -> str:
    """`text` with mathematical signs written as words, for reading aloud."""
    for sign, words in IN_WORDS.items():
        text = text.replace(sign, words)
    return re.sub(r" {2,}", " ", text).strip()


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _substitute(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return IN_ASCII.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
    return character
