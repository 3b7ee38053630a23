"""Runs the decoders of a submission, and looks at what they wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, expect_error, fail, mistake
from grader.failure import CheckFailed

from .searching import Rows, greedy, padded, telling, wrong_writing
from .tables import EOS, PAD, SOS, Table, certain, model_of, words

Decoder = Callable[..., Any]
"""Runs an exercise: (submission, model, src, max_len) -> what it returned."""

Wrong = dict[str, list[Rows]]
"""By code of a mistake, the ids that it gives."""


def greedy_decode(submission: Any, model: Any, src: Tensor, max_len: int) -> Any:
    """The submission's greedy decoding."""
    return submission.greedy_decode(model, src, max_len)


def beam_search(submission: Any, model: Any, src: Tensor, max_len: int) -> Any:
    """The submission's beam search, with three hypotheses."""
    return submission.beam_search(model, src, max_len, beam=3)


def sample(submission: Any, model: Any, src: Tensor, max_len: int) -> Any:
    """The submission's sampling."""
    return submission.sample(model, src, max_len, generator=submission.generator(max_len))


def expect_rows(
    returned: Any,
    right: Rows,
    max_len: int,
    wrong: Wrong | Callable[[], Wrong] | None = None,
    alone: Callable[[int], Any] | None = None,
    alone_first: bool = False,
) -> None:
    """The ids are the right ones; <pad> at the end of all rows may be there or not.

    `wrong` are the ids that known mistakes give, or a function that finds them. `alone` decodes
    one source by itself: where each is right alone, the rows of the batch are mixed. With `alone_first`
    this is asked before the other mistakes.
    """
    try:
        _expect_rows(returned, right, max_len, wrong or {})
    except CheckFailed as failure:
        named = failure.mistake is not None and not failure.mistake.startswith("general/")
        if (
            alone
            and (alone_first or not named)
            and failure.status == "failed"
            and _all_right(alone, right, max_len)
        ):
            mistake("decode-rows-mixed", sources=len(right))
        raise


def _expect_rows(returned: Any, right: Rows, max_len: int, wrong: Wrong | Callable[[], Wrong]) -> None:
    ids = expect(returned, "the ids", dims="batch position").tensor()
    if ids.dim() != 2 or len(ids) != len(right) or ids.is_floating_point():
        kind = f"{str(ids.dtype).removeprefix('torch.')} of shape {tuple(ids.shape)}"
        fail(
            f"The ids: {kind} came back, expected int64 of shape ({len(right)}, at most {max_len}).",
            "Return one row of ids for each source.",
        )
    width = max(ids.shape[1], max_len + 1)
    actual = torch.full((len(right), width), PAD)
    actual[:, : ids.shape[1]] = ids

    def tensor(rows: Rows) -> Tensor:
        return torch.tensor(padded(rows, width))

    candidates = {}
    if not torch.equal(actual, tensor(right)):
        ways = wrong() if callable(wrong) else wrong
        candidates = {code: [tensor(rows) for rows in several] for code, several in ways.items()}
    facts = {"max_len": max_len}
    expect(actual, "the ids", dims="batch position").equals(tensor(right), mistakes=candidates, facts=facts)
    if ids.shape[1] > max_len:
        fail(
            f"The ids: rows of {ids.shape[1]} ids came back, expected at most max_len = {max_len}.",
            "Stop when all rows have finished, at the latest when they are max_len long.",
        )


def _all_right(alone: Callable[[int], Any], right: Rows, max_len: int) -> bool:
    try:
        for number, row in enumerate(right):
            _expect_rows(alone(number), [row], max_len, {})
    except CheckFailed:
        return False
    return True


def expect_texts(submission: Any, draw: Any, decoder: Decoder) -> None:
    """With models that are nearly sure of each token, every decoder writes the same."""
    one, two, three, four, five = words(draw)
    # Rows that end at different steps, and one that max_len ends.
    endless = [three, one, four, one, five, two, two, three, one]
    texts = [[two, EOS], endless, [five, four, one, EOS], [EOS]]
    tables = [certain(draw, texts[index]) for index in draw.permutation(len(texts)).tolist()]
    model, src = model_of(submission, draw, tables)
    max_len = 7
    expect_rows(
        decoder(submission, model, src, max_len),
        greedy(tables, max_len),
        max_len,
        _wrong(decoder, tables, max_len),
        alone=lambda row: decoder(submission, model, src[row : row + 1], max_len),
    )
    shorter = max_len - 4  # <sos> and two tokens
    expect_rows(
        decoder(submission, model, src, shorter),
        greedy(tables, shorter),
        shorter,
        _wrong(decoder, tables, shorter),
    )
    expect_rows(decoder(submission, model, src, 1), [[SOS]] * len(tables), 1, _wrong(decoder, tables, 1))


