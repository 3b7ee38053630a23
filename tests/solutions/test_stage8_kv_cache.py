"""Stage 8: cached is uncached, row for row and token for token; and only new rows go through the projections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from solutions.stage1_attention.attention import causal_mask, padding_mask
from solutions.stage2_multi_head.multi_head import MultiHeadAttention
from solutions.stage5_decoder.transformer import Transformer
from solutions.stage6_training.decoding import beam_search, greedy_decode
from solutions.stage7_gpt.generation import generate
from solutions.stage7_gpt.gpt import GPT, GPTConfig, load_gpt2
from solutions.stage8_kv_cache.cached_decoding import (
    beam_search_cached,
    compare_with_torch,
    generate_cached,
    greedy_decode_cached,
)
from solutions.stage8_kv_cache.kv_cache import CachedAttention, KVCache

GPT2 = {"position": "learned", "norm": "layer", "mlp": "gelu"}
LLAMA = {"position": "rotary", "norm": "rms", "mlp": "swiglu", "bias": False}
KINDS = pytest.mark.parametrize("kind", [GPT2, LLAMA], ids=["gpt2", "llama"])


def randomised(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Random weights with which attention matters, in double precision and eval mode."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 1.5 * parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
            is_norm = "norm" in name and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * scale + is_norm)
    return model.double().eval()


def gpt(kind: dict[str, object], block_size: int = 16, layers: int = 2) -> GPT:
    return randomised(GPT(GPTConfig(17, block_size, 12, 3, layers, **kind)), seed=3)


# KVCache


def filled(length: int = 4, max_len: int = 6) -> tuple[KVCache, Tensor, Tensor]:
    cache = KVCache(3, 2, max_len, 5, dtype=torch.float64)
    key, value = torch.randn(2, 3, 2, length, 5, dtype=torch.float64)
    cache.append(key, value)
    return cache, key, value


def test_append_returns_everything_so_far() -> None:
    cache, key, value = filled()
    more = torch.randn(2, 3, 2, 2, 5, dtype=torch.float64)
    keys, values = cache.append(*more)
    assert torch.equal(keys, torch.cat([key, more[0]], 2))
    assert torch.equal(values, torch.cat([value, more[1]], 2))
    assert cache.length == 6


def test_a_full_cache_stays_as_it_was() -> None:
    cache, key, _ = filled()
    with pytest.raises(ValueError, match="max_len = 6 and holds 4 tokens: 3 more"):
        cache.append(*torch.randn(2, 3, 2, 3, 5, dtype=torch.float64))
    keys, _ = cache.append(*torch.randn(2, 3, 2, 1, 5, dtype=torch.float64))
    assert torch.equal(keys[:, :, :4], key)
    assert cache.length == 5


@pytest.mark.parametrize("shape", [(1, 2, 1, 5), (3, 1, 1, 5), (3, 2, 1, 1)])
def test_keys_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    cache, _, _ = filled()
    right, wrong = torch.randn(3, 2, 1, 5), torch.randn(shape)
    for key, value in ((wrong, right), (right, wrong)):
        with pytest.raises(ValueError, match="do not fit"):
            cache.append(key, value)


@pytest.mark.parametrize("sizes", [(0, 2, 4, 5), (1, 2, 0, 5)])
def test_a_cache_without_room_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is 0, and should be at least 1"):
        KVCache(*sizes)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 1, 0]])
def test_reorder_fetches_rows(order: list[int]) -> None:
    cache, key, value = filled()
    cache.reorder(torch.tensor(order))
    more = torch.randn(2, 3, 2, 1, 5, dtype=torch.float64)
    keys, values = cache.append(*more)
    assert torch.equal(keys, torch.cat([key[order], more[0]], 2))
    assert torch.equal(values, torch.cat([value[order], more[1]], 2))
    with pytest.raises(ValueError, match=r"\(2,\).*3 rows"):
        cache.reorder(torch.tensor([0, 1]))


def test_truncate_forgets() -> None:
    cache, key, _ = filled()
    cache.truncate(1)
    more = torch.randn(2, 3, 2, 2, 5, dtype=torch.float64)
    assert torch.equal(cache.append(*more)[0], torch.cat([key[:, :, :1], more[0]], 2))
    for length in (-1, 4):
        with pytest.raises(ValueError, match=f"holds 3 tokens and cannot be cut to {length}"):
            cache.truncate(length)


# CachedAttention


def attentions() -> tuple[CachedAttention, MultiHeadAttention]:
    plain = randomised(MultiHeadAttention(12, 3))
    cached = CachedAttention(12, 3).double().eval()
    cached.load_state_dict(plain.state_dict())
    return cached, plain


def test_without_a_cache_it_is_multi_head_attention() -> None:
    cached, plain = attentions()
    x, other, value = (torch.randn(2, length, 12).double() for length in (5, 7, 7))
    mask = torch.rand(2, 1, 5, 7) < 0.7
    for own, theirs in (((x,), (x, x, x)), ((x, other), (x, other, other)), ((x, other, value, mask),) * 2):
        for one, two in zip(cached(*own), plain(*theirs)):
            assert torch.equal(one, two)
    with pytest.raises(ValueError, match="10.*3"):
        CachedAttention(10, 3)


@pytest.mark.parametrize("lengths", [[8], [1] * 8, [5, 1, 1, 1], [3, 3, 2]])
@pytest.mark.parametrize("padding", [[0, 0], [2, 0]])
def test_chunks_give_the_rows_of_the_whole(lengths: list[int], padding: list[int]) -> None:
    cached, plain = attentions()
    x = torch.randn(2, 8, 12).double()
    real = (torch.arange(8) >= torch.tensor(padding)[:, None])[:, None, None]
    output, weights = plain(x, x, x, causal_mask(8) & real)
    cache, end = KVCache(2, 3, 11, 4, dtype=torch.float64), 0
    for chunk in x.split(lengths, 1):
        start, end = end, end + chunk.shape[1]
        found, found_weights = cached(chunk, mask=real[..., :end], cache=cache)
        rows = slice(max(start, max(padding)), end)
        torch.testing.assert_close(found[:, rows.start - start :], output[:, rows])
        torch.testing.assert_close(found_weights, weights[:, :, start:end, :end])


def test_a_mask_that_does_not_fit_names_both_shapes() -> None:
    cached, _ = attentions()
    cache = KVCache(2, 3, 9, 4, dtype=torch.float64)
    cached(torch.randn(2, 3, 12).double(), cache=cache)
    with pytest.raises(ValueError, match=r"\(2, 1, 1, 4\).*\(2, 5\)"):
        cached(torch.randn(2, 2, 12).double(), mask=torch.ones(2, 1, 1, 4), cache=cache)


# generate_cached


@KINDS
@pytest.mark.parametrize("new", [0, 1, 9, 20])
def test_generate_cached_is_generate(kind: dict[str, object], new: int) -> None:
    model = gpt(kind)
    prompt = torch.randint(1, 17, (3, 5))
    for settings in ({"temperature": 0}, {"temperature": 1.3, "top_k": 9, "top_p": 0.9}):
        expected = generate(model, prompt, new, generator=torch.Generator().manual_seed(1), **settings)
        found = generate_cached(model, prompt, new, generator=torch.Generator().manual_seed(1), **settings)
        assert torch.equal(found, expected)


@KINDS
def test_padded_prompts_get_what_they_get_alone(kind: dict[str, object]) -> None:
    model, pad = gpt(kind), 3
    prompt = torch.randint(4, 17, (3, 9))
    padding = [4, 2, 6]
    for row, count in enumerate(padding):
        prompt[row, :count] = pad
    prompt[1, 5] = pad  # a token like any other
    found = generate_cached(model, prompt, 20, temperature=0, pad_id=pad)
    assert torch.equal(found[:, :9], prompt)
    for row, count in enumerate(padding):
        alone = generate(model, prompt[row : row + 1, count:], 20, temperature=0)
        assert torch.equal(found[row : row + 1, count:], alone)


def test_a_prompt_longer_than_the_window() -> None:
    model = gpt(GPT2, block_size=6)
    prompt = torch.randint(1, 17, (2, 9))
    assert torch.equal(
        generate_cached(model, prompt, 4, temperature=0), generate(model, prompt, 4, temperature=0)
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": -0.5}, "temperature is -0.5"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0, "temperature": 0}, "top_p is 0.0"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"pad_id": 5}, r"rows \[1\].*pad_id 5"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, float], said: str) -> None:
    prompt = torch.tensor([[5, 4], [5, 5]])
    with pytest.raises(ValueError, match=said):
        generate_cached(gpt(GPT2), prompt, **{"max_new_tokens": 2, **settings})


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        generate_cached(gpt(GPT2), torch.empty(2, 0, dtype=torch.int64), 3)


def test_mode_and_tensors_are_ordinary_afterwards() -> None:
    model = gpt(GPT2)
    for training in (True, False):
        model.train(training)
        tokens = generate_cached(model, torch.ones(1, 2, dtype=torch.int64), 2)
        assert model.training == training
        assert not tokens.is_inference()


def test_equal_to_transformers() -> None:
    torch.manual_seed(2)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=32, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0
    )
    theirs = randomised(transformers.GPT2LMHeadModel(config).eval(), seed=5)
    own = GPT(GPTConfig(40, 32, 24, 3, 2)).double()
    load_gpt2(own, theirs.state_dict())
    prompt = torch.tensor([[0, 0, 7, 9], [5, 8, 3, 2]])
    expected = theirs.generate(
        prompt,
        attention_mask=(prompt != 0).long(),
        max_new_tokens=12,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
        eos_token_id=None,
    )
    assert torch.equal(generate_cached(own, prompt, 12, temperature=0, pad_id=0), expected)


# The Transformer of stage 5


def translator(norm_first: bool = True, seed: int = 1) -> Transformer:
    model = Transformer(
        9, 7, d_model=16, num_heads=2, num_layers=2, d_ff=24, dropout=0.4, norm_first=norm_first
    )
    randomised(model, seed)
    with torch.no_grad():
        model.fc_out.bias[2] += 1.0  # rows end at different steps
    return model


SOURCES = torch.tensor([[4, 5, 6, 7, 8], [8, 4, 0, 0, 0], [0, 0, 6, 8, 5], [7, 8, 4, 4, 0]])


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_and_beam_are_those_without_a_cache(norm_first: bool, seed: int) -> None:
    model = translator(norm_first, seed).train()
    assert torch.equal(greedy_decode_cached(model, SOURCES, 12), greedy_decode(model, SOURCES, 12))
    for beam, penalty in ((1, 0.6), (3, 0.0), (4, 1.0), (9, 0.6)):
        expected = beam_search(model, SOURCES, 12, beam, penalty)
        assert torch.equal(beam_search_cached(model, SOURCES, 12, beam, penalty), expected)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_impossible_lengths_are_named() -> None:
    with pytest.raises(ValueError, match="max_len is 0"):
        greedy_decode_cached(translator(), SOURCES, 0)
    with pytest.raises(ValueError, match="beam is 0"):
        beam_search_cached(translator(), SOURCES, 5, beam=0)


# What is computed


class RowCounter(TorchDispatchMode):
    """Counts the rows that go through products with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = function.overloadpacket.__name__
        if name in ("mm", "addmm"):
            self.rows += args[-2].shape[0]
        elif name == "linear":  # in inference mode it comes as it is
            self.rows += args[0].numel() // args[0].shape[-1]
        return function(*args, **(kwargs or {}))


