"""The checks of stage 8 that learners may read."""

from __future__ import annotations

from grader.checks import check, expect_error

from . import caches
from .attentions import in_chunks, without_cache
from .comparing import finds_the_difference
from .gpts import LEARNED
from .parts import made_of
from .texts import writes
from .translators import TELLING, searches, translates_another, writes_greedily


@check("KVCache", points=3)
def test_append_returns_everything_so_far(submission, draw):
    """append returns all keys and values so far, oldest first, however they came in."""
    caches.appends(submission, draw)


@check("KVCache", points=2)
def test_a_full_cache_says_so(submission, draw):
    """Tokens that do not fit any more raise ValueError, and the cache stays as it was."""
    cache = caches.new_cache(submission, draw.exact, max_len=5)
    parts = caches.chunks(draw, [3, 3, 2])
    cache.append(*parts[0])
    expect_error(
        ValueError, lambda: cache.append(*parts[1]), mentions=["5", "3"], mistake="cache-full-unnoticed"
    )
    caches.expect_appended(cache, parts[2:], parts[0])


@check("CachedAttention", points=3)
def test_without_a_cache_it_is_multi_head_attention(submission, draw):
    """Without a cache it is stage 2's MultiHeadAttention, with the same weights."""
    without_cache(submission, draw)


@check("CachedAttention", points=3)
def test_a_text_read_at_once_or_token_by_token(submission, draw):
    """A text read at once or token by token gives the rows of one causal attention."""
    with made_of(submission, draw, caches.appends):
        in_chunks(submission, draw, [8])
        in_chunks(submission, draw, [1] * 8)


@check("generate_cached", points=4)
def test_generate_cached_writes_what_generate_writes(submission, draw):
    """With learned positions, generate_cached writes the likeliest tokens, as without a cache."""
    with made_of(submission, draw, caches.appends, caches.truncates):
        writes(submission, draw, LEARNED)


@check("greedy_decode_cached", points=3)
def test_greedy_cached_agrees_with_forward(submission, draw):
    """greedy_decode_cached writes what the Transformer's own forward finds likeliest."""
    with made_of(submission, draw, caches.appends):
        translates_another(submission, draw, *writes_greedily(submission, draw, telling=TELLING))


@check("beam_search_cached", points=3)
def test_beam_cached_finds_what_the_search_finds(submission, draw):
    """beam_search_cached finds what a search without a cache finds, for several sources at once."""
    with made_of(submission, draw, caches.appends, caches.reorders):
        searches(submission, draw)


@check("compare_with_torch", points=3)
def test_comparison_finds_the_difference(submission, draw):
    """compare_with_torch gives the largest absolute difference, as a float."""
    finds_the_difference(submission, draw)