def _wrong(decoder: Decoder, tables: Sequence[Table], max_len: int) -> Wrong:
    """What known mistakes write; in a beam the first end is that of a hypothesis."""
    found = wrong_writing(tables, max_len)
    if decoder is beam_search:
        found["beam-ends-early"] = found.pop("decode-first-row-ends-all")
    return found


def expect_nothing_suppressed(submission: Any, draw: Any, decoder: Decoder) -> None:
    """Where the model is nearly sure of <unk>, <sos> or <pad>, that is what is written."""
    one, two, *_ = words(draw)
    texts = [[one, 3, two, 3, EOS], [SOS, two, SOS, EOS], [two, PAD, one, EOS]]
    tables = [certain(draw, texts[index]) for index in draw.permutation(len(texts)).tolist()]
    model, src = model_of(submission, draw, tables)
    right = greedy(tables, 8)
    wrong = {
        **_wrong(decoder, tables, 8),
        "decode-suppresses-tokens": [
            greedy([_Suppressing(table, left_out) for table in tables], 8)
            for left_out in ([3], [PAD], [SOS], [PAD, SOS], [PAD, SOS, 3])
        ],
    }
    expect_rows(decoder(submission, model, src, 8), right, 8, telling(right, wrong))


class _Suppressing:
    """A table whose tokens `left_out` are never written."""

    def __init__(self, table: Table, left_out: Sequence[int]) -> None:
        self.table, self.left_out = table, left_out

    def logits(self, prefix: tuple[int, ...]) -> Sequence[float]:
        found = list(self.table.logits(prefix))
        for token in self.left_out:
            found[token] = float("-inf")
        return found


def expect_one_encoding(submission: Any, draw: Any, decoder: Decoder, beam: int = 1) -> None:
    """The encoder reads every source once."""
    one, two, three, *_ = words(draw)
    tables = [certain(draw, [one, three, two, one, EOS]), certain(draw, [two, two, one, EOS])]
    model, src = model_of(submission, draw, tables)
    decoder(submission, model, src, 9)
    read = expect(model.encoded_rows, "the number of rows that the encoder has read").value()
    if read == 0:
        fail("The encoder has read nothing.", "Call model.encode once, before the loop.")
    if read > len(tables) * beam:
        mistake("decode-encodes-every-step", read=read, sources=len(tables))


def expect_eval_mode(submission: Any, draw: Any, decoder: Decoder) -> None:
    """The model is in eval mode inside, without gradients, and afterwards as it was before."""
    one, two, *_ = words(draw)
    model, src = model_of(submission, draw, [certain(draw, [one, two, EOS]), certain(draw, [two, EOS])])
    for training in (True, False):
        model.train(training)
        decoder(submission, model, src, 6)
        modes = [tuple(mode) for mode in expect(model.modes, "the modes").value()]
        if not modes:
            fail(
                "The model was not asked for anything.", "Ask `model.decode` for the next token at each step."
            )
        if any(is_training for is_training, _ in modes):
            mistake("decode-in-training-mode")
        if any(records for _, records in modes):
            fail(
                "The model records what a backward pass would need.",
                "Run it under torch.no_grad(): what is kept for gradients only costs memory here.",
            )
        if expect(model.training, "the model's mode").value() is not training:
            mistake("decode-mode-not-restored", before="training" if training else "eval")


def expect_settings_refused(submission: Any, draw: Any, decoder: Decoder) -> None:
    """A max_len below 1 raises ValueError."""
    one, *_ = words(draw)
    model, src = model_of(submission, draw, [certain(draw, [one, EOS])])
    for max_len in (0, -3):
        expect_error(
            ValueError,
            lambda max_len=max_len: decoder(submission, model, src, max_len),
            mentions=[str(max_len)],
        )
