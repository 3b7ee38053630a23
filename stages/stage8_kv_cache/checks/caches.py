"""Fills caches, and knows what a wrong one gives back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail
from grader.submission import Handle, described

BATCH, HEADS, MAX_LEN, D_K = 3, 2, 9, 4
DIMS = "batch heads length d_k"


def new_cache(
    submission: Any,
    dtype: torch.dtype,
    batch: int = BATCH,
    heads: int = HEADS,
    max_len: int = MAX_LEN,
    d_k: int = D_K,
) -> Any:
    """An empty cache of the submission."""
    made = submission.KVCache(batch, heads, max_len, d_k, device=submission.device, dtype=dtype)
    cache = expect(made, "what KVCache(...) gave").value()
    if not isinstance(cache, Handle):
        fail(f"KVCache(...) gave {described(cache)}, where an object was expected.", "Write it as a class.")
    return cache


def chunks(draw: Any, lengths: list[int], batch: int = BATCH) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of so many new tokens each."""
    shapes = [(batch, HEADS, length, D_K) for length in lengths]
    return [
        (draw.normal(*shape, dtype=draw.exact), draw.normal(*shape, dtype=draw.exact)) for shape in shapes
    ]


def expect_appended(
    cache: Any, parts: list[tuple[Tensor, Tensor]], before: tuple[Tensor, Tensor] | None
) -> None:
    """Appends the parts one after the other to a cache that holds `before`; each time all of it comes back."""
    keys, values = ([one] for one in before) if before else ([], [])
    for key, value in parts:
        keys.append(key)
        values.append(value)
        found_keys, found_values = cache.append(key, value)
        expect(found_keys, "the keys that append returned", dims=DIMS).equals(
            torch.cat(keys, 2), mistakes=wrong_keys(keys)
        )
        expect(found_values, "the values that append returned", dims=DIMS).equals(
            torch.cat(values, 2), mistakes={"values-not-kept": value}
        )
    expect(cache.length, "cache.length").equals(sum(key.shape[2] for key in keys))


def wrong_keys(keys: list[Tensor]) -> dict[str, Any]:
    """What known mistakes return after these keys were appended."""
    filled = torch.cat(keys, 2)
    empty = filled.new_zeros(*filled.shape[:2], MAX_LEN - filled.shape[2], filled.shape[3])
    overwritten = torch.zeros_like(filled)
    for key in keys:
        overwritten[:, :, : key.shape[2]] = key
    return {
        "cache-overwritten": [keys[-1], overwritten],
        "cache-prepended": torch.cat(keys[::-1], 2),
        "cache-empty-slots-returned": torch.cat([filled, empty], 2),
    }


def appends(submission: Any, draw: Any) -> None:
    """A check: everything so far comes back, whatever the chunks."""
    for lengths in ([3, 1, 2], [1, 1, 1], [5, 3]):
        expect_appended(new_cache(submission, draw.exact), chunks(draw, lengths), None)


def reorders(submission: Any, draw: Any) -> None:
    """A check: rows take each other's places, and what comes next stands behind them."""
    for order in ([2, 0, 1], [1, 1, 0], [0, 0, 0]):
        cache = new_cache(submission, draw.exact)
        (key, value), (next_key, next_value) = chunks(draw, [4, 2])
        cache.append(key, value)
        indices = torch.tensor(order)
        cache.reorder(indices)
        keys, values = cache.append(next_key, next_value)

        def followed(rows: Tensor, after: Tensor) -> Tensor:
            return torch.cat([rows, after], 2)

        # The candidates must be no right answers: only a true exchange can be turned round or trip over itself.
        wrong = {
            "reorder-misses-the-newest": followed(
                torch.cat([key[indices, :, :-1], key[:, :, -1:]], 2), next_key
            )
        }
        if sorted(order) == [0, 1, 2]:
            overwritten = key.clone()
            for row, source in enumerate(order):
                overwritten[row] = overwritten[source]
            wrong["reorder-inverse"] = followed(key[indices.argsort()], next_key)
            wrong["reorder-overwrites-rows"] = followed(overwritten, next_key)
        expect(keys, "the keys after reorder", dims=DIMS).equals(
            followed(key[indices], next_key), mistakes=wrong, facts={"indices": order}
        )
        expect(values, "the values after reorder", dims=DIMS).equals(
            followed(value[indices], next_value),
            mistakes={"reorder-keys-only": followed(value, next_value)},
            facts={"indices": order},
        )


def truncates(submission: Any, draw: Any) -> None:
    """A check: what was cut off is gone, and what comes next stands in its place."""
    for kept in (2, 0):
        cache = new_cache(submission, draw.exact)
        (key, value), (next_key, next_value) = chunks(draw, [5, 3])
        cache.append(key, value)
        cache.truncate(kept)
        keys, values = cache.append(next_key, next_value)
        expect(keys, "the keys after truncate", dims=DIMS).equals(
            torch.cat([key[:, :, :kept], next_key], 2),
            mistakes={
                "truncate-keeps-tokens": torch.cat([key, next_key], 2),
                "truncate-keeps-the-newest": torch.cat([key[:, :, 5 - kept :], next_key], 2),
                "truncate-off-by-one": [
                    torch.cat([key[:, :, : max(other, 0)], next_key], 2) for other in (kept - 1, kept + 1)
                ],
            },
            facts={"kept": kept, "held": 5},
        )
        expect(values, "the values after truncate", dims=DIMS).equals(
            torch.cat([value[:, :, :kept], next_value], 2)
        )
        expect(cache.length, "cache.length").equals(kept + 3)
