"""Checks of stage 1 that are held back from a class."""

import torch

from grader.checks import check, expect, expect_error, fail, mistake, raising_means

from .comparing import (
    agrees,
    attend,
    expect_layer,
    expect_mask,
    expect_masked,
    expect_unmasked,
    own_attention,
    same,
)
from .layers import layer_and_input, layer_mistakes, projections
from .oracles import (
    covering_mask,
    query_key_value,
    right_attention,
    right_causal_mask,
    right_padding_mask,
    sizes,
)
from .wrong_answers import wrong_padding_masks


@check("padding_mask", points=1)
def test_padding_mask_takes_any_pad_id(submission, draw):
    """Any id may mean padding; an id of 0 is then a token like the others."""
    pad_id = draw.integer(4, 9)
    tokens = draw.tokens([4, 7, 6], vocab=20, pad_id=pad_id, low=9)
    tokens[0, 1], tokens[1, 0], tokens[2, 2] = 0, 3, pad_id - 1
    expect_mask(
        submission.padding_mask(tokens, pad_id),
        right_padding_mask(tokens, pad_id),
        "the padding mask",
        wrong_padding_masks(tokens, pad_id),
        additive="padding-mask-additive",
    )
    nothing = torch.full((1, 3), pad_id)
    expect(submission.padding_mask(nothing, pad_id=pad_id), "the mask of a row of padding").equals(
        right_padding_mask(nothing, pad_id)
    )


@check("causal_mask", points=1)
def test_causal_mask_is_made_on_the_device(submission):
    """The mask is made on the device that is asked for, and on the default device when none is."""
    # On a machine with one device, the way to see that `device` is used is to name one that is nowhere.
    expect_error(
        Exception,
        lambda: submission.causal_mask(6, device="nowhere"),
        mistake="causal-mask-ignores-device",
        facts={"device": "nowhere"},
    )
    made = expect(submission.causal_mask(6), "causal_mask(6)").tensor(dtype=torch.bool)
    if tuple(made.shape[-2:]) != (6, 6):
        fail(f"causal_mask(6) has shape {tuple(made.shape)}, expected a mask of 6 x 6 on the default device.")


@check("scaled_dot_product_attention", points=2)
def test_weights_of_a_query_sum_to_one(submission, draw):
    """The softmax runs over the keys: the weights of each query sum to 1."""
    query, key, value = query_key_value(draw, 3, 2)
    returned = attend(submission, query, key, value)
    weights = expect(returned[1], "attention weights", dims="batch heads query key").tensor(
        shape=(*query.shape[:-1], key.size(-2)), dtype=query.dtype
    )
    if not same(weights.sum(-1), torch.ones(query.shape[:-1], dtype=query.dtype)):
        expect_unmasked(returned, query, key, value)
    if bool((weights < 0).any()):
        fail("Some attention weights are negative; a softmax gives numbers between 0 and 1.")


@check("scaled_dot_product_attention", points=1)
def test_rows_belong_to_queries(submission, draw):
    """Row i of the weights belongs to query i: queries in another order give rows in that order."""
    length, d_k, d_v = draw.sizes(3, 5, 12)
    query = draw.normal(3, length, d_k, dtype=draw.exact)
    key = draw.normal(3, length, d_k, dtype=draw.exact)
    value = draw.normal(3, length, d_v, dtype=draw.exact)
    order = draw.permutation(length)
    _, weights = own_attention(submission, query, key, value)
    _, moved = attend(submission, query[:, order], key, value)
    expect(moved, "weights for the queries in another order", dims="batch query key").equals(
        weights[:, order], mistakes={"query-and-key-swapped": lambda: weights[..., order]}
    )


@check("scaled_dot_product_attention", points=1)
def test_leading_axes_may_be_any(submission, draw):
    """Any number of leading axes works, none included, and each slice gets its own attention."""
    query, key, value = query_key_value(draw, 4, 2, 3)
    flat = [tensor.flatten(0, 2) for tensor in (query, key, value)]
    output, weights = own_attention(submission, *flat)
    for leading in ((), (4, 6), (4, 2, 3)):
        count = leading[0] * 6 if leading else 1
        shaped = [tensor[:count].reshape(*leading, *tensor.shape[1:]) for tensor in flat]
        found_output, found_weights = attend(submission, *shaped)
        axes = f"{len(leading) + 2} axes"
        expect(found_weights, f"weights of inputs with {axes}").equals(
            weights[:count].reshape(*leading, *weights.shape[1:])
        )
        expect(found_output, f"output of inputs with {axes}").equals(
            output[:count].reshape(*leading, *output.shape[1:])
        )


