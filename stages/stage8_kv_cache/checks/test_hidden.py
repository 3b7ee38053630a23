"""The checks of stage 8 that are held back from a class."""

from __future__ import annotations

import torch

from grader.checks import check, expect, expect_error

from . import attentions, caches, texts, translators
from .caches import BATCH, D_K, HEADS
from .comparing import finds_the_difference, hands_on_the_mask, has_the_ratio_the_right_way_round
from .gpts import LEARNED, ROTARY, VOCAB, tiny_gpt
from .parts import made_of

# KVCache ---------------------------------------------------------------------------------------------------


@check("KVCache", points=3)
def test_reorder_moves_rows(submission, draw):
    """reorder lets every row go on with the keys and values of the row that its index names."""
    with made_of(submission, draw, caches.appends):
        caches.reorders(submission, draw)


@check("KVCache", points=2)
def test_truncate_forgets(submission, draw):
    """truncate forgets the last tokens, and refuses a length that the cache does not have."""
    with made_of(submission, draw, caches.appends):
        caches.truncates(submission, draw)
        cache = caches.new_cache(submission, draw.exact)
        cache.append(*caches.chunks(draw, [4])[0])
        expect_error(ValueError, lambda: cache.truncate(6), mentions=["4", "6"])
        expect_error(ValueError, lambda: cache.truncate(-1), mentions=["-1"])


@check("KVCache", points=1)
def test_keys_that_do_not_fit_are_refused(submission, draw):
    """Keys or values of another batch size, other heads or another d_k raise ValueError."""
    with made_of(submission, draw, caches.appends):
        cache = caches.new_cache(submission, draw.exact)
        fitting = draw.normal(BATCH, HEADS, 2, D_K, dtype=draw.exact)
        for shape in ((1, HEADS, 2, D_K), (BATCH, 1, 2, D_K), (BATCH, HEADS, 2, 1), (BATCH, HEADS, 1, D_K)):
            other = draw.normal(*shape, dtype=draw.exact)
            pairs = [(fitting, other)] if shape[2] == 1 else [(other, other), (fitting, other)]
            for pair in pairs:
                expect_error(
                    ValueError,
                    lambda pair=pair: cache.append(*pair),
                    mistake="cache-repeats-what-does-not-fit",
                    facts={"shape": shape},
                )


@check("KVCache", points=1)
def test_cache_has_dtype_and_first_length(submission, draw):
    """A new cache has length 0, and keeps the dtype it was made with."""
    for dtype in (torch.float32, torch.float64) if draw.exact == torch.float64 else (torch.float32,):
        cache = caches.new_cache(submission, dtype)
        expect(cache.length, "cache.length").equals(0)
        key, value = (draw.normal(BATCH, HEADS, 2, D_K, dtype=dtype) for _ in range(2))
        (found, _), after = submission.inputs_after(cache.append, key, value)
        expect(found, "the keys").equals(key)
        expect(after[0], "the key after append").equals(key)


# CachedAttention -------------------------------------------------------------------------------------------


@check("CachedAttention", points=3)
def test_a_text_read_in_uneven_chunks(submission, draw):
    """A text read in blocks of any size gives the rows of one causal attention."""
    with made_of(submission, draw, caches.appends):
        for lengths in ([3, 3, 2], [1, 4, 3], [5, 1, 2]):
            attentions.in_chunks(submission, draw, lengths)


@check("CachedAttention", points=3)
def test_mask_hides_padding_in_the_cache(submission, draw):
    """A mask hides padding in the cache too, and later tokens stay hidden."""
    with made_of(submission, draw, caches.appends, uneven):
        attentions.in_chunks(submission, draw, [5, 1, 2], padding=[3, 0])


def uneven(submission, draw):
    """Chunks without a mask."""
    attentions.in_chunks(submission, draw, [5, 3])


@check("CachedAttention", points=2)
def test_new_tokens_alone_are_projected(submission, draw):
    """Only new tokens go through the projections, each once."""
    with made_of(submission, draw, caches.appends):
        attentions.projects_new_tokens_only(submission, draw)


