"""Checks of decoding, stage 6, that learners may read."""

from __future__ import annotations

import torch

from grader.checks import check, expect, fail

from .bleu import bleu, corpora, wrong_bleus
from .decoders import (
    beam_search,
    expect_eval_mode,
    expect_one_encoding,
    expect_rows,
    expect_texts,
    greedy_decode,
    sample,
)
from .drawing import expect_distribution
from .tables import model_of
from .toys import detour_toys, length_toys

# greedy_decode


@check("greedy_decode", points=3)
def test_greedy_writes_until_eos(submission, draw):
    """greedy_decode begins with <sos>, writes the likeliest token until <eos> or max_len, then <pad>."""
    expect_texts(submission, draw, greedy_decode)


@check("greedy_decode", points=1)
def test_greedy_encodes_once(submission, draw):
    """greedy_decode runs the encoder once, not at every step."""
    expect_one_encoding(submission, draw, greedy_decode)


@check("greedy_decode", points=2)
def test_greedy_puts_the_model_in_eval_mode(submission, draw):
    """greedy_decode runs in eval mode without gradients, and leaves the model in the mode it was in."""
    expect_eval_mode(submission, draw, greedy_decode)


# beam_search


@check("beam_search", points=2)
def test_beam_search_writes_until_eos(submission, draw):
    """beam_search begins with <sos>, writes until <eos> or max_len, then <pad>."""
    expect_texts(submission, draw, beam_search)


@check("beam_search", points=3)
def test_beam_search_finds_what_greedy_misses(submission, draw):
    """Two hypotheses by their summed log-probabilities find sentences whose first token is not the likeliest."""
    tables, search, right, wrong = detour_toys(draw)
    model, src = model_of(submission, draw, tables)

    def run(src):
        return submission.beam_search(model, src, search.max_len, beam=search.beam, length_penalty=0.0)

    expect_rows(run(src), right, search.max_len, wrong, alone=lambda row: run(src[row : row + 1]))


@check("beam_search", points=3)
def test_length_penalty_divides_the_final_score(submission, draw):
    """The winner has the largest sum of log-probabilities divided by ((5 + n) / 6) ** length_penalty."""
    tables, search, right, wrong = length_toys(draw)
    model, src = model_of(submission, draw, tables)

    def run(src):
        power = search.length_penalty
        return submission.beam_search(model, src, search.max_len, beam=search.beam, length_penalty=power)

    expect_rows(run(src), right, search.max_len, wrong, alone=lambda row: run(src[row : row + 1]))


# sample


@check("sample", points=2)
def test_sampling_writes_until_eos(submission, draw):
    """sample begins with <sos>, writes until <eos> or max_len, then <pad>."""
    expect_texts(submission, draw, sample)


@check("sample", points=3)
def test_temperature_divides_the_logits(submission, draw):
    """sample draws each token with the probability softmax(logits / temperature)."""
    for temperature in (1.0, 0.5, 2.5):
        expect_distribution(submission, draw, temperature)


# corpus_bleu


@check("corpus_bleu", points=2)
def test_bleu_is_that_of_sacrebleu(submission, draw):
    """corpus_bleu gives sacrebleu's score of the whole corpus, from 0 to 100."""
    hypotheses, references = corpora(draw)
    score, _ = submission.corpus_bleu(hypotheses, references)
    value = expect(score, "the score").value()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        fail(
            f"The score is {value!r:.80}, expected a number from 0 to 100.", "Return `result.score` as it is."
        )
    right = torch.tensor(bleu(hypotheses, references)[0], dtype=torch.float64)
    actual = torch.tensor(float(value), dtype=torch.float64)
    expect(actual, "the score").equals(right, mistakes=wrong_bleus(hypotheses, references))


@check("corpus_bleu", points=1)
def test_bleu_comes_with_its_signature(submission, draw):
    """Beside the score stands the signature of sacrebleu, as text."""
    hypotheses, references = corpora(draw)
    _, signature = submission.corpus_bleu(hypotheses, references)
    expect(signature, "the signature").equals(bleu(hypotheses, references)[1])
