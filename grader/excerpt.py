"""A small window on two tensors, around the place where they differ most."""

from __future__ import annotations

import torch

from grader.result import Comparison

ROWS, COLUMNS = 4, 6


def excerpt(
    what: str, actual: torch.Tensor, expected: torch.Tensor, dims: list[str], counts: torch.Tensor
) -> Comparison:
    """The matrix that holds the largest difference, cut to a few rows and columns; shapes must be equal."""
    difference = (actual.double() - expected.double()).abs().nan_to_num(nan=float("inf"))
    difference = difference.masked_fill(~counts, -1)
    largest = float(difference.max()) if difference.numel() else None
    if difference.dim() == 0 or not difference.numel():
        return Comparison(
            what,
            dims,
            [],
            [[number(expected)]] if expected.numel() == 1 else [],
            [[number(actual)]] if actual.numel() == 1 else [],
            list(expected.shape),
            list(actual.shape),
            largest,
        )
    place = [int(index) for index in torch.unravel_index(difference.argmax(), difference.shape)]
    index, row, column = place[:-2], (place[-2] if len(place) > 1 else 0), place[-1]
    matrices = [tensor[tuple(index)] if index else tensor for tensor in (expected, actual)]
    if len(place) == 1:
        matrices = [matrix.unsqueeze(0) for matrix in matrices]
    rows = window(row, matrices[0].shape[0], ROWS)
    columns = window(column, matrices[0].shape[1], COLUMNS)
    tables = [[[number(matrix[r, c]) for c in columns] for r in rows] for matrix in matrices]
    return Comparison(
        what,
        dims,
        index,
        tables[0],
        tables[1],
        list(expected.shape),
        list(actual.shape),
        largest,
        rows=rows if len(place) > 1 else [],
        columns=columns,
    )


def window(at: int, size: int, width: int) -> list[int]:
    """`width` indices around `at`, inside `size`."""
    first = max(0, min(at - width // 2, size - width))
    return list(range(first, min(first + width, size)))


def number(value: torch.Tensor) -> str:
    """A value in few characters."""
    if value.dtype == torch.bool:
        return str(bool(value))
    if not value.is_floating_point():
        return str(int(value))
    plain = float(value)
    if plain != plain or plain in (float("inf"), float("-inf")):
        return str(plain)
    if plain == 0 or 1e-3 <= abs(plain) < 1e4:
        return f"{plain:.4f}"
    return f"{plain:.2e}"