@check("scaled_dot_product_attention", points=1)
def test_masks_broadcast_to_the_scores(submission, draw):
    """Masks with axes of size 1, or with fewer axes than the scores, count for all of them."""
    query, key, value = query_key_value(draw, 2, 3)
    q_len, k_len = query.size(-2), key.size(-2)
    for shape in ((2, 1, 1, k_len), (1, 1, q_len, k_len), (q_len, k_len), (1, 3, 1, k_len), (k_len,)):
        expect_masked(submission, query, key, value, draw.mask(*shape))


@check("scaled_dot_product_attention", points=1)
def test_masks_of_numbers_mean_the_same(submission, draw):
    """Masks of 0 and 1, integers or floats, mean the same as False and True."""
    query, key, value = query_key_value(draw, 3)
    mask = covering_mask(draw, 3, query.size(-2), key.size(-2))
    expect_masked(submission, query, key, value, mask)
    for dtype in (torch.int64, torch.uint8, torch.float32):
        name = str(dtype).removeprefix("torch.")
        with raising_means("number-mask-refused", dtype=name):
            returned = attend(submission, query, key, value, mask.to(dtype))
        weights = expect(returned[1], "attention weights").value()
        if isinstance(weights, torch.Tensor) and bool(
            (weights == weights[..., :1]).all() | weights.isnan().all()
        ):
            mistake("bitwise-not-of-numbers", dtype=name)
        expect_masked(submission, query, key, value, mask, returned)


@check("scaled_dot_product_attention", points=2)
def test_masks_never_enlarge_the_scores(submission, draw):
    """A mask that would enlarge the scores, or add an axis to them, raises ValueError."""
    q_len, k_len, d_k, d_v = sizes(draw)
    for leading, queries, shape in (
        ((1, 3), q_len, (2, 1, 1, k_len)),
        ((2, 1), q_len, (2, 3, 1, k_len)),
        ((2,), 1, (2, q_len, k_len)),
        ((2,), q_len, (1, 1, q_len, k_len)),
        ((), q_len, (2, q_len, k_len)),
    ):
        query = draw.normal(*leading, queries, d_k)
        key, value = draw.normal(*leading, k_len, d_k), draw.normal(*leading, k_len, d_v)
        attend(submission, query, key, value, draw.mask(queries, k_len))  # one that fits does not raise
        expect_error(
            ValueError,
            lambda: submission.scaled_dot_product_attention(query, key, value, draw.mask(*shape)),  # noqa: B023
            mistake="mask-enlarges-scores",
            facts={"mask": shape, "scores": (*leading, queries, k_len)},
        )


@check("scaled_dot_product_attention", points=1)
def test_a_mask_that_does_not_fit_is_named(submission, draw):
    """The ValueError for a mask that does not fit names its shape and the shape of the scores."""
    query, key, value = draw.normal(3, 13, 8), draw.normal(3, 11, 8), draw.normal(3, 11, 6)
    mask = draw.mask(5, 1, 13, 11)
    attend(submission, query, key, value, mask[0])  # one that fits does not raise
    expect_error(
        ValueError,
        lambda: submission.scaled_dot_product_attention(query, key, value, mask),
        mentions=["3", "5", "11", "13"],
        mistake="mask-enlarges-scores",
        facts={"mask": tuple(mask.shape), "scores": (3, 13, 11)},
    )


@check("scaled_dot_product_attention", points=1)
def test_large_scores_stay_finite(submission, draw):
    """Adding a number to all scores of a query changes no weight, however large the number is."""
    query, key, value = query_key_value(draw, 3)
    # One more feature, which adds the same number to every score.
    key = torch.cat([key, torch.ones_like(key[..., :1])], dim=-1)
    outputs = []
    for number in (0.0, 3000.0, -3000.0):
        shifted = torch.cat([query, torch.full_like(query[..., :1], number)], dim=-1)
        output, _ = attend(submission, shifted, key, value)
        found = expect(output, "output").tensor(
            shape=(*query.shape[:-1], value.size(-1)), dtype=value.dtype, finite=False
        )
        if not bool(found.isfinite().all()):
            mistake("softmax-overflow", number=number)
        outputs.append(found)
        expect(output, f"output when every score of a query is larger by {number:g}").equals(outputs[0])


