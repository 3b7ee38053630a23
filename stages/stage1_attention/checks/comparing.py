"""How the checks of this stage look at what came back, so that one mistake is charged once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.checks import expect, fail, mistake
from grader.submission import Raising
from grader.tolerance import close, tolerance

from .oracles import remaining, right_attention
from .wrong_answers import Ways, scale_facts, wrong_masked_weights, wrong_weights


def axes(weights: Tensor) -> str:
    """Names for the axes of a tensor of weights."""
    return " ".join([*("batch", "heads")[: weights.dim() - 2], "query", "key"])


def agrees(returned: Any, right: Tensor, only: Tensor | None = None) -> bool:
    """Whether a returned value is the right tensor; for everything else there is `expect`."""
    value = expect(returned, "the value").value()
    if not isinstance(value, Tensor) or value.shape != right.shape or value.dtype != right.dtype:
        return False
    equal = close(value, right, *tolerance(right.dtype))
    return bool((equal if only is None else equal | ~only).all())


def attend(
    submission: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Any, Any]:
    """The learner's (output, weights)."""
    masks = () if mask is None else (mask,)
    try:
        returned = submission.scaled_dot_product_attention(query, key, value, *masks)
    except Raising as failure:
        if query.dim() != 3 and needs_three_axes(submission, query, key, value):
            failure.mistake, failure.facts = "fixed-axes", {"axes": query.dim()}
        elif has_rows_for_keys(submission, query, key, value):
            failure.mistake = "query-and-key-swapped"
        raise
    output, weights = output_and_weights(
        returned,
        output_shape=(*query.shape[:-1], value.size(-1)),
        weights_shape=(*query.shape[:-1], key.size(-2)),
        only_output="attention-returns-only-output",
        swapped="output-and-weights-swapped",
    )
    found = expect(weights, "attention weights").value()
    if mask is None and isinstance(found, Tensor) and found.dim() and found.size(-1) > 1:
        # Zeros and plain averages are the same in every order, shape and dtype; they must not pass for that.
        if bool((found == found[..., :1]).all()):
            fail(
                "Every key got the same weight, whatever the query.",
                next_step="Let the weights depend on query and key.",
            )
    return output, weights


