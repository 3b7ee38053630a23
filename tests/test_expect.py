"""What is said of a returned value: the known mistake first, then its likeness, as a person would look."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from grader.checks import expect, expect_error
from grader.expect import Current
from grader.failure import CheckFailed, CheckFault
from grader.submission import Raising, Returned
from grader.wire import Raised


@pytest.fixture(autouse=True)
def no_session() -> None:
    Current.session = None


EXPECTED = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
DIMS = "batch heads query key"


def failure(call: Callable[[], object]) -> CheckFailed:
    with pytest.raises(CheckFailed) as failed:
        call()
    return failed.value


def said(value: object, expected: torch.Tensor = EXPECTED, dims: str = DIMS, **options: object) -> str:
    found = failure(lambda: expect(value, "attention weights", dims).equals(expected, **options))
    return " ".join(found.findings)


def test_what_is_equal_passes_and_comes_back_plain() -> None:
    back = expect(Returned(EXPECTED.clone(), "f"), "weights", DIMS).equals(EXPECTED)
    assert torch.equal(back, EXPECTED)
    expect(EXPECTED + 1e-11, "weights").equals(EXPECTED)
    with pytest.raises(CheckFailed):
        expect(EXPECTED + 1e-4, "weights").equals(EXPECTED)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "general/returned-none"),
        ((EXPECTED, EXPECTED), "general/returned-tuple"),
        (3.5, "general/returned-no-tensor"),
        (EXPECTED.float(), "general/wrong-dtype"),
        (EXPECTED[0], "general/wrong-shape"),
        (EXPECTED * math.nan, "general/not-finite"),
        (EXPECTED / 0, "general/not-finite"),
    ],
)
def test_what_comes_before_values(value: object, code: str) -> None:
    assert failure(lambda: expect(value, "weights", DIMS).equals(EXPECTED)).mistake == code


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (EXPECTED.transpose(2, 3), "the query axis and the key axis are swapped"),
        (EXPECTED.permute(0, 3, 1, 2), "the axes stand in another order"),
        (EXPECTED[:, 0], "the heads axis is missing"),
        (EXPECTED.unsqueeze(0), "axis 0 is one too many"),
        (EXPECTED[..., :6], "the key axis has 6 instead of 7"),
        (torch.zeros(2, dtype=torch.float64), "1 axes instead of 4"),
    ],
)
def test_shapes_are_explained_by_the_names_of_their_axes(value: torch.Tensor, words: str) -> None:
    assert words in said(value)


SQUARE = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize(
    ("value", "expected", "words"),
    [
        (EXPECTED * math.sqrt(7), EXPECTED, "sqrt(7) = 2.646 times"),
        (EXPECTED / 5, EXPECTED, "1/5 times"),
        (-EXPECTED, EXPECTED, "-1 times"),
        (EXPECTED + 0.25, EXPECTED, "+0.25 away"),
        (SQUARE.transpose(1, 2), SQUARE, "right after swapping the query axis and the key axis"),
        (SQUARE.roll(1, 1), SQUARE, "one step too late along the query axis"),
        (SQUARE[:, :1].expand(2, 5, 5), SQUARE, "the same at every index of the query axis"),
        (~(SQUARE > 0), SQUARE > 0, "exact opposite"),
    ],
)
def test_detectors_say_what_it_looks_like(value: torch.Tensor, expected: torch.Tensor, words: str) -> None:
    dims = DIMS if value.dim() == 4 else "batch query key"
    assert words in said(value, expected, dims)


def test_a_single_wrong_head_and_nan_rows_are_found() -> None:
    wrong = EXPECTED.clone()
    wrong[:, 1] += torch.randn(2, 5, 7, dtype=torch.float64)
    assert "right except at heads 1 (of 3)" in said(wrong)
    wrong = EXPECTED.clone()
    wrong[0, 0, 2] = math.nan
    assert "NaN stands in 1 of 30 rows only" in said(wrong)


def test_the_known_mistake_comes_first_and_needs_no_shape() -> None:
    found = failure(
        lambda: expect(EXPECTED * 2, "weights").equals(
            EXPECTED,
            mistakes={"tripled": EXPECTED * 3, "doubled": [EXPECTED + 1, lambda: EXPECTED * 2]},
            facts={"x": 1},
        )
    )
    assert (found.mistake, found.facts, found.findings) == ("doubled", {"x": 1}, [])
    assert found.detail is not None
    flat = failure(
        lambda: expect(EXPECTED.mean(1), "x").equals(EXPECTED, mistakes={"mean": lambda: EXPECTED.mean(1)})
    )
    assert flat.mistake == "mean"
    nan = EXPECTED.clone()
    nan[0] = math.nan
    assert failure(lambda: expect(nan, "x").equals(EXPECTED, mistakes={"nan": nan.clone()})).mistake == "nan"


def test_a_mistake_that_equals_the_right_answer_here_is_not_named() -> None:
    found = failure(lambda: expect(EXPECTED + 1, "x").equals(EXPECTED, mistakes={"same": EXPECTED}))
    assert found.mistake is None


def test_only_some_positions_count() -> None:
    only = torch.zeros(2, 1, 5, 1, dtype=torch.bool)
    only[:, :, :3] = True
    wrong = EXPECTED.clone()
    wrong[:, :, 4] = 99
    expect(wrong, "weights").equals(EXPECTED, only=only)
    wrong[:, :, 1] = 99
    with pytest.raises(CheckFailed):
        expect(wrong, "weights").equals(EXPECTED, only=only)
    with pytest.raises(CheckFault):
        expect(wrong, "weights").equals(EXPECTED, only=torch.zeros(1, dtype=torch.bool))


def test_the_excerpt_shows_where_it_differs_most() -> None:
    wrong = EXPECTED.clone()
    wrong[1, 2, 4, 6] += 5
    detail = failure(lambda: expect(wrong, "weights", DIMS).equals(EXPECTED)).detail
    assert detail is not None
    assert detail.index == [1, 2]
    assert 4 in detail.rows
    assert 6 in detail.columns
    assert detail.largest_difference == pytest.approx(5)


def test_plain_values() -> None:
    assert expect([1, 2], "ids").equals([1, 2]) == [1, 2]
    expect(0.1 + 0.2, "loss").equals(0.3)
    assert "is [1, 3], expected [1, 2]" in failure(lambda: expect([1, 3], "ids").equals([1, 2])).findings[0]
    assert failure(lambda: expect(True, "flag").equals(1)).mistake is None
    assert (
        failure(lambda: expect([2, 1], "ids").equals([1, 2], mistakes={"reversed": [2, 1]})).mistake
        == "reversed"
    )


def test_values_that_should_differ() -> None:
    expect(EXPECTED, "x").differs_from(EXPECTED + 1, mistake="no-dropout")
    assert (
        failure(lambda: expect(EXPECTED, "x").differs_from(EXPECTED.clone(), mistake="no-dropout")).mistake
        == "no-dropout"
    )


def raising(kind: str, message: str, *bases: str) -> Callable[[], None]:
    def call() -> None:
        raise Raising(Raised(kind, [kind, *bases, "Exception"], message, [], "call"), "f()")

    return call


def test_errors_that_are_due() -> None:
    expect_error(ValueError, raising("ValueError", "10 is not divisible by 3"), mentions=["10", "3"])
    expect_error((ValueError, IndexError), raising("MyError", "x", "IndexError"))
    assert failure(lambda: expect_error(ValueError, lambda: None, mistake="accepted")).mistake == "accepted"
    assert (
        failure(lambda: expect_error(ValueError, raising("KeyError", "x"))).mistake == "general/wrong-error"
    )
    without = failure(lambda: expect_error(ValueError, raising("ValueError", "bad"), mentions=["10"]))
    assert without.mistake == "general/message-without-values"
    unfinished = failure(
        lambda: expect_error(ValueError, raising("NotImplementedError", ""), mistake="accepted")
    )
    assert unfinished.mistake is None
    assert unfinished.raised is not None


def test_a_value_that_is_used_as_a_module_is_said_to_be_none() -> None:
    assert "where an nn.Module was expected" in failure(lambda: Returned(EXPECTED, "f").sum()).findings[0]


def test_a_check_that_forgets_to_expect_is_a_fault_of_ours() -> None:
    with pytest.raises(CheckFault):
        bool(Returned(EXPECTED, "f"))
    assert "where several values were expected" in failure(lambda: list(Returned(EXPECTED, "f"))).findings[0]
