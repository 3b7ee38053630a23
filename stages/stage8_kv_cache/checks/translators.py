"""A real Transformer, asked without a cache: what should be written with it, and what known mistakes write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake

from .counting import UNCOUNTED, rows_of

PAD, SOS, EOS = 0, 1, 2
SRC_VOCAB, VOCAB, D_MODEL, D_FF, LAYERS = 11, 9, 16, 24, 2
DIMS = "batch position"
TELLING = ("target-position-not-advanced", "source-padding-attended")

Next = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the tokens that each row has read, those that it has written, and the sources (each a number, one for each
token) that were looked at when they were read, to logits (rows, vocab)."""


class Translator:
    """A random Transformer that listens to its source and to what it wrote."""

    def __init__(
        self, submission: Any, draw: Any, norm_first: bool = True, sharpness: float = 4.0, **favours: float
    ) -> None:
        options = {"dropout": 0.5, "max_len": 24, "norm_first": norm_first}
        self.make = lambda: submission.probes.transformer(
            SRC_VOCAB, VOCAB, D_MODEL, 2, LAYERS, D_FF, **options
        )
        self.device, self.exact = submission.device, draw.exact
        model = self.make()
        model.to(self.device, self.exact)
        weights = model.state_dict()
        for name, value in weights.items():
            if name == "positions.pe":
                continue
            # Small embeddings of the target: else a text would repeat one token for ever.
            scale = 0.12 if name == "tgt_embed.weight" else 0.25 if value.dim() > 1 else 0.1
            norm = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weights[name] = draw.normal(*value.shape, dtype=draw.exact, scale=scale, shift=norm)
            # Attention that matters, so that a wrong one shows.
            if name.startswith("decoder") and name.endswith(("attn.w_o.weight", "attn.w_q.weight")):
                weights[name] *= 6
            if name == "fc_out.weight":
                weights[name] *= sharpness
        for token, favour in (("pad", PAD), ("eos", EOS)):
            weights["fc_out.bias"][favour] += favours.get(token, 0.0)
        self.weights = weights
        self.model = self.loaded(model, weights)

    def loaded(self, model: Any, weights: dict[str, Tensor]) -> Any:
        """The model with these weights, in eval mode."""
        model.to(self.device, self.exact)
        model.load_state_dict(weights)
        model.eval()
        return model

    def with_positions(self, table: Tensor) -> Any:
        """The same model with other positions."""
        return self.loaded(self.make(), {**self.weights, "positions.pe": table})

    def logits(
        self, src: Tensor, beam: int = 1, decoder: Any = None, padding: tuple[bool, bool] = (True, True)
    ) -> Next:
        """Asks the model; `padding` says whether that of target and source is hidden."""
        batch, src_len = src.shape
        real = src != PAD
        memory = expect(self.model.encode(src, real[:, None, None]), "the memory").tensor(
            (batch, src_len, D_MODEL)
        )
        # All sources side by side; the mask says which of them each position may look at.
        memory = memory.flatten(0, 1).expand(batch * beam, -1, -1)
        looks = torch.eye(batch, dtype=torch.bool).repeat_interleave(src_len, 1)  # (source, batch * src_len)
        if padding[1]:
            looks = looks & real.flatten()
        decoder = self.model if decoder is None else decoder

        def ask(read: Tensor, written: Tensor, origin: Tensor) -> Tensor:
            length = read.shape[1]
            mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
            if padding[0]:
                mask = mask & (written != PAD)[:, None, None]
            hidden = expect(decoder.decode(read, memory, mask, looks[origin][:, None]), "the hidden states")
            last = hidden.tensor((len(read), length, D_MODEL))[:, -1]
            return expect(self.model.fc_out(last), "the logits").tensor((len(read), VOCAB))

        return ask

    def wrong(self, src: Tensor) -> dict[str, Callable[[], Next]]:
        """By code of a mistake, how to ask the model that way."""
        table = self.weights["positions.pe"]
        still = torch.cat([table[:, :1]] * table.shape[1], 1)
        return {
            "target-position-not-advanced": lambda: self.logits(src, 1, self.with_positions(still)),
            "source-padding-attended": lambda: self.logits(src, padding=(True, False)),
            "target-padding-attended": lambda: self.logits(src, padding=(False, True)),
        }


