"""Turns Python values into what travels between the judge and a worker, and back; tensors go into the body."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from grader.wire import (
    DEEPEST_NESTING,
    LONGEST_MESSAGE,
    LONGEST_NAME,
    LONGEST_TEXT,
    DeviceValue,
    DictValue,
    DtypeValue,
    FloatValue,
    ListValue,
    ReferenceValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
    WireError,
)


class Encoder:
    """Turns Python values into wire values and collects their tensors for the body."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference
        """Called with an object that is no plain data; gives a ReferenceValue or raises WireError."""
        self.tensors: list[Any] = []

    def value(self, item: Any, depth: int = 0) -> Value:
        """The wire form of `item`."""
        import torch

        if depth > DEEPEST_NESTING:
            raise WireError("a value is nested too deeply")
        kind = type(item)
        if item is None or kind is bool:
            return item  # type: ignore[no-any-return]
        if kind is str:
            return item[:LONGEST_TEXT]  # type: ignore[no-any-return]
        if kind is int:
            return item if abs(item) < 1 << 63 else self._reference(item)  # type: ignore[no-any-return]
        if kind is float:
            return item if math.isfinite(item) else FloatValue(str(item))
        if isinstance(item, torch.Tensor):
            return self._tensor(item)
        if kind is tuple or (isinstance(item, tuple) and hasattr(item, "_fields")):
            return TupleValue([self.value(part, depth + 1) for part in item])
        if kind is list:
            return ListValue([self.value(part, depth + 1) for part in item])
        # A submission's own subclass of dict is an object of its own: its methods may be asked.
        if kind in (dict, OrderedDict) and all(
            key is None or type(key) in (bool, int, float, str) for key in item
        ):
            keys = [self.value(key, depth + 1) for key in item.keys()]
            return DictValue(keys, [self.value(part, depth + 1) for part in item.values()])
        if kind is torch.Size:
            return TupleValue([int(size) for size in item])
        if kind is torch.dtype:
            return DtypeValue(str(item).removeprefix("torch."))
        if kind is torch.device:
            return DeviceValue(str(item))
        if kind is slice and all(
            part is None or type(part) is int for part in (item.start, item.stop, item.step)
        ):
            return SliceValue(item.start, item.stop, item.step)
        return self._reference(item)  # type: ignore[no-any-return]

    def _tensor(self, tensor: Any) -> Value:
        import torch

        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            return self._reference(tensor)  # type: ignore[no-any-return]
        if str(tensor.dtype) not in CARRIED_DTYPES:
            return self._reference(tensor)  # type: ignore[no-any-return]
        order = memory_order(tensor)
        self.tensors.append(tensor.permute(order) if order else tensor)
        return TensorValue(len(self.tensors) - 1, tensor.device.type, order)

    def body(self) -> bytes:
        """The collected tensors as safetensors bytes."""
        if not self.tensors:
            return b""
        import torch
        from safetensors.torch import save

        with torch.no_grad():
            # A copy each: safetensors refuses tensors that share memory, views and expanded ones.
            plain = {
                str(index): tensor.detach()
                .cpu()
                .resolve_conj()
                .resolve_neg()
                .clone(memory_format=torch.contiguous_format)
                for index, tensor in enumerate(self.tensors)
            }
        return save(plain)


def memory_order(tensor: Any) -> list[int]:
    """The order in which a transposed tensor's axes lie in memory; empty for every other one."""
    if tensor.is_contiguous() or 0 in tensor.stride() or tensor.numel() == 0:
        return []
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    return order if order != list(range(tensor.dim())) else []


CARRIED_DTYPES = frozenset(
    f"torch.{name}" for name in "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
)


def load_body(body: bytes) -> list[Any]:
    """The tensors of a body, in order; raises WireError for anything malformed."""
    if not body:
        return []
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = load(body)
    except (
        SafetensorError,
        ValueError,
        TypeError,
        RuntimeError,
        KeyError,
        OverflowError,
        MemoryError,
    ) as error:
        raise WireError(f"the body is not safetensors: {str(error)[:LONGEST_MESSAGE]}") from None
    try:
        return [carried(found[str(index)]) for index in range(len(found))]
    except KeyError:
        raise WireError("the body's tensors are not numbered 0, 1, 2 ...") from None


def carried(tensor: Any) -> Any:
    """A tensor of a dtype that workers send; raises WireError for another. The bytes of truth values become 0 or 1."""
    import torch

    if str(tensor.dtype) not in CARRIED_DTYPES:
        raise WireError(f"a tensor of {tensor.dtype} does not travel")
    return tensor.view(torch.uint8) != 0 if tensor.dtype is torch.bool else tensor


class Decoder:
    """Turns wire values back into Python values."""

    def __init__(self, tensors: list[Any], reference: Any) -> None:
        self._tensors = tensors
        self._reference = reference
        """Called with a ReferenceValue; gives the object that stands for it."""

    def value(self, wire: Value, depth: int = 0) -> Any:
        """The Python value that `wire` stands for; raises WireError for one that makes no sense."""
        import torch

        if depth > DEEPEST_NESTING + 1:
            raise WireError("a value is nested too deeply")

        if wire is None or isinstance(wire, (bool, int, float, str)):
            return wire
        if isinstance(wire, TensorValue):
            if not 0 <= wire.index < len(self._tensors):
                raise WireError("a value names a tensor that the body does not have")
            tensor = self._tensors[wire.index]
            if wire.order:
                if sorted(wire.order) != list(range(tensor.dim())):
                    raise WireError("a tensor names an order that its axes cannot have")
                tensor = tensor.permute([wire.order.index(axis) for axis in range(tensor.dim())])
            tensor.seen_device = wire.device[:LONGEST_NAME]
            return tensor
        if isinstance(wire, ReferenceValue):
            return self._reference(wire)
        if isinstance(wire, TupleValue):
            return tuple(self.value(item, depth + 1) for item in wire.items)
        if isinstance(wire, ListValue):
            return [self.value(item, depth + 1) for item in wire.items]
        if isinstance(wire, DictValue):
            if len(wire.keys) != len(wire.values):
                raise WireError("a dict has more keys than values")
            # Tuples could be chosen so that all of them have one hash, and a dict of them takes minutes to make.
            if not all(key is None or isinstance(key, (bool, int, float, str)) for key in wire.keys):
                raise WireError("a dict has a key that is no plain value")
            return {key: self.value(item, depth + 1) for key, item in zip(wire.keys, wire.values)}
        if isinstance(wire, FloatValue):
            if wire.text not in ("nan", "inf", "-inf"):
                raise WireError("a float that is none")
            return float(wire.text)
        if isinstance(wire, DtypeValue):
            dtype = vars(torch).get(
                wire.name
            )  # not getattr: torch loads some of its parts when asked for them
            if not isinstance(dtype, torch.dtype):
                raise WireError("a dtype that torch does not have")
            return dtype
        if isinstance(wire, DeviceValue):
            try:
                return torch.device(wire.name)
            except (RuntimeError, ValueError, OverflowError, IndexError):
                raise WireError("a device that torch does not have") from None
        return slice(wire.start, wire.stop, wire.step)