@check("scaled_dot_product_attention", points=1)
def test_masked_keys_stay_hidden_under_low_scores(submission, draw):
    """Masked keys get weight 0 also where all other scores are very low."""
    query, key, value = query_key_value(draw, 3)
    mask = covering_mask(draw, 3, query.size(-2), key.size(-2))
    visible = mask.to(query.dtype)
    nothing = torch.zeros(mask.shape, dtype=query.dtype)
    key = torch.cat([key, torch.ones_like(key[..., :1])], dim=-1)

    attend(submission, query, key[..., :-1], value)

    def weights_at(low: float, *masks: torch.Tensor) -> object:
        """The weights when every score is lower by `low`."""
        shift = torch.full_like(query[..., :1], -low * key.size(-1) ** 0.5)
        return attend(submission, torch.cat([query, shift], dim=-1), key, value, *masks)[1]

    what = "weights of the masked keys"
    expect(weights_at(30.0, mask), what, dims="batch query key").equals(
        nothing,
        only=~mask,
        mistakes={
            "masked-scores-zero": lambda: (1 - visible) / (1 - visible).sum(-1, keepdim=True),
            "mask-has-no-effect": lambda: expect(weights_at(30.0), "attention weights").tensor(),
        },
    )
    expect(weights_at(2e4, mask), what, dims="batch query key").equals(
        nothing,
        only=~mask,
        mistakes={"mask-fill-too-small": lambda: (1 - visible) / (1 - visible).sum(-1, keepdim=True)},
    )


def padded_on_the_left(draw):
    """Query, key and value, and the mask of a decoder: causal, with two rows padded on the left."""
    length, d_k, d_v = draw.sizes(3, 5, 12)
    query = draw.normal(3, length, d_k, dtype=draw.exact)
    key = draw.normal(3, length, d_k, dtype=draw.exact)
    value = draw.normal(3, length, d_v, dtype=draw.exact)
    tokens = draw.tokens([length, length - 2, length - 1], vocab=20, side="left")
    return query, key, value, (right_padding_mask(tokens, 0) & right_causal_mask(length))[:, 0]


@check("scaled_dot_product_attention", points=2)
def test_a_query_that_sees_nothing_is_finite(submission, draw):
    """A query that may see nothing gets a finite output, and the other queries are not disturbed."""
    query, key, value, mask = padded_on_the_left(draw)
    sees = mask.any(-1).expand(query.shape[:-1])  # (batch, query)
    output, weights = attend(submission, query, key, value, mask)
    shape = (*query.shape[:-1], value.size(-1))
    found = expect(output, "output").tensor(shape=shape, dtype=value.dtype, finite=False)
    broken = ~found.isfinite().all(-1)
    if bool(broken.any()) and not bool((broken & sees).any()):
        mistake("nan-on-hidden-rows", rows=int(broken.sum()))
    if bool(broken.any()):
        fail("The output has NaN or infinity also for queries that see something.")
    expect_masked(submission, query, key, value, mask, (output, weights), only=sees[..., None])


def by_name(gradients):
    """Gradients by the name of their input."""
    if len(gradients) != 3:
        fail(f"{len(gradients)} gradients came back, expected those of query, key and value.")
    return dict(zip(("query", "key", "value"), gradients, strict=True))


@check("scaled_dot_product_attention", points=1)
def test_gradients_of_hidden_rows_are_finite(submission, draw):
    """A query that may see nothing spoils no gradient, although the loss leaves it out."""
    query, key, value, mask = padded_on_the_left(draw)
    sees = mask.any(-1).expand(query.shape[:-1])
    cotangent = draw.normal(*query.shape[:-1], value.size(-1), dtype=query.dtype) * sees[..., None]
    found = submission.gradients(
        submission.scaled_dot_product_attention, query, key, value, mask, cotangent=cotangent
    )
    if all(gradient is None for gradient in found.inputs):
        mistake("gradients-cut", inputs="query, key and value")
    output, _ = found.output
    finite = expect(output, "output").tensor(finite=False).isfinite()
    broken = [
        name
        for name, gradient in by_name(found.inputs).items()
        if gradient is not None and not bool(gradient.isfinite().all())
    ]
    if broken and bool(finite.all()):
        mistake("nan-in-gradients", inputs=" and ".join(broken))
    if broken and finite.shape == cotangent.shape and bool(finite[sees].all()):
        mistake("nan-on-hidden-rows", rows=int((~finite.all(-1)).sum()))
    if broken:
        fail(f"The gradient of {' and '.join(broken)} has NaN or infinity.")