def greedy(ask: Next, rows: int, max_len: int) -> tuple[Tensor, float]:
    """The ids that are likeliest, and how clear that was."""
    tokens = torch.full((rows, 1), SOS)
    own = torch.arange(rows)[:, None]
    finished = torch.zeros(rows, dtype=torch.bool)
    margin = math.inf
    while tokens.shape[1] < max_len and not finished.all():
        best, ids = ask(tokens, tokens, own.expand_as(tokens)).topk(2)
        margin = min(margin, float((best[:, 0] - best[:, 1])[~finished].min()))
        token = ids[:, 0].masked_fill(finished, PAD)
        tokens = torch.cat([tokens, token[:, None]], 1)
        finished |= token == EOS
    return tokens, margin


def beam_search(
    ask: Next,
    batch: int,
    max_len: int,
    beam: int,
    length_penalty: float,
    reordered: str = "right",
    lengths_move: bool = True,
) -> Tensor:
    """The best hypotheses. What a row has read goes with it, unless it is not `reordered` the right way.

    Its length does, too, if `lengths_move`.
    """
    tokens = torch.full((batch * beam, 1), SOS)
    first_row = torch.arange(batch)[:, None] * beam
    own = torch.arange(batch).repeat_interleave(beam)[:, None]  # (rows, 1)
    read, origin = tokens, own
    scores = torch.full((batch, beam), -math.inf, dtype=torch.float64)
    scores[:, 0] = 0.0
    finished = torch.zeros(batch, beam, dtype=torch.bool)
    lengths = torch.zeros(batch, beam, dtype=torch.int64)
    stay = torch.full((VOCAB,), -math.inf, dtype=torch.float64)
    stay[PAD] = 0.0
    while tokens.shape[1] < max_len and not finished.all():
        log_probs = ask(read, tokens, origin).double().log_softmax(-1).unflatten(0, (batch, beam))
        log_probs = torch.where(finished[..., None], stay, log_probs)
        scores, chosen = (scores[..., None] + log_probs).flatten(1).topk(beam)
        parent, token = chosen // VOCAB, chosen % VOCAB
        rows = (first_row + parent).flatten()
        tokens = torch.cat([tokens[rows], token.view(-1, 1)], 1)
        histories = {"right": rows, "not": torch.arange(batch * beam), "without-offset": parent.flatten()}
        history = histories[reordered]
        read = torch.cat([read[history], token.view(-1, 1)], 1)
        origin = torch.cat([origin[history], own], 1)
        was_finished = finished.gather(1, parent)
        lengths = (lengths.gather(1, parent) if lengths_move else lengths) + ~was_finished
        finished = was_finished | (token == EOS)
    best = (scores / ((5 + lengths) / 6) ** length_penalty).argmax(1, keepdim=True)
    return tokens[(first_row + best).flatten()]


# Looking at ids


def widened(ids: Tensor, width: int) -> Tensor:
    """With <pad> up to a width: whether it stands at the end of all rows is left open."""
    if ids.dim() != 2:
        fail(f"The ids have {ids.dim()} axes, expected two: (batch, length).")
    wide = torch.full((ids.shape[0], max(width, ids.shape[1])), PAD)
    wide[:, : ids.shape[1]] = ids
    return wide


def expect_ids(returned: Any, right: Tensor, wrong: dict[str, Any], max_len: int) -> None:
    """The ids are the right ones."""
    ids = expect(returned, "the ids", dims=DIMS).tensor()
    if ids.dim() == 2 and not ids.is_floating_point() and len(ids) == len(right):
        ids = widened(ids, max_len)

    def wide(candidate: Any) -> Any:
        return lambda: widened(candidate() if callable(candidate) else candidate, max_len)

    expect(ids, "the ids", dims=DIMS).equals(
        widened(right, max_len), mistakes={code: wide(candidate) for code, candidate in wrong.items()}
    )


def sources(draw: Any, side: str) -> Tensor:
    """Four sources, padded on one side."""
    return draw.tokens([6, 3, 5, 2], vocab=SRC_VOCAB, side=side)


def writes_greedily(
    submission: Any, draw: Any, norm_first: bool = True, side: str = "right", telling: Sequence[str] = ()
) -> tuple[Translator, Tensor]:
    """A check: greedy_decode_cached writes what the model's own forward finds likeliest; `telling` mistakes show."""
    max_len = 8
    favours = {"pad": 2.0} if "target-padding-attended" in telling else {}
    while True:
        translator, src = Translator(submission, draw, norm_first, **favours), sources(draw, side)
        right, margin = greedy(translator.logits(src), 4, max_len)
        # <pad> that was written, with other tokens behind it, where it should tell something.
        inside = bool(((right[:, :-1] == PAD) & (right[:, 1:] != PAD)).any())
        if margin < 1e-4 or (favours and not inside):
            continue
        wrong = {
            code: cache(lambda ask=ask: greedy(ask(), 4, max_len)[0])
            for code, ask in translator.wrong(src).items()
        }
        # What should tell something is neither right nor what another mistake writes.
        if all(
            not torch.equal(widened(wrong[code](), max_len), widened(ids, max_len))
            for code in telling
            for ids in (right, *(other() for name, other in wrong.items() if name != code))
        ):
            break
    expect_ids(submission.greedy_decode_cached(translator.model, src, max_len), right, wrong, max_len)
    return translator, src