# generate_cached -------------------------------------------------------------------------------------------


@check("generate_cached", points=4)
def test_generate_cached_with_rotary_positions(submission, draw):
    """With rotary positions, RMS norm and SwiGLU, generate_cached writes what is likeliest without a cache."""
    with made_of(submission, draw, caches.appends, caches.truncates, learned):
        texts.writes(submission, draw, ROTARY)


def learned(submission, draw):
    """The plain kind of GPT."""
    texts.writes(submission, draw, LEARNED)


@check("generate_cached", points=4)
def test_padded_prompts_get_what_they_get_alone(submission, draw):
    """Prompts of different length, padded on the left, get what each gets alone."""
    with made_of(submission, draw, caches.appends, caches.truncates, learned):
        texts.writes_padded(submission, draw, LEARNED)
        texts.writes_padded(submission, draw, ROTARY)


@check("generate_cached", points=3)
def test_the_window_slides(submission, draw):
    """Beyond block_size the window moves on, as in generate, also for padded prompts."""
    with made_of(submission, draw, caches.appends, caches.truncates, learned, padded):
        texts.slides(submission, draw, LEARNED)
        texts.slides(submission, draw, ROTARY)


def padded(submission, draw):
    """Padding inside block_size."""
    texts.writes_padded(submission, draw, LEARNED)


@check("generate_cached", points=4)
def test_each_token_is_read_once(submission, draw):
    """Each further token sends one row through each projection, however long the text is."""
    with made_of(submission, draw, learned):
        texts.reads_once(submission, draw, LEARNED)
        texts.reads_once(submission, draw, ROTARY)


@check("generate_cached", points=2)
def test_sampling_draws_what_generate_draws(submission, draw):
    """With temperature, top_k, top_p and a generator, generate_cached draws what generate draws."""
    with made_of(submission, draw, caches.appends, caches.truncates, learned):
        texts.samples(submission, draw)


@check("generate_cached", points=2)
def test_generate_cached_refuses_bad_settings(submission, draw):
    """An empty prompt, a row of padding alone and settings out of range raise ValueError."""
    gpt = tiny_gpt(submission, draw, LEARNED)
    prompt = draw.integers(1, VOCAB, 2, 4)
    for options, word in (
        ({"temperature": -0.5}, "-0.5"),
        ({"top_k": 0}, "0"),
        ({"top_p": 1.5}, "1.5"),
        ({"top_p": 0.0}, "0"),
        ({"max_new_tokens": -2}, "-2"),
    ):
        arguments = {"max_new_tokens": 3, **options}
        expect_error(
            ValueError,
            lambda a=arguments: submission.generate_cached(gpt.handle, prompt, **a),
            mentions=[word],
        )
    expect_error(ValueError, lambda: submission.generate_cached(gpt.handle, prompt[:, :0], 3))
    prompt[1] = 0
    expect_error(
        ValueError,
        lambda: submission.generate_cached(gpt.handle, prompt, 3, pad_id=0),
        mentions=["1"],
    )


@check("generate_cached", points=1)
def test_generate_cached_restores_the_mode(submission, draw):
    """generate_cached leaves the prompt and the mode of the model as they were; 0 new tokens give the prompt."""
    gpt = tiny_gpt(submission, draw, LEARNED)
    prompt = draw.integers(1, VOCAB, 2, 4)
    for training in (True, False):
        gpt.handle.train(training)
        submission.generate_cached(gpt.handle, prompt, 2)
        expect(gpt.handle.training, "model.training afterwards").equals(training)
    returned, after = submission.inputs_after(submission.generate_cached, gpt.handle, prompt, 0)
    expect(returned, "the texts with 0 new tokens").equals(prompt)
    expect(after[0], "the prompt afterwards").equals(prompt)


# greedy_decode_cached --------------------------------------------------------------------------------------


