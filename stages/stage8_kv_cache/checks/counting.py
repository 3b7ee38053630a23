"""Counts rows that go through projections, at the operators: whoever reads a token again cannot hide it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from grader.submission import Operator

BIAS_FIRST = ("addmm", "addmv", "addbmm", "baddbmm")
PRODUCTS = (*BIAS_FIRST, "linear", "matmul", "mm", "bmm", "mv", "einsum", "tensordot", "inner")

UNCOUNTED = (
    "No product with a weight was seen for a further token, so its rows cannot be counted.",
    "Ask the model for each token, and write each projection as one product: its own module, F.linear or x @ weight.T.",
)


def rows_of(operators: Sequence[Operator], widths: Collection[int], vocab: int = 0) -> int:
    """The rows that went through products with weights of these many input features.

    A weight has `width` times some outputs: those of one map, of two or three side by side, or `vocab`. On which side
    of the product it stands, and whether it is cut into heads, does not matter. Attention's own products run over
    `d_k` or over tokens; the sizes of a check keep these apart from `widths`.
    """
    outputs = {vocab, *(number * width for width in widths for number in (1, 2, 3))}
    return sum(_rows(one, widths, outputs) for one in operators if one.name in PRODUCTS)


def _rows(operator: Operator, widths: Collection[int], outputs: Collection[int]) -> int:
    """The rows of one product; 0 where no operand is a weight."""
    shapes = operator.shapes[1:] if operator.name in BIAS_FIRST else operator.shapes
    if len(shapes) < 2:
        return 0
    found = [
        prod(x) // width
        for x, weight in (shapes[:2], shapes[1::-1])
        for width in widths
        if width in x and width in weight and len(weight) in (2, 3) and prod(weight) // width in outputs
    ]
    if found:
        return min(found)
    # A weight that was repeated for every row of the batch.
    left = shapes[0]
    return prod(left[:-1]) if len(left) > 1 and operator.name != "einsum" and left[-1] in widths else 0
