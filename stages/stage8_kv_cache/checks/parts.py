"""Whose mistake is it? All decoding rests on the cache, and fails when that one does.

So when a check of the whole fails, the checks of its parts are asked, and what they find is what the learner reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from grader.failure import CheckFailed

Check = Callable[[Any, Any], None]


@contextmanager
def made_of(submission: Any, draw: Any, *parts: Check, sure: Collection[str] = ()) -> Iterator[None]:
    """A failure inside is the first failure of a part, if a part fails; mistakes that are `sure` stand as they are."""
    try:
        yield
    except CheckFailed as failure:
        if failure.status not in ("failed", "error") or _not_begun(failure) or failure.mistake in sure:
            raise
        found = [part_failure for part in parts if (part_failure := _failure_of(part, submission, draw))]
        raise next((one for one in found if _is_named(one)), found[0] if found else failure) from None


def _failure_of(part: Check, submission: Any, draw: Any) -> CheckFailed | None:
    try:
        part(submission, draw)
    except CheckFailed as failure:
        return failure
    return None


def _is_named(failure: CheckFailed) -> bool:
    return failure.mistake is not None and not failure.mistake.startswith("general/")


def _not_begun(failure: CheckFailed) -> bool:
    return failure.raised is not None and failure.raised.type == "NotImplementedError"