@contextmanager
def counting() -> Iterator[RowCounter]:
    with RowCounter() as counter:
        yield counter


def test_a_step_sends_one_row_through_each_projection() -> None:
    model = gpt(GPT2, block_size=32)
    rows = []
    for new in (3, 4, 20, 21):
        with counting() as counter:
            generate_cached(model, torch.ones(2, 6, dtype=torch.int64), new, temperature=0)
        rows.append(counter.rows)
    products = 2 * 4 + 1  # per layer: stacked w_q, w_k, w_v; w_o; linear1; linear2. And the head.
    assert rows[1] - rows[0] == rows[3] - rows[2] == 2 * products


def test_the_memory_is_projected_once() -> None:
    model = translator()
    with torch.no_grad():
        model.fc_out.bias[2] = -100.0
    steps = []
    for src_len in (2, 5):
        src = torch.full((2, src_len), 4)
        rows = []
        for max_len in (4, 5):
            with counting() as counter:
                greedy_decode_cached(model, src, max_len)
            rows.append(counter.rows)
        steps.append(rows[1] - rows[0])
    # Per layer: four of self-attention, w_q and w_o of cross-attention, two of the feed-forward network.
    assert steps == [2 * (2 * 8 + 1)] * 2


# compare_with_torch


def test_comparison_tells_difference_and_ratio() -> None:
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 4)
    mask = padding_mask(torch.tensor([[1, 2, 3, 4, 5, 0, 0], [1, 2, 3, 4, 5, 6, 7]]))

    def shifted(*arguments: Tensor | None) -> tuple[Tensor, Tensor]:
        output = F.scaled_dot_product_attention(*arguments)
        output[0, 1, 2, 3] -= 0.5
        return output, output

    difference, ratio = compare_with_torch(query, key, value, mask, repeats=2)
    assert 0 <= difference < 1e-5
    assert ratio > 0
    assert compare_with_torch(query, key, value, mask, shifted, repeats=1)[0] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="repeats is 0"):
        compare_with_torch(query, key, value, repeats=0)
