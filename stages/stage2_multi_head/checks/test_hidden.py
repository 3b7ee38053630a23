"""Checks of stage 2 that are held back from a class."""

import torch

from grader.checks import check, expect, expect_error, fail, mistake

from .oracles import (
    facts,
    loaded,
    merge,
    named_error,
    output_from,
    own_weights,
    project,
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
)

SMALL = ((1, 5, 3, 4), (2, 1, 3, 4), (2, 5, 1, 4), (2, 5, 4, 1), (1, 1, 1, 1))
"""batch, seq, num_heads and d_k, each 1 at least once."""


@check("split_heads", points=2)
def test_split_works_for_ones_and_every_dtype(submission, draw):
    """It splits one sequence, one token, into one head, and keeps the dtype."""
    batch, seq, num_heads, d_k = draw.sizes(4, 2, 7)
    for sizes, dtype in (
        ((batch, seq, num_heads, d_k), draw.exact),
        ((seq, batch, d_k, num_heads), torch.bfloat16),
        *((sizes, torch.float32) for sizes in SMALL),
    ):
        batch, seq, num_heads, d_k = sizes
        x = draw.normal(batch, seq, num_heads * d_k, dtype=dtype)
        heads = named_error(lambda x=x, num_heads=num_heads: submission.split_heads(x, num_heads))
        expect(heads, "the heads", dims="batch heads seq d_k").equals(
            split(x, num_heads),
            mistakes={
                "split-without-transpose": x.unflatten(-1, (num_heads, d_k)),
                "split-by-view": split_by_view(x, num_heads),
                "split-interleaved": split_interleaved(x, num_heads),
            },
            facts=facts(num_heads * d_k, num_heads),
        )


@check("merge_heads", points=2)
def test_merge_works_for_ones_and_every_dtype(submission, draw):
    """It merges one sequence, one token, one head, and keeps the dtype."""
    batch, seq, num_heads, d_k = draw.sizes(4, 2, 7)
    for sizes, dtype in (
        ((batch, seq, num_heads, d_k), draw.exact),
        ((seq, batch, d_k, num_heads), torch.bfloat16),
        *((sizes, torch.float32) for sizes in SMALL),
    ):
        batch, seq, num_heads, d_k = sizes
        x = draw.normal(batch, num_heads, seq, d_k, dtype=dtype)
        merged = named_error(lambda x=x: submission.merge_heads(x))
        actual = returned(merged, "the merged heads")
        expect(merged, "the merged heads", dims="batch seq d_model").equals(
            merge(x),
            mistakes={
                "merge-without-transpose": merge_by_view(x),
                "merge-other-order": lambda x=x, actual=actual: nearest(actual, merges_in_another_order(x)),
                "heads-averaged": lambda x=x, actual=actual: nearest(actual, merges_into_one(x)),
            },
            facts=facts(num_heads * d_k, num_heads),
        )


@check("MultiHeadAttention", points=3)
def test_self_attention_equals_pytorch(submission, draw):
    """On one sequence, output and weights equal those of `nn.MultiheadAttention`, also under a mask."""
    batch, num_heads, seq, d_model = 2, 3, 6, 24
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    causal = torch.ones(1, 1, seq, seq, dtype=torch.bool).tril()
    for mask in (None, draw.mask(batch, 1, seq, seq), causal):
        x = draw.normal(batch, seq, d_model, dtype=draw.exact)
        compare_with_torch(attention, weights, num_heads, x, x, x, mask)


@check("MultiHeadAttention", points=3)
def test_cross_attention_equals_pytorch(submission, draw):
    """With queries, keys and values from different places it equals `nn.MultiheadAttention`."""
    batch, num_heads, d_model = 2, 4, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    for q_len, k_len in ((5, 7), (7, 5), (6, 6)):
        query = draw.normal(batch, q_len, d_model, dtype=draw.exact)
        key, value = draw.normal(2, batch, k_len, d_model, dtype=draw.exact)
        for mask in (None, draw.mask(batch, 1, 1, k_len)):
            compare_with_torch(attention, weights, num_heads, query, key, value, mask)


def compare_with_torch(attention, weights, num_heads, query, key, value, mask):
    """Weights first: where they are wrong the output cannot be right."""
    inputs = (weights, num_heads, query, key, value, mask)
    output, attended = run_layer(attention, query, key, value, mask)
    right = torch_attention(*inputs)
    expect(attended, "the attention weights", dims="batch heads query key").equals(
        right[1], mistakes=weight_mistakes(*inputs), facts=facts(query.shape[-1], num_heads)
    )
    compare_output(output, weights, num_heads, query, key, value, right[1], right[0])


