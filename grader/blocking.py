"""Takes ready-made layers out of a worker's torch: whoever calls one meets an exception instead, by whatever road.

The classes and functions are replaced where torch keeps them, and their operators are replaced in the dispatcher, so
that aliases, getattr, torch.ops and torch._C end in the same place. Only in a worker: the judge needs the real ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import warnings
from typing import Any, NoReturn

import torch

ATTENTION_OPERATORS = (
    ("scaled_dot_product_attention", "CompositeImplicitAutograd"),
    ("_scaled_dot_product_attention_math", "CompositeImplicitAutograd"),
    ("_scaled_dot_product_flash_attention_for_cpu", "CPU"),
    ("_scaled_dot_product_flash_attention", "CUDA"),
    ("_scaled_dot_product_efficient_attention", "CUDA"),
    ("_scaled_dot_product_cudnn_attention", "CUDA"),
)

OPERATORS: dict[str, tuple[tuple[str, str], ...]] = {
    "torch.nn.functional.scaled_dot_product_attention": ATTENTION_OPERATORS,
    "torch.nn.functional.multi_head_attention_forward": (
        ("_native_multi_head_attention", "CPU"),
        ("_native_multi_head_attention", "CUDA"),
    ),
    "torch.nn.TransformerEncoderLayer": (
        ("_transformer_encoder_layer_fwd", "CPU"),
        ("_transformer_encoder_layer_fwd", "CUDA"),
    ),
    "torch.nn.functional.layer_norm": (
        ("layer_norm", "CompositeImplicitAutograd"),
        ("native_layer_norm", "CPU"),
        ("native_layer_norm", "CUDA"),
    ),
    "torch.nn.functional.group_norm": (
        ("group_norm", "CompositeImplicitAutograd"),
        ("native_group_norm", "CPU"),
        ("native_group_norm", "CUDA"),
    ),
    "torch.nn.functional.instance_norm": (("instance_norm", "CompositeImplicitAutograd"),),
    "torch.nn.functional.batch_norm": (
        ("batch_norm", "CompositeImplicitAutograd"),
        ("_batch_norm_impl_index", "CompositeImplicitAutograd"),
        ("native_batch_norm", "CPU"),
        ("native_batch_norm", "CUDA"),
        ("_native_batch_norm_legit", "CPU"),
        ("_native_batch_norm_legit", "CUDA"),
    ),
    "torch.nn.functional.rms_norm": (("rms_norm", "CompositeImplicitAutograd"),),
}
"""The operators behind a function, each with the key that its kernel is registered for."""


class ForbiddenShortcut(RuntimeError):
    """A ready-made layer was called that the exercise is about writing."""


def block(names: list[str]) -> None:
    """Replaces torch's classes, functions and operators of these names in this process."""
    if not names:
        return
    # Not torch.library.Library: a submission could find it and make it take its kernels back.
    library: Any = torch._C._dispatch_library("IMPL", "aten", "", __file__, 0)  # type: ignore[attr-defined,unused-ignore]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # it stays for good, though no name leads to it
    for name in names:
        owner_name, _, last = name.rpartition(".")
        owner = owner_of(owner_name)
        ready_made = getattr(owner, last, None)
        if ready_made is None:
            continue
        stand_in = stand_in_for(name, ready_made)
        places = {
            owner_name,
            getattr(ready_made, "__module__", None) or owner_name,
            "torch._C._nn",
            "torch._C._VariableFunctions",
        }
        for place in places:
            holder = owner_of(place)
            if holder is not None and getattr(holder, last, None) is not None:
                with contextlib.suppress(
                    AttributeError, TypeError
                ):  # read-only: its operator is replaced below
                    setattr(holder, last, stand_in)
        for operator, key in OPERATORS.get(name, ()):
            if key != "CUDA" or torch.version.cuda:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that a kernel is replaced is the point
                    library.impl(operator, key, refusal(name), False)


def owner_of(name: str) -> Any:
    """A module or class of torch by its full name, or None."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ImportError:
        owner, _, last = name.rpartition(".")
        return getattr(owner_of(owner), last, None) if owner else None


def refusal(name: str) -> Any:
    """A function that refuses to stand in for the ready-made one."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise ForbiddenShortcut(f"{name} is ready-made")

    return refuse


def stand_in_for(name: str, ready_made: Any) -> Any:
    """A class or function of the same name that refuses to be used."""
    refuse = refusal(name)
    if not isinstance(ready_made, type):
        refuse.__name__ = name.rpartition(".")[2]
        return refuse

    class StandIn(torch.nn.Module):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            refuse()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            refuse()

    StandIn.__name__ = StandIn.__qualname__ = name.rpartition(".")[2]
    StandIn.__module__ = name.rpartition(".")[0]
    return StandIn
