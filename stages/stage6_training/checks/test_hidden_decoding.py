"""Checks of decoding, stage 6, that are held back from a class."""

from __future__ import annotations

from dataclasses import replace

from grader.checks import check, expect_error

from .bleu import corpora
from .decoders import (
    beam_search,
    expect_eval_mode,
    expect_nothing_suppressed,
    expect_one_encoding,
    expect_rows,
    expect_settings_refused,
    greedy_decode,
    sample,
)
from .drawing import expect_generator_used
from .searching import Search, full_search, greedy, telling, wrong_search
from .searching import beam_search as search_tables
from .tables import EOS, PAD, certain, model_of, random_table, words
from .toys import random_toys
from .translators import asked, forgetting, greedy_task, sources, translator

# greedy_decode


@check("greedy_decode", points=3)
def test_greedy_agrees_with_forward(submission, draw):
    """With a Transformer and padded sources, greedy_decode writes what the model's own forward finds likeliest."""
    model, src, right = greedy_task(submission, draw, "right", max_len=7)

    def wrong():
        without_masks = forgetting(model, src).items()
        return telling(right, {code: [greedy(one, 7) for one in ways] for code, ways in without_masks})

    expect_rows(submission.greedy_decode(model, src, 7), right, 7, wrong)
    src = sources(draw, "left")
    expect_rows(submission.greedy_decode(model, src, 7), greedy(asked(model, src), 7), 7)


@check("greedy_decode", points=2)
def test_greedy_suppresses_no_token(submission, draw):
    """greedy_decode writes <unk>, <sos> and <pad> too, where they are the likeliest."""
    expect_nothing_suppressed(submission, draw, greedy_decode)


@check("greedy_decode", points=1)
def test_greedy_refuses_max_len_below_1(submission, draw):
    """greedy_decode raises ValueError where max_len is below 1."""
    expect_settings_refused(submission, draw, greedy_decode)


# beam_search


@check("beam_search", points=3)
def test_beam_search_keeps_the_best_three(submission, draw):
    """In random tables, three hypotheses for each source find what the rules say, with the usual penalty of 0.6."""
    tables, search, right, wrong = random_toys(draw)
    model, src = model_of(submission, draw, tables)

    def run(src):
        return submission.beam_search(model, src, search.max_len, beam=search.beam)

    expect_rows(run(src), right, search.max_len, wrong, alone=lambda row: run(src[row : row + 1]))


@check("beam_search", points=2)
def test_a_wide_beam_finds_the_best_of_all(submission, draw):
    """A beam that is wide enough, wider than the vocabulary too, finds what a search through everything finds."""
    for power in (0.0, 1.5):
        search = Search(max_len=4, beam=80, length_penalty=power)
        right = [[PAD]]
        while not all(EOS in row for row in right):  # whether an unfinished hypothesis may win is left open
            tables = [random_table(draw, 3, words(draw)[:3]) for _ in range(2)]
            right = [full_search(table, search.max_len, power) for table in tables]
        model, src = model_of(submission, draw, tables)
        expect_rows(
            submission.beam_search(model, src, search.max_len, beam=search.beam, length_penalty=power),
            right,
            search.max_len,
            telling(right, wrong_search(tables, search)),
        )


@check("beam_search", points=1)
def test_a_beam_of_one_is_greedy(submission, draw):
    """beam_search with beam=1 writes what greedy_decode writes, whatever the length penalty."""
    tables = [random_table(draw, 4, words(draw)[:3]) for _ in range(4)]
    model, src = model_of(submission, draw, tables)
    for power in (0.0, 2.0):
        expect_rows(
            submission.beam_search(model, src, 8, beam=1, length_penalty=power),
            greedy(tables, 8),
            8,
            telling(greedy(tables, 8), wrong_search(tables, Search(8, 1, power))),
        )


