"""Checks of stage 6 that train a real Transformer, small: what comes out must work, writing on its own.

Both use the submission's `train_epoch` alone: the model is stage 5's, decoding is done by a probe, and BLEU is
sacrebleu's. They take seconds where other checks take milliseconds, so `-k "not for_real"` leaves them out.

The slack, over ten seeds (one thread):

    reversal     350 steps     right 99.0 to 100 %, nine of ten at 99.5 or more; 95 % are needed
                 300 steps     99.0 to 100 % (three seeds);  200 steps: 74 to 98 %, too few
    sentences    40 epochs     BLEU 100.0 every time; 30 epochs the same (three seeds); more than 90 is needed

On a busy machine of two cores they took 10 and 3 seconds of computing time, and the whole of stage 6 took 32.
"""

from __future__ import annotations

from pathlib import Path

import sacrebleu
import torch

from grader.checks import check, expect, fail

from . import test_hidden as hidden
from .parts import made_of

STEPS, BATCH, LENGTHS, VOCAB = 350, 32, (4, 8), 14
NEEDED_ACCURACY = 0.95

PAIRS, EPOCHS, NEEDED_BLEU = 64, 40, 90.0
CORPUS = Path(__file__).resolve().parents[3] / "data" / "zh_en" / "pairs.tsv"


@check("train_epoch", points=3, seconds=40)
def test_for_real_reverses_fresh_sequences(submission, draw):
    """Trained by train_epoch on sequences and their reversals, a Transformer reverses new ones: 95 % without a flaw."""
    with made_of(submission, draw, *hidden.ACCUMULATION):
        probes = submission.probes
        model = probes.transformer(VOCAB, seed=draw.integer(0, 1 << 30))
        model.to(submission.device)
        optimizer = probes.adam(model)
        scheduler = probes.rise_and_fall(optimizer, peak=7e-3, warmup=STEPS // 10, steps=STEPS)
        batches = [reversals(draw, BATCH) for _ in range(STEPS)]
        submission.train_epoch(model, batches, optimizer, scheduler, device=submission.device)
        src, tgt = reversals(draw, 200)
        written = expect(probes.greedy(model, src, tgt.shape[1]), "what the model wrote").tensor(tgt.shape)
        right = ((written == tgt) | (tgt == 0)).all(1).double().mean().item()
        if right < NEEDED_ACCURACY:
            fail(
                f"After {STEPS} steps the model reversed {right:.0%} of 200 new sequences without a flaw, on its own; "
                f"expected at least {NEEDED_ACCURACY:.0%}.",
                "Mend the other checks of train_epoch first: they are exact, and name what is wrong.",
            )


@check("train_epoch", points=3, seconds=40)
def test_for_real_memorises_sentences(submission, draw):
    """Trained by train_epoch, with accumulation and label smoothing, a Transformer learns 64 translations by heart."""
    with made_of(submission, draw, *hidden.ACCUMULATION):
        probes, (src, tgt, references) = submission.probes, sentences(draw)
        model = probes.transformer(int(max(src.max(), tgt.max())) + 1, seed=draw.integer(0, 1 << 30))
        model.to(submission.device)
        optimizer = probes.adam(model)
        scheduler = probes.rise_and_fall(optimizer, peak=5e-3, warmup=10, steps=2 * EPOCHS)
        batches = list(zip(src.split(16), tgt.split(16)))
        for _ in range(EPOCHS):
            submission.train_epoch(
                model,
                batches,
                optimizer,
                scheduler,
                accumulate=2,
                device=submission.device,
                label_smoothing=0.1,
            )
        written = expect(probes.greedy(model, src, tgt.shape[1]), "what the model wrote").tensor(tgt.shape)
        score = sacrebleu.corpus_bleu(texts(written), [references], tokenize="none").score
        if score <= NEEDED_BLEU:
            fail(
                f"After {EPOCHS} epochs on {PAIRS} sentence pairs the model's own translations of them have BLEU "
                f"{score:.1f}; expected more than {NEEDED_BLEU:.0f}.",
                "Mend the other checks of train_epoch first: they are exact, and name what is wrong.",
            )


def reversals(draw, count):
    """Sources `a b c <eos>`, and targets `<sos> c b a <eos>`, of different lengths."""
    shortest, longest = LENGTHS
    bodies = draw.integers(4, VOCAB, count, longest + 1)
    lengths = draw.integers(shortest, longest + 1, count, 1)
    place = torch.arange(longest + 1)
    backwards = bodies.gather(1, (lengths - 1 - place).clamp(min=0))
    src, written = (
        body.where(place < lengths, torch.where(place == lengths, 2, 0)) for body in (bodies, backwards)
    )
    return src, torch.cat([torch.ones(count, 1, dtype=torch.int64), written], dim=1)


def sentences(draw):
    """Ids of 64 sentence pairs of the course, Chinese by characters and English by words, and the English texts."""
    lines = [line.split("\t") for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    chosen = [lines[index] for index in draw.permutation(len(lines))[:PAIRS].tolist()]
    chinese, english = [list(line[0]) for line in chosen], [line[1].split() for line in chosen]
    return ids(chinese), ids(english), [as_text(row) for row in ids(english).tolist()]


def ids(rows):
    """`(batch, longest)` ids with <sos>, <eos> and padding on the right."""
    known = {}
    coded = [[1, *(known.setdefault(token, 4 + len(known)) for token in row), 2] for row in rows]
    batch = torch.zeros(len(coded), max(map(len, coded)), dtype=torch.int64)
    for index, row in enumerate(coded):
        batch[index, : len(row)] = torch.tensor(row)
    return batch


def texts(written):
    """A text for each row of ids, which BLEU can compare: an id is a word."""
    return [as_text(row) for row in written.tolist()]


def as_text(row):
    """The ids up to <eos>, without <sos>."""
    end = row.index(2) if 2 in row else len(row)
    return " ".join(str(index) for index in row[1:end])
