"""Holds the parts of the model against PyTorch from the inside out, so that a fault is named where it sits.

A decoder whose layers ignore their mask gives exactly what a decoder gives that never hands the mask on. So
when a decoder is wrong, a lone layer is looked at first. (`model_inside_out` does the same for the model.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake
from grader.failure import CheckFailed

from .oracles import Shapes, TorchDecoder, Weights, layer_shapes, part, stack_shapes
from .wrong_layers import Case, attend, feed, layer_mistakes, nearest, norm, stack_mistakes

BATCH, D_MODEL, HEADS, D_FF, LAYERS = 2, 12, 3, 20, 2
TGT_LEN, SRC_LEN, SAME_LEN = 5, 7, 6
VECTORS = "batch target feature"


# Making what is called -------------------------------------------------------------------------------------


def causal(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril()


def make_case(
    draw: Any,
    shapes: Shapes,
    norm_first: bool = True,
    activation: str = "relu",
    lengths: tuple[int, int] = (SAME_LEN, SAME_LEN),
    masked: bool = True,
) -> Case:
    """Weights and inputs; the target's mask is causal with padding on the right, the memory's is random."""
    tgt_len, src_len = lengths
    x, memory = (draw.normal(BATCH, length, D_MODEL, dtype=draw.exact) for length in lengths)
    real = torch.arange(tgt_len) < torch.tensor([tgt_len, tgt_len - 2])[:, None]
    return Case(
        draw.weights(shapes, dtype=draw.exact),
        HEADS,
        norm_first,
        x,
        memory,
        causal(tgt_len) & real[:, None, None] if masked else None,
        draw.mask(BATCH, 1, 1, src_len) if masked else None,
        activation,
    )


def layer_case(draw: Any, norm_first: bool = True, **options: Any) -> Case:
    return make_case(draw, layer_shapes(D_MODEL, D_FF, cross=True), norm_first, **options)


def stack_case(draw: Any, norm_first: bool = True, **options: Any) -> Case:
    return make_case(draw, stack_shapes(LAYERS, D_MODEL, D_FF, norm_first, cross=True), norm_first, **options)


def make_layer(submission: Any, case: Case, dropout: float = 0.0) -> Any:
    """A decoder layer with the case's weights, in eval mode."""
    layer = submission.DecoderLayer(
        D_MODEL, HEADS, D_FF, dropout=dropout, norm_first=case.norm_first, activation=case.activation
    )
    return loaded(layer, case.weights, case.x.dtype)


def make_decoder(submission: Any, case: Case, dropout: float = 0.0) -> Any:
    """A decoder with the case's weights, in eval mode."""
    decoder = submission.Decoder(
        LAYERS, D_MODEL, HEADS, D_FF, dropout=dropout, norm_first=case.norm_first, activation=case.activation
    )
    has_norm = "norm.weight" in decoder.shapes()
    if has_norm != case.norm_first:
        mistake("decoder-final-norm-with-post-norm" if has_norm else "decoder-final-norm-missing")
    return loaded(decoder, case.weights, case.x.dtype)


def loaded(module: Any, weights: Weights, dtype: torch.dtype) -> Any:
    module.to(dtype)
    module.load_state_dict(weights)
    module.eval()
    return module


# Comparing -------------------------------------------------------------------------------------------------


def same(first: Tensor, second: Tensor) -> bool:
    """Equal but for rounding."""
    return first.shape == second.shape and torch.allclose(first.double(), second.double(), rtol=0, atol=1e-6)


def right(case: Case) -> Tensor:
    """What PyTorch's layer or decoder gives."""
    oracle = TorchDecoder(case.weights, HEADS, case.norm_first, case.activation)
    return oracle(case.x, case.memory, case.tgt_mask, case.memory_mask)


def accepts(call: Callable[[], Any]) -> bool:
    """The call gives something back instead of raising."""
    try:
        call()
    except CheckFailed:
        return False
    return True


