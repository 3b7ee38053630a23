"""What MultiHeadAttention should give, by PyTorch's own layer, and the submission's layer to compare with."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks import expect, mistake, raising_means
from grader.failure import CheckFailed
from grader.submission import Raising

PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")


def shapes(d_model: int) -> dict[str, tuple[int, ...]]:
    """The state dict of MultiHeadAttention, whatever the number of heads."""
    found: dict[str, tuple[int, ...]] = {}
    for name in PROJECTIONS:
        found |= {f"{name}.weight": (d_model, d_model), f"{name}.bias": (d_model,)}
    return found


def facts(d_model: int, num_heads: int) -> dict[str, Any]:
    """What the sentences of mistakes.toml mention."""
    d_k = d_model // num_heads
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "d_k": d_k,
        "last_of_head_0": d_k - 1,
        "twice_num_heads": 2 * num_heads,
        "sqrt_d_k": math.sqrt(d_k),
        "sqrt_d_model": math.sqrt(d_model),
    }


def loaded(submission: Any, weights: dict[str, Tensor], num_heads: int, dropout: float = 0.0) -> Any:
    """The submission's layer with these weights and their dtype, in eval mode."""
    d_model = weights["w_q.weight"].shape[0]
    attention = submission.MultiHeadAttention(d_model, num_heads, dropout)
    name_structure(attention.shapes(), d_model, num_heads)
    attention.to(weights["w_q.weight"].dtype)
    attention.load_state_dict(weights)
    attention.eval()
    return attention


def name_structure(found: dict[str, tuple[int, ...]], d_model: int, num_heads: int) -> None:
    """End the check where the names and shapes of the parameters tell a known mistake."""
    expected, known = shapes(d_model), facts(d_model, num_heads)
    if num_heads > 1 and found.get("w_q.weight") == (d_model // num_heads, d_model // num_heads):
        mistake("cut-before-projecting", **known)
    absent = [name for name in expected if name not in found]
    if not absent or any(expected.get(name) != shape for name, shape in found.items()):
        return
    if absent == ["w_o.weight", "w_o.bias"]:
        mistake("no-output-projection", **known)
    if all(name.endswith(".bias") for name in absent):
        mistake("projections-without-bias", names=", ".join(absent), **known)


def named_error(call: Callable[[], Any]) -> Any:
    """What the call returns. Where PyTorch complained about a view, the check ends with that mistake."""
    with raising_means("view-after-transpose", ["view size is not compatible"]):
        return call()


def run_layer(attention: Any, query: Any, key: Any, value: Any, mask: Tensor | None = None) -> Any:
    """What the layer returns. Where it raises, the check ends with the known mistake that makes it raise."""
    try:
        return named_error(lambda: attention(query, key, value, *(() if mask is None else (mask,))))
    except Raising as failure:
        if failure.mistake is None and _wants_one_length(attention, query, key, value):
            mistake("one-length-for-all", q_len=query.shape[1], k_len=key.shape[1])
        grown = "" if mask is None else ", ".join(map(str, (mask.shape[0], 1, *mask.shape[1:])))
        if mask is not None and failure.raised is not None and grown in failure.raised.message:
            mistake("mask-given-an-axis", mask_shape=tuple(mask.shape), grown_shape=f"({grown})")
        raise


def _wants_one_length(attention: Any, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the layer is right as soon as there are as many keys as queries, and raises when there are not."""
    longest = max(query.shape[1], key.shape[1])
    if query.shape[1] == key.shape[1]:
        return False
    same = [F.pad(tensor, (0, 0, 0, longest - tensor.shape[1])) for tensor in (query, key, value)]
    try:
        output, attended = attention(*same)
        output, attended = returned(output, "output"), returned(attended, "weights")
    except CheckFailed:  # Raising is one too: then it does not work with as many keys as queries either
        return False
    if attended.dim() != 4 or query.shape[-1] % attended.shape[1] or attended.shape[-1] != longest:
        return False
    right, _ = torch_attention(attention.state_dict(), attended.shape[1], *same)
    if right.shape != output.shape or not torch.allclose(output, right, atol=1e-4):
        return False
    try:
        attention(query, key, value)
    except Raising as failure:
        return failure.raised is not None and failure.raised.type == "RuntimeError"
    return False


def returned(value: Any, what: str) -> Tensor:
    """What came back, as a tensor of any shape, to look for the nearest form of a mistake."""
    return expect(value, what).tensor(finite=False)


def torch_attention(
    weights: dict[str, Tensor],
    num_heads: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(output, weights) of nn.MultiheadAttention with these weights. mask: True = may attend."""
    layer = nn.MultiheadAttention(query.shape[-1], num_heads, batch_first=True, dtype=query.dtype).eval()
    layer.load_state_dict(
        {
            "in_proj_weight": torch.cat([weights[f"{name}.weight"] for name in PROJECTIONS[:3]]),
            "in_proj_bias": torch.cat([weights[f"{name}.bias"] for name in PROJECTIONS[:3]]),
            "out_proj.weight": weights["w_o.weight"],
            "out_proj.bias": weights["w_o.bias"],
        }
    )
    hidden = None
    if mask is not None:
        each_head = mask.expand(query.shape[0], num_heads, query.shape[1], key.shape[1])
        hidden = ~each_head.flatten(0, 1)  # PyTorch's layer hides where True
    with torch.no_grad():
        output, attention = layer(query, key, value, attn_mask=hidden, average_attn_weights=False)
    return output, attention


def own_weights(attended: Any, right: Tensor) -> Tensor:
    """The attention weights that came back, to judge the output by; the right ones where the shape is wrong.

    Whether they are right themselves is a matter of other checks, so a mistake in stage 1 costs less here.
    """
    own = expect(attended, "the attention weights").value()
    fits = isinstance(own, Tensor) and own.shape == right.shape and own.is_floating_point()
    return own.to(right.dtype) if fits else right


def under_mask(attention: Tensor, mask: Tensor) -> Tensor:
    """What a mask makes of attention weights that were computed without it: 0 where hidden, the rest sums to 1."""
    kept = attention * mask
    return kept / kept.sum(dim=-1, keepdim=True)


def output_from(weights: dict[str, Tensor], attention: Tensor, value: Tensor) -> Tensor:
    """The output that belongs to attention weights (batch, heads, q_len, k_len) and an unprojected value."""
    return project(
        weights, "w_o", merge(attention @ split(project(weights, "w_v", value), attention.shape[1]))
    )


def project(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def split(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)
