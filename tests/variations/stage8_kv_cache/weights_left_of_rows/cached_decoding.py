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
    _check_settings(prompt, max_new_tokens, temperature, top_k, top_p)
    padding = _leading_padding(prompt, pad_id)  # (batch,)
    start = int(padding.min())  # the first column that is not padding in every row
    with _evaluating(model):
        reader = _GPTReader(model, padding - start)
        tokens = prompt
        for _ in range(max_new_tokens):
            if tokens.shape[1] - start > model.config.block_size:
                start = tokens.shape[1] - model.config.block_size
                reader.begin_anew((padding - start).clamp(min=0))
            logits = reader.next_logits(tokens[:, start:])  # (batch, vocab_size)
            if temperature == 0:
                token = logits.argmax(dim=-1, keepdim=True)  # (batch, 1)
            else:
                chances = filter_logits(logits, temperature, top_k, top_p).softmax(dim=-1)
                token = torch.multinomial(chances, 1, generator=generator)  # (batch, 1)
            tokens = torch.cat([tokens, token], dim=1)  # (batch, length + 1)
    return tokens.clone()  # an ordinary tensor again, outside of inference mode


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
    _check_positive(max_len=max_len)
    with _evaluating(model):
        reader = _DecoderReader(model, src, max_len)
        tokens = torch.full((src.shape[0], 1), SOS_ID, device=src.device)  # (batch, 1)
        finished = torch.zeros(src.shape[0], dtype=torch.bool, device=src.device)  # (batch,)
        while tokens.shape[1] < max_len and not finished.all():
            logits = reader.next_logits(tokens)  # (batch, vocab)
            token = logits.argmax(dim=-1).masked_fill(finished, model.pad_id)  # (batch,)
            tokens = torch.cat([tokens, token[:, None]], dim=1)  # (batch, length + 1)
            finished = finished | (token == EOS_ID)  # (batch,)
    return tokens.clone()


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
    _check_positive(max_len=max_len, beam=beam)
    batch = src.shape[0]
    with _evaluating(model):
        reader = _DecoderReader(model, src, max_len, beam)
        tokens = torch.full((batch * beam, 1), SOS_ID, device=src.device)  # (batch * beam, 1)
        first_row = torch.arange(batch, device=src.device)[:, None] * beam  # (batch, 1)

        # All hypotheses are the same now: only the first may be continued, or the beam would hold copies.
        scores = torch.full((batch, beam), float("-inf"), device=src.device)
        scores[:, 0] = 0.0
        finished = torch.zeros(batch, beam, dtype=torch.bool, device=src.device)
        lengths = torch.zeros(batch, beam, dtype=torch.int64, device=src.device)

        while tokens.shape[1] < max_len and not finished.all():
            logits = reader.next_logits(tokens)  # (batch * beam, vocab)
            log_probs = logits.log_softmax(dim=-1).unflatten(0, (batch, beam))  # (batch, beam, vocab)
            log_probs = _only_padding_after_eos(log_probs, finished, model.pad_id)
            candidates = (scores[:, :, None] + log_probs).flatten(1)  # (batch, beam * vocab)
            scores, chosen = candidates.topk(beam)  # (batch, beam) each
            parent = chosen // logits.shape[-1]  # (batch, beam): the hypothesis that is continued
            token = chosen % logits.shape[-1]  # (batch, beam): and with what

            rows = (first_row + parent).flatten()  # (batch * beam,)
            reader.reorder(rows)
            tokens = torch.cat([tokens[rows], token.view(-1, 1)], dim=1)  # (batch * beam, length + 1)
            was_finished = finished.gather(1, parent)  # (batch, beam)
            lengths = lengths.gather(1, parent) + ~was_finished  # (batch, beam)
            finished = was_finished | (token == EOS_ID)  # (batch, beam)

        best = (scores / ((5 + lengths) / 6) ** length_penalty).argmax(dim=1, keepdim=True)  # (batch, 1)
        tokens = tokens[(first_row + best).flatten()]  # (batch, length)
    return tokens.clone()


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
    _check_positive(repeats=repeats)

    def own() -> Tensor:
        return attention(query, key, value, mask)[0]

    def pytorchs() -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    with torch.no_grad():
        difference = (own() - pytorchs()).abs().max().item()
        times = [(_seconds(own, query.device), _seconds(pytorchs, query.device)) for _ in range(repeats)]
    own_seconds, pytorchs_seconds = (statistics.median(column) for column in zip(*times, strict=True))
    return difference, own_seconds / pytorchs_seconds