def needs_three_axes(submission: Any, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the learner's function raises on these inputs and works when they have three axes."""
    three = [tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (query, key, value)]
    try:
        submission.scaled_dot_product_attention(*three)
    except Raising:
        return False
    try:
        submission.scaled_dot_product_attention(query, key, value)
    except Raising:
        return True
    return False


def has_rows_for_keys(submission: Any, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the learner's weights are `(..., k_len, q_len)`: then it works with as many values as queries."""
    q_len, k_len = query.size(-2), key.size(-2)
    values = value[..., :1, :].expand(*value.shape[:-2], q_len, value.size(-1))
    try:
        result = expect(submission.scaled_dot_product_attention(query, key, values), "the result").value()
    except Raising:
        return False
    weights = result[1] if isinstance(result, tuple) and len(result) == 2 else None
    return q_len != k_len and isinstance(weights, Tensor) and tuple(weights.shape[-2:]) == (k_len, q_len)


def output_and_weights(
    returned: Any,
    output_shape: Sequence[int],
    weights_shape: Sequence[int],
    only_output: str,
    swapped: str,
    before_blaming: Callable[[], Any] = lambda: None,
) -> tuple[Any, Any]:
    """The two parts of what came back; the two ways of returning something else are mistakes of their own.
    `before_blaming` may find that somebody else is to blame."""
    if isinstance(expect(returned, "the result").value(), Tensor):
        before_blaming()
        mistake(only_output)
    output, weights = returned
    found = [expect(part, "the result").value() for part in (output, weights)]
    shapes = [tuple(part.shape) for part in found if isinstance(part, Tensor)]
    if tuple(output_shape) != tuple(weights_shape) and shapes == [tuple(weights_shape), tuple(output_shape)]:
        before_blaming()
        mistake(swapped, output_shape=tuple(output_shape), weights_shape=tuple(weights_shape))
    return output, weights


def expect_unmasked(returned: tuple[Any, Any], query: Tensor, key: Tensor, value: Tensor) -> None:
    """(output, weights) are what PyTorch's attention gives without a mask."""
    output, weights = returned
    right_output, right_weights = right_attention(query, key, value)
    found = expect(weights, "attention weights").value()
    expect(weights, "attention weights", dims=axes(right_weights)).equals(
        right_weights,
        mistakes=wrong_weights(query, key, value, found),
        facts=scale_facts(query, key, value, found),
    )
    expect(output, "output", dims=axes(right_weights).replace("key", "d_v")).equals(right_output)


def expect_masked(
    submission: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    returned: tuple[Any, Any] | None = None,
    only: Tensor | None = None,
) -> None:
    """The mask does what it should. Scores that are scaled wrongly are not charged here again: what is not
    right by PyTorch's attention may still be right by the function's own unmasked weights. `only` says which
    queries count, `(..., q_len, 1)`."""
    output, weights = returned or attend(submission, query, key, value, mask)
    right_output, right_weights = right_attention(query, key, value, mask)
    if agrees(weights, right_weights, only) and agrees(output, right_output, only):
        return
    dims = axes(right_weights)
    _, free = attend(submission, query, key, value)
    unmasked = expect(free, "attention weights without a mask", dims=dims).tensor(
        shape=tuple(right_weights.shape), dtype=right_weights.dtype
    )
    right_weights = remaining(unmasked, mask.bool())
    found = expect(weights, "attention weights", dims=dims).equals(
        right_weights, mistakes=wrong_masked_weights(query, key, mask, unmasked), only=only
    )
    expect(output, "output", dims=dims.replace("key", "d_v")).equals(found @ value, only=only)


def expect_mask(returned: Any, right: Tensor, what: str, mistakes: Ways, additive: str) -> None:
    """A boolean mask; one of 0 and minus infinity (to be added to scores) is a mistake of its own."""
    value = expect(returned, what).value()
    if isinstance(value, Tensor) and value.is_floating_point() and value.numel() == right.numel():
        hidden = ~right.reshape(value.shape)
        if bool((value[~hidden] == 0).all()) and bool((value[hidden] < -1000).all()):
            mistake(additive)
    expect(returned, what, dims="batch heads query key").equals(right, mistakes=mistakes)


def expect_layer(
    submission: Any,
    returned: Any,
    projected: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    others: dict[str, tuple[Tensor, Tensor, Tensor, Tensor | None]],
) -> None:
    """A layer's (output, weights) are attention over its projections: PyTorch's, or else the learner's own,
    so that a mistake there is not charged here again. `others` are the arguments that each mistake would hand
    on; if the learner's function cannot tell them apart, the layer cannot be judged yet."""
    right_output, right_weights = right_attention(*projected, mask)
    output, weights = output_and_weights(
        returned,
        output_shape=right_output.shape,
        weights_shape=right_weights.shape,
        only_output="single-head-returns-only-output",
        swapped="single-head-output-and-weights-swapped",
        before_blaming=lambda: attend(submission, *projected, mask),
    )
    if agrees(weights, right_weights) and agrees(output, right_output):
        return
    own_output, own_weights = own_attention(submission, *projected, mask)
    wrong = {code: own_attention(submission, *arguments) for code, arguments in others.items()}
    for other_output, other_weights in wrong.values():
        if same(other_output, own_output) and same(other_weights, own_weights):
            fail(
                "The layer cannot be judged before scaled_dot_product_attention works: "
                "it gives the same for different queries, keys, values or masks.",
                next_step="Mend scaled_dot_product_attention first.",
            )
    dims = axes(own_weights)
    expect(weights, "attention weights", dims=dims).equals(
        own_weights, mistakes={code: (lambda w=pair[1]: w) for code, pair in wrong.items()}
    )
    expect(output, "output", dims=dims.replace("key", "d_k")).equals(
        own_output, mistakes={code: (lambda o=pair[0]: o) for code, pair in wrong.items()}
    )


def own_attention(
    submission: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The learner's own function as plain tensors."""
    output, weights = attend(submission, query, key, value, mask)
    return (
        expect(output, "output of scaled_dot_product_attention").tensor(),
        expect(weights, "weights of scaled_dot_product_attention").tensor(),
    )


def same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and bool(close(first, second, *tolerance(first.dtype)).all())
