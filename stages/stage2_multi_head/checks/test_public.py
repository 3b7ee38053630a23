"""Checks of stage 2 that learners may read."""

import torch

from grader.checks import check, expect, expect_error, fail, mistake
from grader.submission import Raising

from .oracles import (
    facts,
    loaded,
    merge,
    name_structure,
    named_error,
    output_from,
    own_weights,
    returned,
    run_layer,
    shapes,
    split,
    torch_attention,
    under_mask,
)
from .wrong_heads import (
    mask_mistakes,
    merge_by_view,
    merges_in_another_order,
    merges_into_one,
    nearest,
    output_mistakes,
    split_by_view,
    split_interleaved,
    weight_mistakes,
    wrong_outputs,
)


@check("split_heads", points=4)
def test_each_head_owns_its_features(submission, draw):
    """Head h owns features h*d_k ... (h+1)*d_k of every token."""
    batch, seq, num_heads, d_k = 2, 5, 3, 4
    x = draw.normal(batch, seq, num_heads * d_k)
    heads = named_error(lambda: submission.split_heads(x, num_heads))
    expect(heads, "the heads", dims="batch heads seq d_k").equals(
        split(x, num_heads),
        mistakes={
            "split-without-transpose": x.unflatten(-1, (num_heads, d_k)),
            "split-by-view": split_by_view(x, num_heads),
            "split-interleaved": split_interleaved(x, num_heads),
        },
        facts=facts(num_heads * d_k, num_heads),
    )


@check("merge_heads", points=4)
def test_heads_stand_side_by_side_again(submission, draw):
    """Every token gets the features of head 0, then those of head 1, and so on."""
    batch, num_heads, seq, d_k = 2, 3, 5, 4
    x = draw.normal(batch, num_heads, seq, d_k)
    merged = named_error(lambda: submission.merge_heads(x))
    actual = returned(merged, "the merged heads")
    expect(merged, "the merged heads", dims="batch seq d_model").equals(
        merge(x),
        mistakes={
            "merge-without-transpose": merge_by_view(x),
            "merge-other-order": lambda: nearest(actual, merges_in_another_order(x)),
            "heads-averaged": lambda: nearest(actual, merges_into_one(x)),
        },
        facts=facts(num_heads * d_k, num_heads),
    )


@check("MultiHeadAttention", points=2)
def test_four_projections_whatever_the_heads(submission, draw):
    """It has `num_heads`, and four linear maps of d_model x d_model with bias: `w_q`, `w_k`, `w_v`, `w_o`."""
    d_model = 12
    for num_heads in (3, 4, 1):
        attention = submission.MultiHeadAttention(d_model, num_heads)
        name_structure(attention.shapes(), d_model, num_heads)
        attention.load_state_dict(draw.weights(shapes(d_model)))
        try:
            seen = attention.num_heads
        except Raising:
            mistake("num-heads-missing", **facts(d_model, num_heads))
        expect(seen, "the attribute num_heads").equals(num_heads)


@check("MultiHeadAttention", points=1)
def test_each_head_has_weights_of_its_own(submission, draw):
    """The weights have the shape (batch, heads, q_len, k_len), and those of each query and head sum to 1."""
    batch, num_heads, q_len, k_len, d_model = 2, 3, 5, 7, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    query = draw.normal(batch, q_len, d_model, dtype=draw.exact)
    key, value = draw.normal(2, batch, k_len, d_model, dtype=draw.exact)
    attention = loaded(submission, weights, num_heads)
    _, attended = run_layer(attention, query, key, value)
    inputs = (weights, num_heads, query, key, value)
    mistakes = weight_mistakes(*inputs)
    own = expect(attended, "the attention weights", dims="batch heads query key").tensor(
        shape=(batch, num_heads, q_len, k_len), dtype=draw.exact, mistakes=mistakes
    )
    expect(own.sum(dim=-1), "the sum of the weights over the keys", dims="batch heads query").equals(
        torch.ones(batch, num_heads, q_len, dtype=draw.exact),
        mistakes={code: lambda wrong=wrong: wrong().sum(dim=-1) for code, wrong in mistakes.items()},
        facts=facts(d_model, num_heads),
    )


@check("MultiHeadAttention", points=3)
def test_weights_come_from_each_heads_own_features(submission, draw):
    """The weights of head h are the softmax of its own queries and keys, divided by sqrt(d_k)."""
    batch, num_heads, seq, d_model = 2, 3, 5, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    query, key, value = draw.normal(3, batch, seq, d_model, dtype=draw.exact)
    attention = loaded(submission, weights, num_heads)
    _, attended = run_layer(attention, query, key, value)
    inputs = (weights, num_heads, query, key, value)
    expect(attended, "the attention weights", dims="batch heads query key").equals(
        torch_attention(*inputs)[1], mistakes=weight_mistakes(*inputs), facts=facts(d_model, num_heads)
    )