def compare_output(output, weights, num_heads, query, key, value, given, right=None):
    """The output is right, or what follows from the given attention weights."""
    actual = returned(output, "the output")
    expect(output, "the output", dims="batch query d_model").equals(
        output_from(weights, given, value) if right is None else right,
        mistakes=output_mistakes(actual, weights, num_heads, query, key, value, given=given),
        facts=facts(query.shape[-1], num_heads),
    )


@check("MultiHeadAttention", points=2)
def test_each_axis_of_a_mask_keeps_its_meaning(submission, draw):
    """The axes of a mask are batch, heads, queries and keys, also where their sizes happen to agree."""
    num_heads, k_len, d_model = 3, 7, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    for batch, q_len, mask, axis in (
        (5, 5, draw.mask(5, 1, 1, k_len), "queries"),
        (num_heads, 5, draw.mask(num_heads, 1, 5, k_len), "heads"),
        (2, 5, draw.mask(1, num_heads, 1, k_len), "queries"),
        (2, 5, draw.mask(5, k_len), "queries"),
    ):
        query = draw.normal(batch, q_len, d_model, dtype=draw.exact)
        key, value = draw.normal(2, batch, k_len, d_model, dtype=draw.exact)
        inputs = (weights, num_heads, query, key, value)
        _, plain = run_layer(attention, *inputs[2:])
        unmasked = own_weights(plain, torch_attention(*inputs)[1])
        _, attended = run_layer(attention, *inputs[2:], mask)
        actual = returned(attended, "the attention weights")
        expect(
            attended, f"the attention weights under a mask {tuple(mask.shape)}", dims="batch heads query key"
        ).equals(
            under_mask(unmasked, mask),
            mistakes=weight_mistakes(*inputs, mask) | mask_mistakes(actual, unmasked, mask),
            facts={"axis": axis, "mask_shape": tuple(mask.shape), **facts(d_model, num_heads)},
        )


@check("MultiHeadAttention", points=1)
def test_mask_that_does_not_fit_is_refused(submission, draw):
    """A mask that does not broadcast to (batch, heads, q_len, k_len) raises `ValueError`."""
    batch, num_heads, q_len, k_len, d_model = 1, 3, 5, 7, 12
    attention = loaded(submission, draw.weights(shapes(d_model)), num_heads)
    query = draw.normal(batch, q_len, d_model)
    memory = draw.normal(batch, k_len, d_model)
    _, unmasked = run_layer(attention, query, memory, memory)
    for shape in ((2, 1, 1, k_len), (1, 2, 1, q_len, k_len), (1, 1, 1, k_len + 1)):
        mask = draw.mask(*shape)

        def attend(mask=mask):
            _, attended = attention(query, memory, memory, mask)
            expect(attended, "the attention weights").differs_from(unmasked, mistake="heads-mask-ignored")

        expect_error(
            (ValueError, RuntimeError),  # PyTorch's own refusal is as good
            attend,
            mistake="unfit-mask-accepted",
            facts={"mask_shape": shape, "scores_shape": (batch, num_heads, q_len, k_len)},
        )


@check("MultiHeadAttention", points=2)
def test_dropout_drops_whole_weights_in_training(submission, draw):
    """In training, dropout takes attention weights away and scales the others up by 1 / (1 - p)."""
    num_heads, k_len, p = 3, 4, 0.5
    d_model = num_heads * 2 * k_len
    # Every value is a row of one 1 and zeros, twice in every head, and w_v and w_o change nothing: so the output
    # of a head shows its weights, twice.
    weights = draw.weights(shapes(d_model), draw.exact)
    for name in ("w_v", "w_o"):
        weights[f"{name}.weight"] = torch.eye(d_model, dtype=draw.exact)
        weights[f"{name}.bias"] = torch.zeros(d_model, dtype=draw.exact)
    value = torch.eye(k_len, dtype=draw.exact).repeat(1, 2 * num_heads).expand(8, -1, -1)
    query = draw.normal(8, 5, d_model, dtype=draw.exact)
    key = draw.normal(8, k_len, d_model, dtype=draw.exact)

    attention = loaded(submission, weights, num_heads, dropout=p)
    output, attended = run_layer(attention, query, key, value)
    whole = own_weights(attended, torch_attention(weights, num_heads, query, key, value)[1])
    compare_output(output, weights, num_heads, query, key, value, whole)

    attention.train()
    output, _ = attention(query, key, value)
    heads = split(expect(output, "the output in training").tensor(shape=(8, 5, d_model)), num_heads)
    first, second = heads[..., :k_len], heads[..., k_len:]
    known = {"p": p, "scale": 1 / (1 - p)}

    def same(one, other):
        return torch.allclose(one, other, rtol=1e-4, atol=1e-5)

    if same(first, whole):
        mistake("dropout-never-active", **known)
    if not same(first, second):
        mistake("dropout-on-features", **known)
    dropped = first.abs() < 1e-9
    if not dropped.any():
        mistake("dropout-before-softmax", **known)
    if same(first, whole.masked_fill(dropped, 0.0)):
        mistake("dropout-not-rescaled", **known)
    expect(first, "the weights in training", dims="batch heads query key").equals(
        (whole / (1 - p)).masked_fill(dropped, 0.0), rtol=1e-4, atol=1e-5
    )
    share = dropped.double().mean().item()
    if not 0.35 < share < 0.65:  # 480 weights: six standard deviations away
        fail(f"With dropout {p}, {share:.0%} of the weights were dropped in training.")


