"""Lets `generate_cached` write, and looks at what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake, raising_means
from grader.failure import CheckFailed

from .counting import UNCOUNTED, rows_of
from .gpts import D_FF, D_MODEL, LAYERS, LEARNED, VOCAB, Row, TinyGPT, tiny_gpt, ways, write

CLEAR = 1e-3
"""The likeliest token is ahead of the second by so much."""

DIMS = "batch position"


def task(
    submission: Any,
    draw: Any,
    kind: dict[str, Any],
    new: int,
    prompts: Sequence[int],
    codes: Sequence[str],
    pad_id: int = 0,
    later_pads: bool = False,
    block_size: int = 16,
    layers: int = 2,
) -> tuple[TinyGPT, list[Row], list[Row], dict[str, list[list[Row]]]]:
    """A model and prompts of these lengths that tell the mistakes apart: (model, prompts, texts, wrong texts)."""
    while True:
        gpt = tiny_gpt(submission, draw, kind, block_size, layers)
        rows = [draw.integers(1, VOCAB, length).tolist() for length in prompts]
        if later_pads:
            for row in rows:
                row[len(row) // 2] = pad_id
        if any(row[0] == pad_id for row in rows):
            continue
        found = [write(gpt, row, new) for row in rows]
        if min(margin for _, margin in found) < CLEAR:
            continue
        right = [tokens for tokens, _ in found]
        wrong = {code: several for code in codes if (several := wrong_texts(gpt, rows, new, code, pad_id))}
        if all(text != right for several in wrong.values() for text in several):
            return gpt, rows, right, wrong


def wrong_texts(gpt: TinyGPT, rows: list[Row], new: int, code: str, pad_id: int) -> list[list[Row]]:
    """The texts that each form of a mistake writes."""
    longest = max(map(len, rows))
    by_row = [ways(gpt, longest - len(row), row, pad_id).get(code, []) for row in rows]
    forms = max(map(len, by_row))
    return [
        [
            write(gpt, row, new, forms_of_row[form] if form < len(forms_of_row) else None)[0]
            for row, forms_of_row in zip(rows, by_row)
        ]
        for form in range(forms)
    ]


def padded(rows: list[Row], pad_id: int = 0) -> Tensor:
    """(batch, longest), padded on the left."""
    longest = max(map(len, rows))
    return torch.tensor([[pad_id] * (longest - len(row)) + row for row in rows])


def expect_texts(
    submission: Any,
    gpt: TinyGPT,
    rows: list[Row],
    right: list[Row],
    wrong: dict[str, list[list[Row]]],
    pad_id: int | None = None,
) -> None:
    """generate_cached writes the right texts after the rows, the likeliest token each time."""
    filler = 0 if pad_id is None else pad_id
    prompt, expected = padded(rows, filler), padded(right, filler)
    new = expected.shape[1] - prompt.shape[1]
    options = {} if pad_id is None else {"pad_id": pad_id}
    returned = submission.generate_cached(gpt.handle, prompt, new, temperature=0.0, **options)
    expect(returned, "the texts", dims=DIMS).equals(
        expected,
        mistakes={code: [padded(text, filler) for text in several] for code, several in wrong.items()},
        facts={"prompt_len": prompt.shape[1], "block_size": gpt.block_size, "pad_id": pad_id},
    )


def writes_with_one_layer_only(submission: Any, draw: Any, kind: dict[str, Any]) -> bool:
    """Whether a GPT of one layer writes what it should."""
    gpt, rows, right, _ = task(submission, draw, kind, 7, [5, 5, 5], [], layers=1)
    try:
        expect_texts(submission, gpt, rows, right, {})
    except CheckFailed:
        return False
    return True


def writes(submission: Any, draw: Any, kind: dict[str, Any]) -> None:
    """A check: the likeliest tokens, as without a cache."""
    codes = ("position-not-advanced", "rotated-again", "causal-mask-missing-in-prompt")
    gpt, rows, right, wrong = task(submission, draw, kind, 7, [5, 5, 5], codes)
    try:
        expect_texts(submission, gpt, rows, right, wrong)
    except CheckFailed as failure:
        unfinished = failure.raised is not None and failure.raised.type == "NotImplementedError"
        named = failure.mistake is not None and not failure.mistake.startswith("general/")
        if not unfinished and not named and writes_with_one_layer_only(submission, draw, kind):
            mistake("one-cache-for-all-layers", layers=LAYERS)
        raise


def writes_padded(submission: Any, draw: Any, kind: dict[str, Any]) -> None:
    """A check: a padded row gets what it gets alone."""
    codes = ("padding-attended", "positions-count-padding")
    gpt, rows, right, wrong = task(submission, draw, kind, 6, [3, 6, 5], codes)
    expect_texts(submission, gpt, rows, right, wrong, pad_id=0)
    # Padding in every row, and a row whose own pad_id is no padding.
    gpt, rows, right, wrong = task(
        submission, draw, kind, 5, [4, 6], ["later-pad-hidden"], 3, later_pads=True
    )
    expect_texts(submission, gpt, rows, right, wrong, pad_id=3)
    prompt = torch.cat([torch.full((2, 2), 3), padded(rows, 3)], 1)
    expected = torch.cat([torch.full((2, 2), 3), padded(right, 3)], 1)
    returned = submission.generate_cached(gpt.handle, prompt, 5, temperature=0.0, pad_id=3)
    expect(returned, "the texts after padding in every row", dims=DIMS).equals(expected)


def slides(submission: Any, draw: Any, kind: dict[str, Any]) -> None:
    """A check: beyond block_size the window moves."""
    for prompts in ([5, 5], [3, 6], [10, 10]):
        gpt, rows, right, _ = task(submission, draw, kind, 8, prompts, [], block_size=8)
        same_length = prompts[0] == prompts[1]
        with raising_means("window-does-not-slide", (), block_size=8, length=max(prompts) + 8):
            expect_texts(submission, gpt, rows, right, {}, pad_id=None if same_length else 0)


def reads_once(submission: Any, draw: Any, kind: dict[str, Any]) -> None:
    """A check: each further token sends one row through each projection, however long the text is."""
    gpt = tiny_gpt(submission, draw, kind, block_size=20)
    batch, steps = 2, {}
    for length in (4, 9):
        prompt = draw.integers(1, VOCAB, batch, length)
        rows = []
        for new in (2, 5):
            _, operators = submission.operators(
                submission.generate_cached, gpt.handle, prompt, new, temperature=0.0
            )
            rows.append(rows_of(operators, {D_MODEL, D_FF}, VOCAB))
        steps[length] = (rows[1] - rows[0]) / 3
    if min(steps.values()) <= 0:
        fail(*UNCOUNTED)
    # At most seven products a layer (SwiGLU has three of its own), and the head.
    most = batch * (7 * LAYERS + 1)
    if steps[9] > steps[4] or steps[9] > most:
        mistake("tokens-read-again", short=4, long=9, rows_short=round(steps[4]), rows_long=round(steps[9]))


def samples(submission: Any, draw: Any) -> None:
    """A check: with the same generator generate_cached draws what generate draws."""
    gpt = tiny_gpt(submission, draw, LEARNED, block_size=12)
    prompt = draw.integers(1, VOCAB, 3, 4)
    for options in ({}, {"temperature": 1.7, "top_k": 5}, {"temperature": 0.8, "top_k": 9, "top_p": 0.8}):
        seed = draw.integer(0, 1 << 30)
        expected = submission.probes.generate(
            gpt.handle, prompt, 11, generator=submission.generator(seed), **options
        )
        tokens = expect(expected, "what generate of stage 7 drew").tensor((3, 15))
        returned = submission.generate_cached(
            gpt.handle, prompt, 11, generator=submission.generator(seed), **options
        )
        drawn = expect(returned, "the texts", dims=DIMS).tensor((3, 15))
        if not torch.equal(tokens, drawn):
            said = ", ".join(f"{name}={value}" for name, value in options.items()) or "the defaults"
            fail(
                f"With the same generator and {said}, generate_cached drew other tokens than generate of stage 7.",
                "Filter with filter_logits, and draw once a step with torch.multinomial and the generator.",
            )
