"""What checks are written with. See docs/writing-checks.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from grader.expect import Expectation
from grader.failure import CheckFailed
from grader.submission import Raising

Function = TypeVar("Function", bound=Callable[..., None])


def check(
    exercise: str, *, points: float = 1, seconds: float | None = None
) -> Callable[[Function], Function]:
    """Declares a check of an exercise. Its docstring is the property that the learner reads.

    `seconds` is its time limit where the stage's `seconds_per_check` does not do, for a check that trains a model.
    """

    def declare(function: Function) -> Function:
        function.__check__ = (exercise, points, seconds)  # type: ignore[attr-defined]
        return function

    return declare


def expect(value: Any, what: str, dims: str | None = None) -> Expectation:
    """Looks at a returned value: `what` names it in the learner's words, `dims` names its axes."""
    return Expectation(value, what, dims)


def mistake(code: str, **facts: Any) -> NoReturn:
    """Ends the check with a known mistake."""
    raise CheckFailed(mistake=code, facts=facts)


def fail(message: str, next_step: str = "") -> NoReturn:
    """Ends the check with a sentence: what was seen, what was expected."""
    raise CheckFailed(message, next_step=next_step)


@contextmanager
def raising_means(code: str, words: Sequence[str] = (), **facts: Any) -> Iterator[None]:
    """What the submission raises inside, with one of `words` in its message (any message when there are none), is a
    known mistake."""
    try:
        yield
    except Raising as failure:
        raised = failure.raised
        begun = raised is not None and raised.phase == "call" and raised.type != "NotImplementedError"
        if begun and raised is not None and (not words or any(word in raised.message for word in words)):
            failure.mistake, failure.facts = code, facts
        raise


def expect_error(
    kind: type[BaseException] | tuple[type[BaseException], ...],
    call: Callable[[], Any],
    mentions: Sequence[str] = (),
    mistake: str | None = None,
    facts: dict[str, Any] | None = None,
) -> None:
    """The call must raise one of `kind`, and its message must contain every word of `mentions`."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join(one.__name__ for one in kinds)
    try:
        call()
    except Raising as failure:
        raised = failure.raised
        assert raised is not None
        if raised.type == "NotImplementedError" or raised.phase != "call" or "Exception" not in raised.bases:
            raise  # unfinished, not there, or SystemExit and the like: no answer to this question
        if not any(one.__name__ in raised.bases for one in kinds):
            failure.findings.append(f"{raised.type} was raised, expected {names}.")
            failure.mistake = "general/wrong-error"
            failure.facts = {"seen": raised.type, "expected": names}
            failure.status = "failed"
            raise
        absent = [word for word in mentions if word not in raised.message]
        if absent:
            raise CheckFailed(
                f"The message of the {raised.type} is {raised.message!r}; it should name {' and '.join(absent)}.",
                mistake="general/message-without-values",
                facts={"absent": " and ".join(absent), "message": raised.message},
                next_step="Put the values into the message, so that whoever reads it knows what to change.",
            ) from None
        return
    raise CheckFailed(
        "" if mistake else f"Nothing was raised, expected {names}.", mistake=mistake, facts=facts or {}
    )


__all__ = ["check", "expect", "expect_error", "fail", "mistake", "raising_means"]