def layer_equals(submission: Any, draw: Any, case: Case) -> None:
    """A lone decoder layer gives what PyTorch's gives, with the same weights."""
    layer = make_layer(submission, case)
    returned = layer(case.x, case.memory, case.tgt_mask, case.memory_mask)
    expected = right(case)
    look = expect(returned, "the output of the decoder layer", dims=VECTORS)
    if not same(look.tensor(finite=False), expected):
        layer_drops_in_training_only(submission, draw)
    try:
        look.equals(expected, mistakes=layer_mistakes(returned, case))
    except CheckFailed as failure:
        if failure.mistake is None:
            earlier_parts_are_right(layer, case)
        raise


def earlier_parts_are_right(layer: Any, case: Case) -> None:
    """The parts that come from earlier stages do what PyTorch's do; a learner may have broken one there."""
    weights = {name: part(case.weights, name) for name in ("self_attn", "cross_attn", "feed_forward")}
    hidden = causal(case.x.shape[1])
    for name in ("self_attn", "cross_attn"):
        for mask in (None, hidden):
            output, _ = getattr(layer, name)(case.x, case.x, case.x, *(() if mask is None else (mask,)))
            expected = attend(weights[name], case.x, case.x, case.x, mask, case.num_heads)
            part_is_right(
                name, output, expected, "nn.MultiheadAttention", "stage 2", ", or of stage 1 below it"
            )
    for name in NORMS:
        part_is_right(
            name, getattr(layer, name)(case.x), norm(case.weights, name, case.x), "nn.LayerNorm", "stage 4"
        )
    expected = feed(weights["feed_forward"], case.x, case.activation)
    part_is_right("feed_forward", layer.feed_forward(case.x), expected, "PyTorch's layers", "stage 4")


def part_is_right(
    name: str, returned: Any, expected: Tensor, judge: str, stage: str, below: str = ""
) -> None:
    """A part of a layer, called by itself, gives what PyTorch's gives."""
    found = expect(returned, f"the output of {name}").value()
    if not isinstance(found, Tensor) or not same(found, expected):
        fail(
            f"The {name} inside your layer, called by itself, differs from {judge} with the same weights. "
            f"That is code of {stage}{below}.",
            next_step=f"Mend {stage} first: nox -s {stage.replace(' ', '')} tells more.",
        )


def layer_is_right(submission: Any, draw: Any, norm_first: bool = True, activation: str = "relu") -> None:
    """With equal lengths and both masks: every known mistake of a layer shows, and no shape stops it."""
    layer_equals(submission, draw, layer_case(draw, norm_first, activation=activation))


def stack_equals(submission: Any, draw: Any, case: Case) -> None:
    """A lone decoder gives what PyTorch's gives, with the same weights."""
    returned = make_decoder(submission, case)(case.x, case.memory, case.tgt_mask, case.memory_mask)
    expected = right(case)
    look = expect(returned, "the output of the decoder", dims=VECTORS)
    if not same(look.tensor(finite=False), expected):
        layer_is_right(submission, draw, case.norm_first, case.activation)
    look.equals(expected, mistakes=stack_mistakes(returned, case))


def stack_is_right(submission: Any, draw: Any, norm_first: bool = True, activation: str = "relu") -> None:
    """With equal lengths and both masks."""
    stack_equals(submission, draw, stack_case(draw, norm_first, activation=activation))


# Dropout ---------------------------------------------------------------------------------------------------


def steady(module: Any, *inputs: Tensor) -> bool:
    """Two calls with the same inputs give the same."""
    first, second = (expect(module(*inputs), "the output").tensor() for _ in range(2))
    return same(first, second)


def layer_drops_in_training_only(submission: Any, draw: Any) -> None:
    """A layer drops nothing in eval mode, and nothing with dropout 0."""
    case = layer_case(draw, masked=False)
    if not steady(make_layer(submission, case, dropout=0.5), case.x, case.memory):
        mistake("decoder-dropout-in-eval")
    layer = make_layer(submission, case)
    layer.train()
    if not steady(layer, case.x, case.memory):
        mistake("decoder-dropout-fixed")
    expect(layer(case.x, case.memory), "the output in training", dims=VECTORS).tensor(tuple(case.x.shape))


