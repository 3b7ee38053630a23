"""Decoding with a KV cache: stage 6's translations and stage 7's texts, with one new row a step.

The result is that of the uncached functions, token for token. What changes is the work: without a cache, writing n
tokens reads 1 + 2 + ... + n rows; with one, it reads n.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask, padding_mask, scaled_dot_product_attention
from ..stage2_multi_head.multi_head import merge_heads, split_heads
from ..stage3_positional_encoding.positional_encoding import apply_rotary, rotary_table
from ..stage7_gpt.generation import filter_logits
from .kv_cache import CachedAttention, KVCache

SOS_ID, EOS_ID = 1, 2  # `<sos>` and `<eos>` in every vocabulary of this course

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]
Map = Callable[[Tensor], Tensor]


def generate_cached(
    model: nn.Module,
    prompt: Int[Tensor, "batch prompt_len"],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    pad_id: int | None = None,
) -> Int[Tensor, "batch prompt_len+max_new_tokens"]:
    """Go on with every row of `prompt`, token for token as `generate` of stage 7, but read every token only once.

    `model` is a `GPT`, with the submodules that stage 7 names. The arguments up to `generator` mean what they mean in
    `generate`; so do the result, eval mode, and the errors.

    - **The first step** reads the whole prompt at once. **Every other step** reads one token a row, the newest: one
      row goes through each projection, and attends to the cached keys and values of all before it.
    - **Positions** count on from the cache. A token that is read alone does not stand at position 0: learned
      positions, and the rotation of its query and key, are those of its place in the text.
    - **Padding.** Texts of different length share a batch by padding on the left. Where `pad_id` is given, the
      `pad_id`s with which a row begins are padding: no token may attend to them, and the row's first real token stands
      at position 0. A `pad_id` after the first real token is a token like any other. So every row gets what it would
      get alone, without padding. The result keeps the padding.
    - **The window.** Once a text has more than `block_size` tokens, `generate` moves its window by one at each step.
      Then every token stands at another position, and no cached key is right any more: the window is read anew.

    Raises the errors of `generate`; and `ValueError`, naming the rows, where `pad_id` leaves no token of a row.

    Source: "Fast Transformer Decoding" (Shazeer, 2019), section 2.4, for incremental decoding.
    """
    raise NotImplementedError


def greedy_decode_cached(
    model: nn.Module, src: Int[Tensor, "batch src_len"], max_len: int
) -> Int[Tensor, "batch length"]:
    """Write a translation of each source, token for token as `greedy_decode` of stage 6, but read every token once.

    `model` is a `Transformer` of stage 5, with the submodules that stage 5 names, pre-norm or post-norm (then
    `decoder.norm` is None). All that `greedy_decode` says of rows, masks, errors and eval mode holds here too.

    - **Self-attention.** Every step reads one token a row: the newest. One row goes through each projection of a
      decoder layer, and attends to the cached keys and values of all tokens before it. Its position counts on.
    - **Cross-attention.** The memory does not change while the target grows, nor do its keys and values. Every layer
      computes them once per source, not once a step. No position of the target is later than the memory: nothing of
      it is hidden but the padding.
    - **Padding of the target.** Where a row has written `<pad>`, its later tokens may not attend to it. The mask grows
      by one column with every token.
    """
    raise NotImplementedError


def beam_search_cached(
    model: nn.Module,
    src: Int[Tensor, "batch src_len"],
    max_len: int,
    beam: int = 4,
    length_penalty: float = 0.6,
) -> Int[Tensor, "batch length"]:
    """Write a translation of each source, as `beam_search` of stage 6, but read every token once.

    All that `greedy_decode_cached` says of the cache holds here too, and all that `beam_search` says of the search.

    - **Reordering.** After each step the hypotheses have new places: one may be continued twice, another not at all.
      The row that continues a hypothesis needs its cached keys and values, in every layer. All sources of the batch
      share one cache, so the row of hypothesis h of source s is `s * beam + h`.
    - **Cross-attention** needs no reordering: all hypotheses of a source look at the same memory.
    """
    raise NotImplementedError


def compare_with_torch(
    query: Float[Tensor, "batch heads q_len d_k"],
    key: Float[Tensor, "batch heads k_len d_k"],
    value: Float[Tensor, "batch heads k_len d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    attention: Attention = scaled_dot_product_attention,
    repeats: int = 20,
) -> tuple[float, float]:
    """Lay your attention beside PyTorch's own: `(largest difference, time ratio)`.

    This is the one exercise in which `F.scaled_dot_product_attention` is allowed; its `attn_mask` has the meaning of
    `mask`. `attention` takes `(query, key, value, mask)` and returns `(output, weights)`, as your own of stage 1,
    which is the default.

    The largest difference is the largest absolute one between two numbers of the outputs, as a Python float. The time
    ratio is the median time of `attention` divided by the median time of PyTorch's: 2.0 means twice as long. Both run
    once before the clock starts, for the first run of anything is slower; then they take turns, `repeats` times, so
    that a moment in which the computer is busy strikes both. On a GPU the work goes on after a call has returned:
    `torch.cuda.synchronize()` waits for it, before the clock is read. No gradients are recorded.

    Raises `ValueError` with the value in the message where `repeats` is below 1.

    Source: "FlashAttention" (Dao et al., 2022), for how PyTorch's own does without the matrix of weights.
    """
    raise NotImplementedError