@check("beam_search", points=2)
def test_beam_search_agrees_with_forward(submission, draw):
    """With a Transformer and padded sources, beam_search goes by the probabilities of the model's own forward."""
    search = Search(max_len=6, beam=3, length_penalty=0.6)
    while True:
        model, src = translator(submission, draw), sources(draw, "left")
        several = asked(model, src)
        found = search_tables(several, search)
        finished_first = search_tables(several, replace(search, wrong="finished-first"))
        if found.margin > 1e-4 and found.rows == finished_first.rows:
            break

    def run(src):
        return submission.beam_search(model, src, search.max_len, search.beam, search.length_penalty)

    def wrong():
        without_masks = {
            code: [search_tables(models, search).rows for models in ways]
            for code, ways in forgetting(model, src).items()
        }
        return telling(found.rows, {**without_masks, **wrong_search(several, search)})

    expect_rows(
        run(src),
        found.rows,
        search.max_len,
        wrong,
        alone=lambda row: run(src[row : row + 1]),
        alone_first=True,
    )


@check("beam_search", points=1)
def test_beam_search_suppresses_no_token(submission, draw):
    """beam_search writes <unk>, <sos> and <pad> too, where they are the likeliest."""
    expect_nothing_suppressed(submission, draw, beam_search)


@check("beam_search", points=1)
def test_beam_search_encodes_once(submission, draw):
    """beam_search runs the encoder once, not at every step."""
    expect_one_encoding(submission, draw, beam_search, beam=3)


@check("beam_search", points=1)
def test_beam_search_puts_the_model_in_eval_mode(submission, draw):
    """beam_search runs in eval mode without gradients, and leaves the model in the mode it was in."""
    expect_eval_mode(submission, draw, beam_search)


@check("beam_search", points=1)
def test_beam_search_refuses_settings_below_1(submission, draw):
    """beam_search raises ValueError where max_len or beam is below 1."""
    expect_settings_refused(submission, draw, beam_search)
    model, src = model_of(submission, draw, [certain(draw, [5, EOS])])
    expect_error(
        ValueError,
        lambda: submission.beam_search(model, src, 5, beam=0),
        mentions=["0"],
    )


# sample


@check("sample", points=2)
def test_a_generator_reproduces_samples(submission, draw):
    """sample takes all its random numbers from the generator it is given."""
    expect_generator_used(submission, draw)


@check("sample", points=1)
def test_sampling_suppresses_no_token(submission, draw):
    """sample writes <unk>, <sos> and <pad> too, where they are all but certain."""
    expect_nothing_suppressed(submission, draw, sample)


@check("sample", points=1)
def test_sampling_encodes_once(submission, draw):
    """sample runs the encoder once, not at every step."""
    expect_one_encoding(submission, draw, sample)


@check("sample", points=1)
def test_sampling_puts_the_model_in_eval_mode(submission, draw):
    """sample runs in eval mode without gradients, and leaves the model in the mode it was in."""
    expect_eval_mode(submission, draw, sample)


@check("sample", points=1)
def test_sampling_refuses_bad_settings(submission, draw):
    """sample raises ValueError where max_len is below 1 or the temperature is negative."""
    expect_settings_refused(submission, draw, sample)
    model, src = model_of(submission, draw, [certain(draw, [5, EOS])])
    expect_error(
        ValueError,
        lambda: submission.sample(model, src, 5, temperature=-0.5),
        mentions=["-0.5"],
    )


# corpus_bleu


@check("corpus_bleu", points=1)
def test_bleu_wants_one_reference_each(submission, draw):
    """corpus_bleu raises ValueError where there are not as many references as hypotheses."""
    hypotheses, references = corpora(draw)
    for wanting in (references[:-1], [*references, "one more"]):
        expect_error(
            ValueError,
            lambda wanting=wanting: submission.corpus_bleu(hypotheses, wanting),
            mentions=[str(len(hypotheses)), str(len(wanting))],
            mistake="bleu-lengths-unchecked",
            facts={"hypotheses": len(hypotheses), "references": len(wanting)},
        )