@check("MultiHeadAttention", points=3)
def test_output_is_the_merged_heads_through_w_o(submission, draw):
    """The output is `w_o` of the merged heads, and head h is its weights times its own values."""
    batch, num_heads, seq, d_model = 2, 3, 5, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    query, key, value = draw.normal(3, batch, seq, d_model, dtype=draw.exact)
    attention = loaded(submission, weights, num_heads)
    output, attended = run_layer(attention, query, key, value)
    given = own_weights(attended, torch_attention(weights, num_heads, query, key, value)[1])
    actual = returned(output, "the output")
    expect(output, "the output", dims="batch query d_model").equals(
        output_from(weights, given, value),
        mistakes=output_mistakes(actual, weights, num_heads, query, key, value, given=given),
        facts=facts(d_model, num_heads),
    )


@check("MultiHeadAttention", points=2)
def test_padding_is_hidden_in_every_head(submission, draw):
    """A padding mask, True on real tokens, takes every weight from the padding, in all heads."""
    num_heads, d_model = 3, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    for side in ("right", "left"):
        tokens = draw.tokens([3, 4, 6], vocab=9, side=side)[:2]  # both sequences have padding
        x = draw.normal(2, 6, d_model, dtype=draw.exact)
        mask = (tokens != 0)[:, None, None, :]
        inputs = (weights, num_heads, x, x, x)
        _, plain = run_layer(attention, x, x, x)
        unmasked = own_weights(plain, torch_attention(*inputs)[1])
        _, attended = run_layer(attention, x, x, x, mask)
        actual = returned(attended, "the attention weights")
        expect(
            attended, f"the attention weights with padding on the {side}", dims="batch heads query key"
        ).equals(
            under_mask(unmasked, mask),
            mistakes=weight_mistakes(*inputs, mask) | mask_mistakes(actual, unmasked, mask),
            facts={"mask_shape": tuple(mask.shape), "axis": "queries", **facts(d_model, num_heads)},
        )


@check("MultiHeadAttention", points=1)
def test_every_token_reaches_every_other(submission, draw):
    """Without a mask, a change of one token moves the output of every token."""
    batch, num_heads, seq, d_model = 2, 3, 7, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    x = draw.normal(batch, seq, d_model, dtype=draw.exact)
    changed = draw.integer(0, seq)
    edited = x.clone()
    edited[:, changed] += draw.normal(batch, d_model, dtype=draw.exact)
    outputs = []
    for tokens in (x, edited):
        output, _ = run_layer(attention, tokens, tokens, tokens)
        outputs.append(expect(output, "the output", dims="batch token d_model").tensor(shape=tuple(x.shape)))
    rows = moved_rows(*outputs)
    if rows == list(range(seq)):
        return
    if rows == [changed]:
        mistake("attention-across-heads", **facts(d_model, num_heads))
    by_view = (wrong_outputs("split-by-view", weights, num_heads, *3 * (tokens,)) for tokens in (x, edited))
    if any(rows == moved_rows(*pair) for pair in zip(*by_view, strict=True)):
        mistake("split-by-view", **facts(d_model, num_heads))
    fail(
        f"Token {changed} was changed, and only the outputs {rows} moved, of {seq}.",
        next_step="Follow one token through split_heads, the attention and merge_heads.",
    )


def moved_rows(before, after):
    """The tokens whose output differs anywhere in the batch."""
    moved = (before - after).abs().amax(dim=(0, 2)) > 1e-9
    return [token for token in range(len(moved)) if moved[token]]


@check("MultiHeadAttention", points=1)
def test_indivisible_heads_are_refused(submission, draw):
    """Where the heads do not divide d_model it raises `ValueError` with both numbers."""
    for d_model, num_heads in ((10, 3), (4, 8)):
        expect_error(
            ValueError,
            lambda d_model=d_model, num_heads=num_heads: submission.MultiHeadAttention(d_model, num_heads),
            mentions=[str(d_model), str(num_heads)],
            mistake="indivisible-accepted",
            facts=facts(d_model, num_heads),
        )


@check("MultiHeadAttention", points=1)
def test_dropout_is_off_in_eval(submission, draw):
    """After `.eval()` nothing is dropped: two calls give the same output."""
    batch, num_heads, seq, d_model = 2, 3, 5, 12
    attention = loaded(submission, draw.weights(shapes(d_model), draw.exact), num_heads, dropout=0.5)
    x = draw.normal(batch, seq, d_model, dtype=draw.exact)
    first, second = (run_layer(attention, x, x, x) for _ in range(2))
    returned = {"the output": (batch, seq, d_model), "the attention weights": (batch, num_heads, seq, seq)}
    for one, other, (what, shape) in zip(first, second, returned.items(), strict=True):
        earlier = expect(one, f"{what} in eval mode").tensor(shape=shape)
        later = expect(other, f"{what} in eval mode").tensor(shape=tuple(earlier.shape))
        if not torch.equal(earlier, later):
            mistake("dropout-active-in-eval", what=what)