@check("scaled_dot_product_attention", points=1)
def test_gradients_reach_the_inputs(submission, draw):
    """Gradients flow back to query, key and value, as through PyTorch's own attention."""
    query, key, value = query_key_value(draw, 3)
    cotangent = draw.normal(*query.shape[:-1], value.size(-1), dtype=query.dtype)
    found = submission.gradients(
        submission.scaled_dot_product_attention, query, key, value, cotangent=cotangent
    )
    output, _ = found.output
    gradients = by_name(found.inputs)
    cut = [name for name, gradient in gradients.items() if gradient is None or not bool(gradient.any())]
    if cut:
        mistake("gradients-cut", inputs=" and ".join(cut))
    leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    right_output, _ = right_attention(*leaves)
    if not agrees(output, right_output.detach()):
        return  # the gradient of something else: other checks say what is wrong with it
    right = torch.autograd.grad((right_output * cotangent).sum(), leaves)
    for name, expected in by_name(right).items():
        expect(gradients[name], f"gradient of {name}").equals(expected)


@check("scaled_dot_product_attention", points=2)
def test_half_precision_works(submission, draw):
    """float16 and bfloat16 inputs work, with and without a mask, and give outputs of their own dtype."""
    wide = [tensor * 0.5 for tensor in query_key_value(draw, 3)]
    mask = covering_mask(draw, 3, wide[0].size(-2), wide[1].size(-2))
    for dtype, atol in ((torch.float16, 1e-2), (torch.bfloat16, 6e-2)):
        narrow = [tensor.to(dtype) for tensor in wide]
        name = str(dtype).removeprefix("torch.")
        for masks in ((), (mask,)):
            right, _ = own_attention(submission, *(tensor.to(draw.exact) for tensor in narrow), *masks)
            with raising_means("mask-fill-overflows-half", ["overflow"], dtype=name):
                output, weights = attend(submission, *narrow, *masks)
            expect(weights, f"{name} weights").tensor(dtype=dtype)
            expect(output, f"{name} output", dims="batch query d_v").equals(
                right.to(dtype), atol=atol, rtol=atol
            )


@check("scaled_dot_product_attention", points=1)
def test_inputs_are_left_alone(submission, draw):
    """Query, key, value and mask are the same after the call as before."""
    arguments = query_key_value(draw, 3)
    arguments += (covering_mask(draw, 3, arguments[0].size(-2), arguments[1].size(-2)),)
    output, _ = attend(submission, *arguments[:3])
    expect(output, "output").tensor(shape=(*arguments[0].shape[:-1], arguments[2].size(-1)))
    _, after = submission.inputs_after(submission.scaled_dot_product_attention, *arguments)
    changed = []
    for index, name in enumerate(("query", "key", "value", "mask")):
        before = arguments[index]
        found = expect(after[index], f"{name} after the call").tensor(shape=tuple(before.shape), finite=False)
        if not torch.equal(found, before):
            changed.append(name)
    if changed:
        mistake("inputs-modified", inputs=" and ".join(changed))


@check("scaled_dot_product_attention", points=1)
def test_one_token_attends_to_itself(submission, draw):
    """With a single key, in a batch of 1, its weight is 1 and the output is its value."""
    query, key, value = draw.normal(1, 1, 7), draw.normal(1, 1, 7), draw.normal(1, 1, 5)
    output, _ = attend(submission, query, key, value, right_causal_mask(1)[0])
    expect(output, "output", dims="batch query d_v").equals(value)


@check("SingleHeadAttention", points=2)
def test_layer_hands_the_mask_on(submission, draw):
    """Causal masks, padding masks and both together reach the attention of the layer."""
    layer, weights, x = layer_and_input(submission, draw)
    length = x.size(1)
    causal = right_causal_mask(length)[0]
    padding = right_padding_mask(draw.tokens([length, length - 3], vocab=20), 0)[:, 0]
    for mask in (causal, padding, causal & padding):
        returned = layer(x, mask=mask)
        expect_layer(submission, returned, projections(weights, x), mask, layer_mistakes(weights, x, mask))


@check("SingleHeadAttention", points=1)
def test_every_projection_learns(submission, draw):
    """The loss reaches the weights of all three projections."""
    layer, _, x = layer_and_input(submission, draw)
    cotangent = draw.normal(*x.shape[:-1], layer_width(layer), dtype=x.dtype)
    found = submission.gradients(layer, x, cotangent=cotangent)
    # The bias of the keys adds the same to every score of a query, so its gradient is 0 by nature.
    idle = [
        name
        for name, gradient in found.parameters.items()
        if name != "w_k.bias" and (gradient is None or not bool(gradient.any()))
    ]
    if idle:
        fail(
            f"No gradient reaches {' and '.join(idle)}.",
            next_step="Look for a projection that forward() leaves out.",
        )


def layer_width(layer) -> int:
    """d_k, from the shape of the layer's weights."""
    return layer.shapes()["w_v.bias"][0]