@check("MultiHeadAttention", points=1)
def test_order_of_the_tokens_does_not_matter(submission, draw):
    """Without a mask, tokens in another order give the same outputs, in that order."""
    batch, num_heads, seq, d_model = 2, 3, 7, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    x = draw.normal(batch, seq, d_model, dtype=draw.exact)
    order = draw.permutation(seq)
    plain, _ = run_layer(attention, x, x, x)
    shuffled, _ = attention(x[:, order], x[:, order], x[:, order])
    actual = returned(shuffled, "the output")
    inputs = (weights, num_heads, x[:, order], x[:, order], x[:, order])
    expect(shuffled, "the output for the tokens in another order", dims="batch token d_model").equals(
        expect(plain, "the output").tensor(shape=x.shape)[:, order],
        mistakes=output_mistakes(actual, *inputs),
        facts=facts(d_model, num_heads),
    )


@check("MultiHeadAttention", points=1)
def test_gradients_reach_every_projection(submission, draw):
    """A backward pass reaches all four projections and all three inputs."""
    batch, num_heads, q_len, k_len, d_model = 2, 3, 5, 7, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    query = draw.normal(batch, q_len, d_model, dtype=draw.exact)
    key, value = draw.normal(2, batch, k_len, d_model, dtype=draw.exact)
    cotangent = draw.normal(batch, q_len, d_model, dtype=draw.exact)
    run_layer(attention, query, key, value)
    found = named_error(lambda: submission.gradients(attention, query, key, value, cotangent=cotangent))
    gradients = dict(zip(("query", "key", "value"), found.inputs, strict=True)) | found.parameters
    del gradients["w_k.bias"]  # it moves all scores of a query alike, so its gradient is 0
    cut = [name for name, one in gradients.items() if one is None or not one.abs().max() > 1e-9]
    if cut:
        # An argument or a projection that is not used gets no gradient either: then that is the mistake.
        output, attended = found.output
        right = torch_attention(weights, num_heads, query, key, value)[1]
        expect(attended, "the attention weights", dims="batch heads query key").equals(
            right,
            mistakes=weight_mistakes(weights, num_heads, query, key, value),
            facts=facts(d_model, num_heads),
        )
        compare_output(output, weights, num_heads, query, key, value, right)
        mistake("gradient-cut", name=cut[0])


@check("MultiHeadAttention", points=1)
def test_works_for_one_token_and_in_bfloat16(submission, draw):
    """It works for one sequence of one token, keeps bfloat16, and leaves its inputs as they were."""
    num_heads, d_model = 3, 12
    weights = draw.weights(shapes(d_model), draw.exact)
    attention = loaded(submission, weights, num_heads)
    one = draw.normal(1, 1, d_model, dtype=draw.exact)
    output, _ = run_layer(attention, one, one, one)
    # A single key gets all the attention, so nothing but w_v and w_o is left.
    expect(output, "the output for one token", dims="batch query d_model").equals(
        project(weights, "w_o", project(weights, "w_v", one)),
        mistakes=output_mistakes(returned(output, "the output"), weights, num_heads, one, one, one),
        facts=facts(d_model, num_heads),
    )

    attention.to(torch.bfloat16)
    query = draw.normal(2, 5, d_model, dtype=torch.bfloat16)
    key, value = draw.normal(2, 2, 7, d_model, dtype=torch.bfloat16)
    mask = draw.mask(2, 1, 1, 7)
    run_layer(attention, query, key, value, mask)
    (output, attended), after = named_error(
        lambda: submission.inputs_after(attention, query, key, value, mask)
    )
    expect(output, "the output in bfloat16").tensor(shape=(2, 5, d_model), dtype=torch.bfloat16)
    expect(attended, "the weights in bfloat16").tensor(dtype=torch.bfloat16)
    for name, before, now in zip(
        ("query", "key", "value", "mask"), (query, key, value, mask), after, strict=True
    ):
        if not torch.equal(expect(now, name).tensor(), before):
            mistake("heads-change-inputs", name=name)