@check("greedy_decode_cached", points=2)
def test_greedy_cached_with_post_norm(submission, draw):
    """With a post-norm Transformer and sources padded on the left it is the same."""
    with made_of(submission, draw, caches.appends, greedily):
        translators.writes_greedily(submission, draw, False, "left", ["source-padding-attended"])


def greedily(submission, draw):
    """The plain kind of Transformer."""
    translators.writes_greedily(submission, draw, telling=translators.TELLING)


@check("greedy_decode_cached", points=2)
def test_written_padding_is_hidden(submission, draw):
    """A <pad> that a row has written is hidden from its later tokens."""
    with made_of(submission, draw, caches.appends, greedily):
        translators.writes_greedily(submission, draw, telling=["target-padding-attended"])


@check("greedy_decode_cached", points=4)
def test_greedy_cached_reads_once(submission, draw):
    """A step sends one row a sentence through each projection of the decoder, and the source is read once."""

    def decode(model, src, max_len):
        return submission.operators(submission.greedy_decode_cached, model, src, max_len)[1]

    with made_of(submission, draw, greedily, attentions.projects_new_tokens_only):
        translators.reads_once(submission, draw, decode)


@check("greedy_decode_cached", points=2)
def test_greedy_cached_in_eval_mode(submission, draw):
    """greedy_decode_cached runs in eval mode, restores the old one, and refuses a max_len below 1."""
    with made_of(submission, draw, caches.appends, greedily):
        translators.restores_mode(submission, draw, submission.greedy_decode_cached)
        model = translators.Translator(submission, draw).model
        src = translators.sources(draw, "right")
        expect_error(ValueError, lambda: submission.greedy_decode_cached(model, src, 0), mentions=["0"])


# beam_search_cached ----------------------------------------------------------------------------------------


@check("beam_search_cached", points=2)
def test_other_beams_find_the_same(submission, draw):
    """With two or five hypotheses and other penalties it is the same."""
    with made_of(submission, draw, caches.appends, caches.reorders, three):
        translators.searches(submission, draw, beam=2, length_penalty=0.0, telling=False)
        translators.searches(submission, draw, beam=5, length_penalty=1.5, telling=False)


def three(submission, draw):
    """Three hypotheses."""
    translators.searches(submission, draw)


@check("beam_search_cached", points=3)
def test_beam_cached_reads_once(submission, draw):
    """A step sends one row a hypothesis through each projection of the decoder, and the source is read once."""

    def decode(model, src, max_len):
        return submission.operators(submission.beam_search_cached, model, src, max_len, beam=3)[1]

    with made_of(submission, draw, three, attentions.projects_new_tokens_only):
        translators.reads_once(submission, draw, decode, beam=3)


@check("beam_search_cached", points=1)
def test_beam_cached_refuses_bad_settings(submission, draw):
    """beam_search_cached runs in eval mode, restores the old one, and refuses a beam or a max_len below 1."""

    def decode(model, src, max_len):
        return submission.beam_search_cached(model, src, max_len, beam=1)

    with made_of(submission, draw, caches.appends, three):
        translators.restores_mode(submission, draw, decode, "beam-drops")
    model = translators.Translator(submission, draw).model
    src = translators.sources(draw, "right")
    for options in ({"max_len": 0}, {"max_len": 5, "beam": 0}):
        expect_error(
            ValueError, lambda o=options: submission.beam_search_cached(model, src, **o), mentions=["0"]
        )


# compare_with_torch ----------------------------------------------------------------------------------------


@check("compare_with_torch", points=1)
def test_comparison_hands_on_the_mask(submission, draw):
    """Both attentions get the mask."""
    with made_of(submission, draw, finds_the_difference):
        hands_on_the_mask(submission, draw)


@check("compare_with_torch", points=2)
def test_ratio_is_yours_over_pytorchs(submission, draw):
    """The time ratio is your time over PyTorch's: a slow attention has a ratio above 1."""
    with made_of(submission, draw, finds_the_difference):
        has_the_ratio_the_right_way_round(submission, draw)
