"""`expect`: looks at a returned value as a person would, and asks which known mistake explains it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from grader import detectors
from grader.excerpt import excerpt, number
from grader.failure import CheckFailed, CheckFault
from grader.result import Comparison
from grader.submission import Handle, Session, described, unwrap
from grader.tolerance import close, tolerance

Candidate = torch.Tensor | Callable[[], torch.Tensor]
Mistakes = Mapping[str, Candidate | Sequence[Candidate]]
"""By code: what the mistake gives, or several forms of it."""


class Current:
    """The session of the check that runs now; a judge runs one check at a time."""

    session: Session | None = None


class Expectation:
    """A returned value and what it should be."""

    def __init__(self, value: Any, what: str, dims: str | None) -> None:
        self._value = unwrap(value)
        self._what = what
        self._dims = dims.split() if dims else []

    def value(self) -> Any:
        """The plain Python value, whatever it is."""
        return self._value

    def tensor(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None,
        finite: bool = True,
        mistakes: Mistakes | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> torch.Tensor:
        """A checked plain tensor to compute with."""
        actual = self._as_tensor()
        if dtype is not None:
            self._check_dtype(actual, dtype)
        if shape is not None and tuple(actual.shape) != tuple(shape):
            self._try_mistakes(actual, None, mistakes or {}, dict(facts or {}), (1e-5, 1e-5))
            raise CheckFailed(
                f"{self._sentence_start()}: {detectors.shape_finding(tuple(actual.shape), tuple(shape), self._dims)}.",
                mistake="general/wrong-shape",
                facts={"what": self._what},
                detail=self._shapes_only(actual, tuple(shape)),
            )
        if finite and actual.is_floating_point() and not bool(actual.isfinite().all()):
            self._try_mistakes(actual, None, mistakes or {}, dict(facts or {}), (1e-5, 1e-5))
            raise self._not_finite(actual, torch.ones_like(actual, dtype=torch.bool))
        return actual

    def equals(
        self,
        expected: Any,
        mistakes: Mistakes | None = None,
        facts: Mapping[str, Any] | None = None,
        only: torch.Tensor | None = None,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> Any:
        """The value equals `expected` within the tolerance of its dtype and device."""
        if not isinstance(expected, torch.Tensor):
            return self._equals_plain(expected, mistakes or {}, dict(facts or {}))
        actual = self._as_tensor()
        device = Current.session.device if Current.session else "cpu"
        standard = tolerance(expected.dtype, device)
        tolerances = (standard[0] if atol is None else atol, standard[1] if rtol is None else rtol)
        self._check_dtype(actual, expected.dtype)
        if actual.shape != expected.shape:
            self._try_mistakes(actual, None, mistakes or {}, dict(facts or {}), tolerances)
            shape = detectors.shape_finding(tuple(actual.shape), tuple(expected.shape), self._dims)
            raise CheckFailed(
                f"{self._sentence_start()}: {shape}.",
                mistake="general/wrong-shape",
                facts={"what": self._what},
                detail=self._shapes_only(actual, tuple(expected.shape)),
            )
        counts = torch.ones(expected.shape, dtype=torch.bool) if only is None else only.expand(expected.shape)
        if not bool(counts.any()) and expected.numel():
            raise CheckFault(f"a check compares no position of {self._what}")
        if bool((close(actual, expected, *tolerances) | ~counts).all()):
            return actual
        self._try_mistakes(actual, (expected, counts), mistakes or {}, dict(facts or {}), tolerances)
        if actual.is_floating_point() and not bool(
            (actual.isfinite() | ~expected.isfinite() | ~counts).all()
        ):
            raise self._not_finite(actual, counts, expected)
        raise self._different(actual, expected, counts, tolerances)

    def differs_from(self, other: Any, mistake: str, facts: Mapping[str, Any] | None = None) -> None:
        """Fails with `mistake` when all values are equal."""
        actual, other = self._as_tensor(), unwrap(other)
        if actual.shape == other.shape and bool(close(actual, other, *tolerance(actual.dtype)).all()):
            raise CheckFailed(mistake=mistake, facts=dict(facts or {}))

    # The steps --------------------------------------------------------------------------------------------------

    def _sentence_start(self) -> str:
        return self._what[:1].upper() + self._what[1:]

    def _as_tensor(self) -> torch.Tensor:
        value = self._value
        facts = {"what": self._what}
        if value is None:
            raise CheckFailed(
                f"{self._sentence_start()}: None came back, where a tensor was expected.",
                mistake="general/returned-none",
                facts=facts,
                next_step="Is there a `return` at the end of every path?",
            )
        if isinstance(value, (tuple, list)):
            raise CheckFailed(
                f"{self._sentence_start()}: {described(value)} came back, where one tensor was expected.",
                mistake="general/returned-tuple",
                facts=facts,
                next_step="Return the tensor alone.",
            )
        if not isinstance(value, torch.Tensor):
            code = (
                "general/returned-numpy"
                if isinstance(value, Handle) and "numpy" in described(value)
                else "general/returned-no-tensor"
            )
            raise CheckFailed(
                f"{self._sentence_start()}: {described(value)} came back, where a torch tensor was expected.",
                mistake=code,
                facts=facts,
                next_step="Compute with torch functions from beginning to end.",
            )
        device = Current.session.device if Current.session else "cpu"
        seen = getattr(value, "seen_device", device)
        if seen != torch.device(device).type:
            raise CheckFailed(
                f"{self._sentence_start()} is on {seen}, expected {device}, where the inputs are.",
                mistake="general/wrong-device",
                facts=facts,
                next_step="Make new tensors with `device=x.device`.",
            )
        return value

    def _check_dtype(self, actual: torch.Tensor, expected: torch.dtype) -> None:
        if actual.dtype == expected:
            return
        got, wanted = (str(dtype).removeprefix("torch.") for dtype in (actual.dtype, expected))
        raise CheckFailed(
            f"{self._sentence_start()} has dtype {got}, expected {wanted}.",
            mistake="general/not-boolean" if expected == torch.bool else "general/wrong-dtype",
            facts={"what": self._what},
            next_step=dtype_advice(actual.dtype, expected),
        )

    def _try_mistakes(
        self,
        actual: torch.Tensor,
        right: tuple[torch.Tensor, torch.Tensor] | None,
        mistakes: Mistakes,
        facts: dict[str, Any],
        tolerances: tuple[float, float],
    ) -> None:
        """Ends the check with the first mistake that gives exactly what was returned."""
        for code, candidate in each_candidate(mistakes):
            try:
                guess = candidate() if callable(candidate) else candidate
            except (RuntimeError, IndexError, ValueError):
                continue  # this wrong way does not work on these sizes
            if guess.shape != actual.shape:
                continue
            guess = guess.to(actual.dtype)
            if right is None:
                matches = bool(close(actual, guess, *tolerances).all())
                detail = None
            else:
                expected, counts = right
                matches = bool((close(actual, guess, *tolerances) | ~counts).all())
                if matches and bool((close(guess, expected, *tolerances) | ~counts).all()):
                    continue
                detail = excerpt(self._what, actual, expected, self._dims, counts) if matches else None
            if matches:
                raise CheckFailed(mistake=code, facts=facts, detail=detail)

    def _not_finite(
        self, actual: torch.Tensor, counts: torch.Tensor, expected: torch.Tensor | None = None
    ) -> CheckFailed:
        kind = "NaN" if bool((actual.isnan() & counts).any()) else "infinity"
        where = int((~actual.isfinite() & counts).sum())
        return CheckFailed(
            f"{self._sentence_start()} has {kind} in {where} of {int(counts.sum())} places.",
            mistake="general/not-finite",
            facts={"what": self._what, "kind": kind},
            findings=list(detectors.nan_rows(actual, self._dims, counts)),
            detail=excerpt(self._what, actual, expected, self._dims, counts)
            if expected is not None
            else None,
        )

    def _different(
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        counts: torch.Tensor,
        tolerances: tuple[float, float],
    ) -> CheckFailed:
        inputs = Current.session.last_inputs if Current.session else []
        detail = excerpt(self._what, actual, expected, self._dims, counts)
        wrong = int((~close(actual, expected, *tolerances) & counts).sum())
        findings = detectors.findings(actual, expected, self._dims, counts, tolerances, inputs)
        head = (
            f"{self._sentence_start()}: {wrong} of {int(counts.sum())} values differ from what was expected"
        )
        if detail.largest_difference is not None and actual.is_floating_point():
            head += f", by up to {detail.largest_difference:.3g}"
        return CheckFailed(head + ".", findings=findings, detail=detail)

    def _equals_plain(self, expected: Any, mistakes: Mapping[str, Any], facts: dict[str, Any]) -> Any:
        actual = self._value
        if plain_equal(actual, expected):
            return actual
        for code, candidate in mistakes.items():
            guess = candidate() if callable(candidate) else candidate
            if plain_equal(actual, guess) and not plain_equal(guess, expected):
                raise CheckFailed(mistake=code, facts=facts)
        seen = described(actual) if isinstance(actual, (torch.Tensor, Handle)) else repr(actual)[:300]
        raise CheckFailed(f"{self._sentence_start()} is {seen}, expected {expected!r:.300}.")

    def _shapes_only(self, actual: torch.Tensor, expected: tuple[int, ...]) -> Comparison:
        return Comparison(self._what, self._dims, [], [], [], list(expected), list(actual.shape))


def each_candidate(mistakes: Mistakes) -> Iterator[tuple[str, Candidate]]:
    """Every form of every mistake, in their order."""
    for code, candidates in mistakes.items():
        if isinstance(candidates, torch.Tensor) or callable(candidates):
            yield code, candidates
        else:
            for candidate in candidates:
                yield code, candidate


def plain_equal(actual: Any, expected: Any) -> bool:
    """Equality of plain data, with room for rounding in floats and none between types."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return type(actual) is type(expected) and bool(actual == expected)
    if isinstance(expected, float):
        return isinstance(actual, (int, float)) and math.isclose(actual, expected, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(expected, (tuple, list)):
        return (
            isinstance(actual, type(expected))
            and len(actual) == len(expected)
            and all(plain_equal(*pair) for pair in zip(actual, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(plain_equal(actual[key], expected[key]) for key in expected)
        )
    return type(actual) is type(expected) and bool(actual == expected)


def dtype_advice(actual: torch.dtype, expected: torch.dtype) -> str:
    """The next step for a dtype that is not the expected one."""
    if expected == torch.bool:
        return "Compare (`!=`, `>=`) or call `.bool()`: a mask is a bool tensor."
    if actual == torch.float64 and expected != torch.float64:
        return "Something made a float64 tensor (NumPy does by default): make it with the dtype of the input."
    return "Make new tensors with the dtype of the input: `dtype=x.dtype`; register tables as buffers."


__all__ = ["Current", "Expectation", "number"]