class Left(NamedTuple):
    """What is left of a layer in training with dropout 1; by default the stream and nothing else."""

    biases: tuple[str, ...] = ()  # branches whose inside drops, but whose result does not: a bias stays
    emptied: tuple[str, ...] = ()  # branches after whose sum the stream itself is dropped
    last: bool = False  # what the layer returns is dropped


NORMS = {"norm1": "self_attn.w_o", "norm2": "cross_attn.w_o", "norm3": "feed_forward.linear2"}
SOME_NORMS = [tuple(some) for count in (3, 2, 1) for some in itertools.combinations(NORMS, count)]

DROPOUT_FLAWS: dict[str, list[Left]] = {
    "decoder-dropout-on-residual": [Left(last=True), *(Left(emptied=some) for some in SOME_NORMS)],
    "decoder-branch-not-dropped": [Left(biases=some) for some in SOME_NORMS],
}


def left_over(case: Case, left: Left) -> Tensor:
    """The output of a layer in training with dropout 1."""
    stream = case.x
    for name, layer in NORMS.items():
        if name in left.biases:
            stream = stream + case.weights[f"{layer}.bias"]
        if name in left.emptied:
            stream = torch.zeros_like(stream)
        if not case.norm_first:
            stream = norm(case.weights, name, stream)
    return torch.zeros_like(stream) if left.last else stream


def dropout_is_right(submission: Any, draw: Any) -> None:
    """Of a lone layer, then of a lone decoder."""
    layer_drops_branches(submission, draw)
    stack_drops(submission, draw)


def layer_drops_branches(submission: Any, draw: Any, norm_first: bool = True) -> None:
    """In training with dropout 1 every branch is empty, and the stream alone is left."""
    layer_drops_in_training_only(submission, draw)
    case = layer_case(draw, norm_first, masked=False)
    layer = make_layer(submission, case, dropout=1.0)
    layer.train()
    returned = layer(case.x, case.memory)
    expected = left_over(case, Left())
    look = expect(returned, "the output in training with dropout 1", dims=VECTORS)
    if not same(look.tensor(finite=False), expected):
        layer_is_right(submission, draw, norm_first)
    mistakes = {
        code: partial(nearest, returned, left_over, case, flaws) for code, flaws in DROPOUT_FLAWS.items()
    }
    look.equals(expected, mistakes=mistakes)

    attention = {name: getattr(layer, name)(case.x, case.x, case.x) for name in ("self_attn", "cross_attn")}
    inside = {name: output for name, (output, _) in attention.items()}
    inside["feed_forward"] = layer.feed_forward(case.x)
    for name, output in inside.items():
        found = expect(output, f"the output of {name} with dropout 1").tensor(tuple(case.x.shape))
        if not same(found, found[:1, :1].expand_as(found)):  # only a bias is left, the same everywhere
            mistake("decoder-dropout-not-handed-on", part=name)


WRITTEN_OUT = {"dropout": 0.1, "norm_first": True}
"""The defaults, as arguments."""


def name_other_defaults(default: Any, written_out: Any, code: str, *inputs: Tensor) -> None:
    """Ends the check when a layer made with defaults is not what one is that was given `WRITTEN_OUT`.

    Both have the weights of `constant_attention`. Where the second one is no pre-norm layer at the rate 0.1 either,
    something else is wrong, and other checks say what.
    """
    if settings_seen(written_out, *inputs) != WRITTEN_OUT:
        return
    seen = settings_seen(default, *inputs)
    for argument, value in WRITTEN_OUT.items():
        if seen[argument] != value:
            mistake(code, argument=argument, seen=seen[argument], default=value)


def settings_seen(layer: Any, *inputs: Tensor) -> dict[str, Any]:
    """What a layer of `constant_attention` does in training: a post-norm layer gives 0, a pre-norm one x and more."""
    layer.train()
    x = inputs[0]
    output = expect(layer(*inputs), "the output in training").tensor(tuple(x.shape))
    pre_norm = not same(output, torch.zeros_like(output))
    kept = float((output - x).max())
    return {"dropout": round(1 - 1 / kept, 4) if kept >= 1 and pre_norm else 0.1, "norm_first": pre_norm}


