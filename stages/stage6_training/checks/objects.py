"""What a submission returns that is no tensor: objects to be asked further, and lists."""

from __future__ import annotations

from typing import Any

from grader.checks import expect, fail
from grader.submission import Handle, described


def an_object(returned: Any, what: str) -> Any:
    """An object that lives beside the submission, to be asked further."""
    value = expect(returned, what).value()
    if not isinstance(value, Handle):
        fail(
            f"{what[:1].upper()}{what[1:]}: {described(value)} came back, where an object was expected.",
            "Return the object that the docstring speaks of.",
        )
    return value


def a_list(returned: Any, what: str) -> list[Any]:
    """A plain list."""
    value = expect(returned, what).value()
    if not isinstance(value, list):
        fail(
            f"{what[:1].upper()}{what[1:]}: {described(value)} came back, where a list was expected.",
            "Return a list.",
        )
    return value


def built(submission: Any, sentences: list[list[str]], **options: Any) -> Any:
    """A vocabulary of the submission."""
    return an_object(submission.Vocab.build(sentences, **options), "what Vocab.build returned")


def words_of(vocab: Any, count: int) -> list[Any]:
    """The tokens with the ids 4, 5, ... as decode gives them one by one."""
    return [
        word
        for index in range(4, 4 + count)
        for word in a_list(vocab.decode([index]), f"the tokens of the ids [{index}]")
    ]


def ids_inside(vocab: Any, tokens: list[str]) -> list[Any]:
    """The ids of tokens without those of <sos> and <eos>; [-1, ...] where there are none."""
    ids = a_list(vocab.encode(tokens), "the ids of a sentence")
    return [index for index in ids if index not in (1, 2)] or [-1] * len(tokens)


def encoded(tokenizer: Any, text: str) -> list[Any]:
    """The ids that a tokenizer of the library `tokenizers` gives to a text."""
    encoding = an_object(tokenizer.encode(text), f"what encode({text!r}) returned")
    return a_list(encoding.ids, f"the ids of {text!r}")
