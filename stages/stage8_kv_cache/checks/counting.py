"""Counts rows that go through projections, at the operators: whoever reads a token again cannot hide it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grader.submission import Operator


def rows_of(operators: Sequence[Operator], widths: Collection[int]) -> int:
    """The rows that went through products with weights of these many input features.

    Attention's own products run over `d_k` or over tokens; the sizes of a check keep these apart from `widths`.
    """
    return sum(one.rows for one in operators if one.rows and _inner(one) in widths)


def _inner(operator: Operator) -> int:
    """What the product sums over."""
    matrices = [shape for shape in operator.shapes if len(shape) >= 2]
    left = matrices[-2] if len(matrices) >= 2 else matrices[0]
    return left[-1]
