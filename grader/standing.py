"""A model as it stands, ready to be asked: without gradients, in eval mode, in float64 where that is possible."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn


class Standing:
    """A context that gives `(call, inputs)`: a call that returns the tensor of logits, and the inputs for it.

    What is called is a copy in float64, or the model itself where no copy runs (a plain function, a module that cannot
    be copied, a device or a model that knows no float64). Of a function, the modules that it names are put into eval
    mode. On leaving, the modes of all modules and the random state are those of before.
    """

    def __init__(self, model: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
        self.model = model
        self.inputs = inputs
        self.modes: list[tuple[nn.Module, bool]] = []
        self.contexts: list[Any] = []

    def __enter__(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        devices = [each.device for each in self.inputs if each.device.type == "cuda"]
        self.contexts = [torch.random.fork_rng(devices=devices), torch.no_grad()]
        for context in self.contexts:
            context.__enter__()
        try:
            return self._in_float64() or self._as_it_is()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for module, mode in self.modes:
            module.training = mode
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)

    def _in_float64(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]] | None:
        """The copy, when it runs and answers in float64."""
        module = _module_of(self.model)
        if module is None:
            return None
        inputs = tuple(each.double() if each.is_floating_point() else each for each in self.inputs)
        try:
            twin = copy.deepcopy(module).double().eval()
            call = _logits_of(twin if module is self.model else getattr(twin, self.model.__name__))
            exact = call(*inputs).dtype == torch.float64
        except Exception:  # it then runs as it is, where the same error, if it is the model's own, is raised
            return None
        return (call, inputs) if exact else None

    def _as_it_is(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        modules = dict.fromkeys(each for module in _modules_behind(self.model) for each in module.modules())
        self.modes = [(module, module.training) for module in modules]
        for module in modules:
            module.training = False
        return _logits_of(self.model), self.inputs


def _module_of(model: Callable[..., Any]) -> nn.Module | None:
    """The module that is called, by itself or through one of its methods."""
    owner = model if isinstance(model, nn.Module) else getattr(model, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def _modules_behind(model: Callable[..., Any]) -> list[nn.Module]:
    """The module that is called, or those that a function names."""
    module = _module_of(model)
    if module is not None:
        return [module]
    if not inspect.isfunction(model):
        return []
    variables = inspect.getclosurevars(model)
    named = [*variables.nonlocals.values(), *variables.globals.values()]
    return [each for each in named if isinstance(each, nn.Module)]


def _logits_of(model: Callable[..., Any]) -> Callable[..., Tensor]:
    """The call whose result is the tensor alone: what `logits` names, else the first of a tuple."""

    def call(*inputs: Tensor) -> Tensor:
        output = model(*(each.clone() for each in inputs))
        output = getattr(output, "logits", output)
        if isinstance(output, (tuple, list)) and output:
            output = output[0]
        if not isinstance(output, Tensor):
            raise ValueError(f"the model returned a {type(output).__name__}, and should return a tensor.")
        return output

    return call