def constant_attention(shapes: Shapes, dtype: torch.dtype) -> Weights:
    """All weights 0, norms included, but each self-attention gives ones: a pre-norm layer adds 1 to its stream."""
    return {
        name: (torch.ones if name.endswith("self_attn.w_o.bias") else torch.zeros)(shape, dtype=dtype)
        for name, shape in shapes.items()
    }


def layer_has_defaults(submission: Any, draw: Any) -> None:
    """A layer made without settings is pre-norm and drops at the rate 0.1."""
    weights = constant_attention(layer_shapes(D_MODEL, D_FF, cross=True), draw.exact)
    default, written_out = (
        loaded(submission.DecoderLayer(D_MODEL, HEADS, D_FF, **settings), weights, draw.exact)
        for settings in ({}, WRITTEN_OUT)
    )
    case = layer_case(draw, masked=False)
    name_other_defaults(default, written_out, "decoder-layer-defaults", case.x, case.memory)


def stack_has_defaults(submission: Any, draw: Any) -> None:
    """So are the layers of a decoder made without settings."""
    default, written_out = (
        submission.Decoder(LAYERS, D_MODEL, HEADS, D_FF, **settings) for settings in ({}, WRITTEN_OUT)
    )
    if "norm.weight" in written_out.shapes() and "norm.weight" not in default.shapes():
        mistake("decoder-defaults", argument="norm_first", seen=False, default=True)
    weights = constant_attention(stack_shapes(LAYERS, D_MODEL, D_FF, norm_first=True, cross=True), draw.exact)
    for decoder in (default, written_out):
        loaded(decoder, weights, draw.exact)
    case = layer_case(draw, masked=False)
    name_other_defaults(default.layers[0], written_out.layers[0], "decoder-defaults", case.x, case.memory)


def stack_drops(submission: Any, draw: Any) -> None:
    """In training with dropout 1 a decoder is its last norm alone."""
    case = stack_case(draw, masked=False)
    decoder = make_decoder(submission, case, dropout=1.0)
    decoder.train()
    found = expect(decoder(case.x, case.memory), "the output of the decoder").tensor(tuple(case.x.shape))
    if not same(found, norm(case.weights, "norm", case.x)):
        layer_drops_branches(submission, draw)
        stack_is_right(submission, draw)
        mistake("decoder-settings-not-handed-on")


# Gradients -------------------------------------------------------------------------------------------------


def reached(gradient: Tensor | None) -> bool:
    return gradient is not None and bool((gradient != 0).any())


def unreached(gradients: dict[str, Tensor | None], shapes: Shapes) -> list[str]:
    """Names without a gradient. The bias of w_k cannot have one: it moves all scores of a query alike."""
    return [name for name in shapes if not name.endswith("w_k.bias") and not reached(gradients.get(name))]


def layer_learns(submission: Any, draw: Any) -> None:
    """Gradients reach every weight of a lone layer, the target and the memory."""
    case = layer_case(draw, masked=False)
    layer = make_layer(submission, case)
    cotangent = draw.normal(*case.x.shape, dtype=draw.exact)
    gradients = submission.gradients(layer, case.x, case.memory, cotangent=cotangent)
    if len(gradients.inputs) == 2 and not reached(gradients.inputs[1]):
        other = draw.normal(*case.memory.shape, dtype=draw.exact)
        before, after = (
            expect(layer(case.x, memory), "the output").tensor() for memory in (case.memory, other)
        )
        mistake("memory-ignored" if same(before, after) else "memory-detached")
    codes = {
        "feed_forward.": "decoder-feed-forward-missing",
        "norm3.": "norm3-unused",
        "norm2.": "decoder-norm-reused",
        "norm1.": "decoder-norm-reused",
        "cross_attn.": "cross-attention-shares-weights",
        "self_attn.": "cross-attention-shares-weights",
    }
    names = unreached(gradients.parameters, layer_shapes(D_MODEL, D_FF, cross=True))
    for part_name, code in codes.items():
        if any(name.startswith(part_name) for name in names):
            mistake(code)
    if not reached(gradients.inputs[0]):
        fail("No gradient reaches the target that the layer is called with.")