# Reading with a cache


class _GPTReader:
    """Reads texts with a GPT, and remembers the keys and values of every token that it has read."""

    def __init__(self, model: nn.Module, padding: Int[Tensor, "batch"]) -> None:
        """`padding` says how many padding tokens each row begins with; some row has none."""
        config, weight = model.config, model.token_embed.weight
        self.model = model
        self.batch = len(padding)
        self.num_heads = config.num_heads
        self.d_k = config.d_model // config.num_heads
        self.caches = [
            KVCache(self.batch, config.num_heads, config.block_size, self.d_k, weight.device, weight.dtype)
            for _ in model.blocks
        ]
        self.layers = list(zip(map(_taken_apart, model.blocks), self.caches, strict=True))
        self.norm, self.head = _norm(model.norm), _linear(model.head)
        self.is_rotary = config.position == "rotary"
        if self.is_rotary:
            self.cos, self.sin = (
                table.to(weight.device) for table in rotary_table(config.block_size, self.d_k)
            )
        self.begin_anew(padding)

    def begin_anew(self, padding: Int[Tensor, "batch"]) -> None:
        """Forget everything. The rows of the next text begin with so many padding tokens."""
        for cache in self.caches:
            cache.truncate(0)
        self.padding = padding[:, None] if padding.any() else None  # (batch, 1)

    def next_logits(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch vocab_size"]:
        """Read what is new in `tokens`, the texts up to here, and say what may come next."""
        past = self.caches[0].length
        new_tokens = tokens[:, past:]  # (batch, new)
        mask = self._mask(past, tokens.shape[1], tokens.device)  # (batch or 1, 1, new or 1, length) or None
        x = self._embed(new_tokens, past)  # (batch, new, d_model)
        # For linear maps and norms all rows are alike; laid below each other they are multiplied faster.
        x = x.flatten(0, 1)  # (batch * new, d_model)
        for (norm1, w_qkv, w_o, norm2, mlp), cache in self.layers:
            x = x + w_o(self._attend(w_qkv(norm1(x)), cache, mask))
            x = x + mlp(norm2(x))
        last = x.reshape(self.batch, -1, x.shape[-1])[:, -1]  # (batch, d_model)
        return self.head(self.norm(last))  # (batch, vocab_size)

    def _embed(self, tokens: Tensor, past: int) -> Float[Tensor, "batch new d_model"]:
        x = self.model.token_embed(tokens)  # (batch, new, d_model)
        if self.is_rotary:
            return x
        if self.padding is None:
            return x + self.model.positions.embedding.weight[past : past + tokens.shape[1]]
        position = torch.arange(past, past + tokens.shape[1], device=tokens.device)  # (new,)
        position = (position - self.padding).clamp(min=0)  # (batch, new): each row counts for itself
        return x + self.model.positions.embedding(position)

    def _mask(self, past: int, length: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        """Nothing later, and no padding. The newest token alone has nothing later before it."""
        mask = causal_mask(length, device)[:, :, past:] if length - past > 1 else None  # (1, 1, new, length)
        if self.padding is None:
            return mask
        is_real = torch.arange(length, device=device) >= self.padding  # (batch, length)
        is_real = is_real[:, None, None]  # (batch, 1, 1, length)
        return is_real if mask is None else is_real & mask  # (batch, 1, new or 1, length)

    def _attend(
        self, qkv: Float[Tensor, "rows 3*d_model"], cache: KVCache, mask: Tensor | None
    ) -> Float[Tensor, "rows d_model"]:
        past = cache.length
        qkv = qkv.view(self.batch, -1, 3, self.num_heads, self.d_k)  # (batch, new, 3, heads, d_k)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, new, d_k)
        if self.is_rotary:
            # Only distances matter to rotated queries and keys, so padding before a text changes nothing.
            query = apply_rotary(query, self.cos, self.sin, offset=past)
            key = apply_rotary(key, self.cos, self.sin, offset=past)
        keys, values = cache.append(key, value)  # each (batch, heads, length, d_k)
        heads, _ = scaled_dot_product_attention(query, keys, values, mask)  # (batch, heads, new, d_k)
        return merge_heads(heads).flatten(0, 1)  # (batch * new, d_model)


# With a single row, calling a module, which looks for hooks and for its parameters each time, takes nearly as long as
# what the module computes. So a reader takes the layers apart once, and then calls plain functions.


def _taken_apart(block: nn.Module) -> tuple[Map, Map, Map, Map, Map]:
    """What a block computes: its first norm, queries with keys and values, `w_o`, its second norm, its `mlp`."""
    attn = block.attn
    # One product with the stacked weights is faster than three small ones.
    w_qkv = _linear(attn.w_q, attn.w_k, attn.w_v)
    return _norm(block.norm1), w_qkv, _linear(attn.w_o), _norm(block.norm2), _mlp(block.mlp)


def _linear(*linears: nn.Linear) -> Map:
    """What a linear map computes. Of several, side by side: (rows, d_model) to (rows, the features of all)."""
    # A row is multiplied mostly by waiting for weights. Column by column in memory they are read faster.
    weight = torch.cat([linear.weight.T for linear in linears], dim=1).T  # (features of all, d_model)
    bias = None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])
    b = 0 if bias is None else bias
    return lambda x: (weight @ x.T).T + b


