"""Checks of stage 1 that learners may read."""

from grader.checks import check, expect

from .comparing import attend, expect_layer, expect_mask, expect_masked, expect_unmasked
from .layers import layer_and_input, layer_mistakes, projections
from .oracles import covering_mask, query_key_value, right_causal_mask, right_padding_mask
from .wrong_answers import wrong_causal_masks, wrong_padding_masks


@check("padding_mask", points=2)
def test_padding_mask_is_true_on_real_tokens(submission, draw):
    """The mask is True on real tokens and False on padding, with shape (batch, 1, 1, seq)."""
    tokens = draw.tokens([7, 4, 2], vocab=20)
    expect_mask(
        submission.padding_mask(tokens),
        right_padding_mask(tokens, 0),
        "the padding mask",
        wrong_padding_masks(tokens, 0),
        additive="padding-mask-additive",
    )


@check("padding_mask", points=2)
def test_padding_may_stand_anywhere(submission, draw):
    """Padding is found on the left and in between, too."""
    tokens = draw.tokens([3, 8, 5], vocab=20, side="left")
    tokens[1, 4] = 0
    expect_mask(
        submission.padding_mask(tokens),
        right_padding_mask(tokens, 0),
        "the padding mask",
        wrong_padding_masks(tokens, 0),
        additive="padding-mask-additive",
    )


@check("causal_mask", points=3)
def test_causal_mask_is_the_lower_triangle(submission, draw):
    """Position i may see 0 ... i: the lower triangle with the diagonal, with shape (1, 1, length, length)."""
    length = draw.integer(4, 9)
    expect_mask(
        submission.causal_mask(length, device=submission.device),
        right_causal_mask(length),
        "the causal mask",
        wrong_causal_masks(length),
        additive="causal-mask-additive",
    )
    expect(submission.causal_mask(1, device=submission.device), "the causal mask of length 1").equals(
        right_causal_mask(1)
    )


@check("scaled_dot_product_attention", points=3)
def test_scores_are_scaled(submission, draw):
    """The weights are softmax(query keyᵀ / sqrt(d_k)), as in PyTorch's own attention."""
    query, key, value = query_key_value(draw, 2, 3)
    expect_unmasked(attend(submission, query, key, value), query, key, value)


@check("scaled_dot_product_attention", points=2)
def test_output_averages_the_values(submission, draw):
    """The output is the average of the values by the weights that are returned."""
    query, key, value = query_key_value(draw, 2, 3)
    output, weights = attend(submission, query, key, value)
    found = expect(weights, "attention weights", dims="batch heads query key").tensor(
        shape=(*query.shape[:-1], key.size(-2)), dtype=value.dtype
    )
    expect(output, "output", dims="batch heads query d_v").equals(
        found @ value, mistakes={"scores-returned": lambda: found.softmax(-1) @ value}
    )


@check("scaled_dot_product_attention", points=2)
def test_masked_keys_get_no_weight(submission, draw):
    """Masked keys get weight 0, and the weights of the other keys still sum to 1."""
    query, key, value = query_key_value(draw, 2, 3)
    mask = covering_mask(draw, 2, 3, query.size(-2), key.size(-2))
    expect_masked(submission, query, key, value, mask)


@check("SingleHeadAttention", points=2)
def test_layer_attends_over_its_projections(submission, draw):
    """The layer is your attention over w_q(x), w_k(x) and w_v(x), with the parameters of the contract."""
    layer, weights, x = layer_and_input(submission, draw)
    expect_layer(submission, layer(x), projections(weights, x), None, layer_mistakes(weights, x, None))
