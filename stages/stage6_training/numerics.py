"""Find out where numbers stop being numbers: which tensor is the first with NaN or infinity in it.

Given, not an exercise.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

LossOf = Callable[[nn.Module], Tensor]


class NotFinite(Exception):
    """A gradient or a loss holds NaN or infinity; no weight has been changed by it."""


def stop_before_bad_steps(optimizer: torch.optim.Optimizer) -> None:
    """Have `optimizer.step()` raise `NotFinite` rather than spoil every weight with a gradient that is NaN."""

    def look(*_: Any) -> None:
        gradients = [
            p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        if not nn.utils.get_total_norm(gradients).isfinite():
            raise NotFinite

    optimizer.register_step_pre_hook(look)


def first_not_finite(model: nn.Module, loss_of: LossOf) -> str:
    """Compute a loss and its gradients once more, and name the first tensor that holds NaN or infinity.

    Weights come first, then what the modules put out, in the order of the computation, then the loss, then
    the gradients, from the loss backwards. Returns an empty text where all are finite.
    """
    for name, parameter in model.named_parameters():
        if _is_bad(parameter):
            return f"the weight {name}"
    bad: list[str] = []
    handles = [
        handle
        for name, module in model.named_modules()
        for handle in (
            module.register_forward_pre_hook(_look_at_inputs(name, bad)),
            module.register_forward_hook(_look_at_outputs(name, bad)),
        )
    ]
    handles += [
        parameter.register_hook(_look_at_gradient(f"the gradient of the weight {name}", bad))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]
    try:
        loss = loss_of(model)
        if not bad and _is_bad(loss):
            return "the loss itself; the logits are finite"
        if not bad:
            loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        model.zero_grad()
    return bad[0] if bad else ""


def _look_at_inputs(name: str, bad: list[str]) -> Callable[..., None]:
    def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        # What goes into a module was made by the one around it, unless an earlier module has been named.
        if any(map(_is_bad, inputs)):
            bad.append(f"what goes into {_shown(name)} ({type(module).__name__})")

    return look


def _look_at_outputs(name: str, bad: list[str]) -> Callable[..., None]:
    def look(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        if any(map(_is_bad, outputs)):
            bad.append(f"the output of {_shown(name)} ({type(module).__name__})")
        for part in outputs:
            if isinstance(part, Tensor) and part.requires_grad:
                part.register_hook(_look_at_gradient(f"the gradient of the output of {_shown(name)}", bad))

    return look


def _look_at_gradient(name: str, bad: list[str]) -> Callable[[Tensor], None]:
    def look(gradient: Tensor) -> None:
        if _is_bad(gradient):
            bad.append(name)

    return look


def _is_bad(value: Any) -> bool:
    # -inf in a mask that is added to the scores is meant; NaN never is.
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all())


def _shown(name: str) -> str:
    return name or "the model"