def _norm(norm: nn.Module) -> Map:
    """What a layer norm computes, or an `RMSNorm`."""
    if not isinstance(norm, nn.LayerNorm):
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: F.layer_norm(x, shape, weight, bias, eps)


def _mlp(mlp: nn.Module) -> Map:
    """What a feed-forward network computes: `SwiGLU`, or two linear maps with GELU between them."""
    if hasattr(mlp, "w_gate"):
        gate, up, down = _linear(mlp.w_gate), _linear(mlp.w_up), _linear(mlp.w_down)
        return lambda x: down(F.silu(gate(x)) * up(x))
    widen, narrow = _linear(mlp.linear1), _linear(mlp.linear2)
    return lambda x: narrow(F.gelu(widen(x), approximate="tanh"))


class _DecoderReader:
    """Reads targets with a Transformer's decoder, and remembers keys and values: the target's and the memory's."""

    def __init__(self, model: nn.Module, src: Tensor, max_len: int, beam: int = 1) -> None:
        """Read the sources. `beam` targets will be written for each, below each other."""
        self.model = model
        self.pre_norm = model.decoder.norm is not None
        src_mask = padding_mask(src, model.pad_id)  # (batch, 1, 1, src_len)
        memory = model.encode(src, src_mask)  # (batch, src_len, d_model)
        self.memory_mask = src_mask.repeat_interleave(beam, dim=0)  # (batch * beam, 1, 1, src_len)
        self.self_attns = [_with_cache(layer.self_attn) for layer in model.decoder.layers]
        self.caches = []
        self.memories = []
        for layer in model.decoder.layers:
            attn = layer.cross_attn
            keys = split_heads(attn.w_k(memory), attn.num_heads)  # (batch, heads, src_len, d_k)
            values = split_heads(attn.w_v(memory), attn.num_heads)  # (batch, heads, src_len, d_k)
            self.memories.append(tuple(part.repeat_interleave(beam, dim=0) for part in (keys, values)))
            rows, num_heads, d_k = len(src) * beam, keys.shape[1], keys.shape[3]
            self.caches.append(KVCache(rows, num_heads, max_len, d_k, keys.device, keys.dtype))

    def next_logits(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows vocab"]:
        """Read what is new in `tokens`, the targets up to here, and say what may come next."""
        past = self.caches[0].length
        tgt_mask = padding_mask(tokens, self.model.pad_id)  # (rows, 1, 1, length)
        x = self.model.tgt_embed(tokens[:, past:])  # (rows, new, d_model)
        x = self.model.positions(x * math.sqrt(x.shape[-1]), offset=past)
        for index in range(len(self.caches)):
            x = self._layer(index, x, tgt_mask)
        last = x[:, -1]  # (rows, d_model)
        return self.model.fc_out(self.model.decoder.norm(last) if self.pre_norm else last)  # (rows, vocab)

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Let row i go on with what row `rows[i]` has read."""
        for cache in self.caches:
            cache.reorder(rows)

    def _layer(self, index: int, x: Tensor, tgt_mask: Tensor) -> Float[Tensor, "rows new d_model"]:
        """One decoder layer, in the order of its norms."""
        layer = self.model.decoder.layers[index]

        def look_back(x: Tensor) -> Tensor:
            return self.self_attns[index](x, mask=tgt_mask, cache=self.caches[index])[0]

        def look_at_source(x: Tensor) -> Tensor:
            return _cross_attend(layer.cross_attn, x, *self.memories[index], self.memory_mask)

        if self.pre_norm:
            x = x + look_back(layer.norm1(x))
            x = x + look_at_source(layer.norm2(x))
            return x + layer.feed_forward(layer.norm3(x))
        x = layer.norm1(x + look_back(x))
        x = layer.norm2(x + look_at_source(x))
        return layer.norm3(x + layer.feed_forward(x))


def _cross_attend(attn: nn.Module, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Multi-head attention to keys and values (rows, heads, src_len, d_k) that were computed before."""
    query = split_heads(attn.w_q(x), attn.num_heads)  # (rows, heads, new, d_k)
    heads, _ = scaled_dot_product_attention(query, keys, values, mask)  # (rows, heads, new, d_k)
    return attn.w_o(merge_heads(heads))  # (rows, new, d_model)


def _with_cache(attn: nn.Module) -> CachedAttention:
    """The same attention with the same weights (not copies of them), able to use a cache."""
    with torch.device("meta"):  # no memory, no random numbers: its own weights are not needed
        cached = CachedAttention(attn.w_q.in_features, attn.num_heads)
    cached.load_state_dict(attn.state_dict(), assign=True)
    return cached.eval()


# What is left


def _leading_padding(prompt: Tensor, pad_id: int | None) -> Int[Tensor, "batch"]:
    """How many padding tokens each row begins with. A later `pad_id` is a token."""
    if pad_id is None:
        return torch.zeros(len(prompt), dtype=torch.int64, device=prompt.device)
    padding = (prompt == pad_id).cumprod(dim=1).sum(dim=1)  # (batch,)
    if empty := (padding == prompt.shape[1]).nonzero().flatten().tolist():
        raise ValueError(f"rows {empty} of the prompt hold nothing but the pad_id {pad_id}")
    return padding


def _only_padding_after_eos(
    log_probs: Float[Tensor, "batch beam vocab"], finished: Bool[Tensor, "batch beam"], pad_id: int
) -> Float[Tensor, "batch beam vocab"]:
    """A finished hypothesis has one continuation, `<pad>`, and it costs nothing."""
    padding = torch.full_like(log_probs[0, 0], float("-inf"))  # (vocab,)
    padding[pad_id] = 0.0
    return torch.where(finished[:, :, None], padding, log_probs)  # (batch, beam, vocab)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode, and nothing kept for gradients, inside; the old mode afterwards, also after an error."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():  # as no_grad, with still less to do for every operation
            yield
    finally:
        model.train(was_training)


def _check_settings(
    prompt: Tensor, max_new_tokens: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    if prompt.shape[1] == 0:
        raise ValueError("the prompt has 0 tokens, and should have at least 1")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}, and should be at least 0")
    if not temperature >= 0:  # NaN is not
        raise ValueError(f"temperature is {temperature}, and should be at least 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}, and should be at least 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}, and should be above 0 and at most 1")


def _check_positive(**settings: int) -> None:
    for name, value in settings.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, and should be at least 1")