def translates_another(submission: Any, draw: Any, translator: Translator, src: Tensor) -> None:
    """A check: a second source of the same shape gets its own translation."""
    max_len = 8
    first, _ = greedy(translator.logits(src), 4, max_len)
    while True:
        other = torch.where(src == PAD, PAD, draw.integers(3, SRC_VOCAB, *src.shape))
        right, margin = greedy(translator.logits(other), 4, max_len)
        if margin > 1e-4 and not torch.equal(widened(right, max_len), widened(first, max_len)):
            break
    returned = submission.greedy_decode_cached(translator.model, other, max_len)
    expect_ids(returned, right, {"memory-of-another-call": first}, max_len)


def searches(
    submission: Any, draw: Any, beam: int = 3, length_penalty: float = 0.6, telling: bool = True
) -> None:
    """A check: beam_search_cached finds what a search without a cache finds; `telling`, where mistakes show too."""
    max_len = 8
    # Where mistakes should show nothing ends, for it depends on details what they make of <pad>.
    favours = {"eos": -100.0, "pad": -100.0} if telling else {"eos": -0.5}
    while True:
        translator, src = Translator(submission, draw, sharpness=1.5, **favours), sources(draw, "left")
        ask = translator.logits(src, beam)

        def found(reordered: str, ask: Next = ask) -> Tensor:
            return beam_search(ask, 4, max_len, beam, length_penalty, reordered)

        right, kept, mixed = found("right"), found("not"), found("without-offset")
        unmoved = beam_search(ask, 4, max_len, beam, length_penalty, lengths_move=False)
        texts = [str(widened(ids, max_len).tolist()) for ids in (right, kept, mixed, unmoved)]
        if len(set(texts[:3])) == 3 if telling else length_penalty == 0 or texts[3] != texts[0]:
            break
    returned = submission.beam_search_cached(
        translator.model, src, max_len, beam=beam, length_penalty=length_penalty
    )
    wrong = {"beam-cache-not-reordered": kept, "beam-cache-of-other-source": mixed}
    expect_ids(returned, right, wrong, max_len)


def reads_once(submission: Any, draw: Any, decode: Any, beam: int = 1) -> None:
    """A check: one row through each projection of the decoder a step; the source is read once.

    `decode(model, src, max_len)` calls the exercise inside `submission.operators`.
    """
    translator = Translator(submission, draw, eos=-100.0)
    batch = 2
    steps = {}
    for src_len, lengths in ((3, (3, 4, 8, 9)), (7, (3, 4))):
        src = draw.integers(4, SRC_VOCAB, batch, src_len)
        rows = [rows_of(decode(translator.model, src, length), {D_MODEL, D_FF}, VOCAB) for length in lengths]
        steps[src_len] = (rows[1] - rows[0], rows[-1] - rows[-2])
    if min(steps[3] + steps[7]) <= 0:
        fail(*UNCOUNTED)
    facts = {"early": steps[3][0], "late": steps[3][1], "short": 3, "long": 7}
    if steps[7][0] > steps[3][0]:
        mistake("source-read-again", **{**facts, "rows_short": steps[3][0], "rows_long": steps[7][0]})
    most = batch * beam * (8 * LAYERS + 1)
    if steps[3][1] > steps[3][0] or steps[3][1] > most:
        mistake("target-read-again", **facts)


def restores_mode(submission: Any, draw: Any, decode: Any, drops: str = "decoding-drops") -> None:
    """A check: eval mode inside, the old mode afterwards. `drops` is the mistake of another mode inside."""
    while True:
        translator, src = Translator(submission, draw), sources(draw, "right")
        right, margin = greedy(translator.logits(src), 4, 8)
        if margin > 1e-4:
            break
    model = translator.model
    for training in (True, False):
        model.train(training)
        ids = expect(decode(model, src, 8), "the ids", dims=DIMS).tensor()
        if not torch.equal(widened(ids, 8), widened(right, 8)) and training:
            model.eval()
            ids = expect(decode(model, src, 8), "the ids", dims=DIMS).tensor()
            if torch.equal(widened(ids, 8), widened(right, 8)):
                mistake(drops)
        expect_ids(ids, right, {}, 8)
        expect(model.training, "model.training after decoding").equals(training)
