"""What travels between the judge and a worker: frames of a JSON header and a safetensors body.

A frame is two lengths (header: 4 bytes, body: 8 bytes, big endian), the header and the body. Nothing is ever pickled
or evaluated: a value is plain data, a tensor (its bytes stand in the body) or a reference to an object that stays in
the worker.
"""

from __future__ import annotations

import math
import socket
import struct
from collections import OrderedDict
from typing import Any, Union

import msgspec

LENGTHS = struct.Struct(">IQ")
LARGEST_HEADER = 4 << 20
LARGEST_BODY = 256 << 20
LONGEST_TEXT = 1 << 20
LONGEST_MESSAGE = 500
LONGEST_NAME = 100
MOST_FRAMES = 12
MOST_SHAPES = 100
DEEPEST_NESTING = 32


class WireError(Exception):
    """A frame or a value that no honest peer sends."""


class TensorValue(msgspec.Struct, tag="tensor", tag_field="kind", frozen=True):
    index: int
    device: str = "cpu"
    order: list[int] = []
    """The order of its axes in memory, outermost first; empty for a contiguous tensor."""


class ReferenceValue(msgspec.Struct, tag="reference", tag_field="kind", frozen=True):
    """An object that lives in the worker."""

    id: int
    type: str
    module: bool = False
    """Whether it is an nn.Module."""


class TupleValue(msgspec.Struct, tag="tuple", tag_field="kind", frozen=True):
    items: list[Value]


class ListValue(msgspec.Struct, tag="list", tag_field="kind", frozen=True):
    items: list[Value]


class DictValue(msgspec.Struct, tag="dict", tag_field="kind", frozen=True):
    keys: list[Value]
    values: list[Value]


class FloatValue(msgspec.Struct, tag="float", tag_field="kind", frozen=True):
    """A float that JSON has no word for: nan, inf, -inf."""

    text: str


class DtypeValue(msgspec.Struct, tag="dtype", tag_field="kind", frozen=True):
    name: str


class DeviceValue(msgspec.Struct, tag="device", tag_field="kind", frozen=True):
    name: str


class SliceValue(msgspec.Struct, tag="slice", tag_field="kind", frozen=True):
    start: int | None
    stop: int | None
    step: int | None


Value = Union[  # noqa: UP007 - some of the names are strings to Python 3.10
    None,
    bool,
    int,
    float,
    str,
    TensorValue,
    ReferenceValue,
    TupleValue,
    ListValue,
    DictValue,
    FloatValue,
    DtypeValue,
    DeviceValue,
    SliceValue,
]


class Setup(msgspec.Struct, tag="setup", tag_field="kind", frozen=True):
    """The first message to a worker: the submission and the state of the world."""

    sources: dict[str, str]
    """Source text by path, as 'stage1_attention/attention.py'."""
    device: str
    seed: int
    display: dict[str, str] = {}
    """The file name that a traceback or debugger shows, by path; the path itself by default."""
    forbidden: list[str] = []
    """Ready-made layers to take out of torch, where the worker is a process of its own."""
    code: dict[str, bytes] = {}
    """What sources compile to, by path, as a worker said that had run nothing of them; the others are compiled."""


class Request(msgspec.Struct, tag="request", tag_field="kind", frozen=True):
    """One thing asked of a worker."""

    id: int
    op: str
    target: int | str = ""
    """A reference's id, or 'stage1_attention/attention.py:causal_mask'."""
    name: str = ""
    args: list[Value] = []
    kwargs: dict[str, Value] = {}


class Frame(msgspec.Struct, frozen=True):
    """One of the submission's own stack frames."""

    file: str
    line: int
    function: str


class Raised(msgspec.Struct, frozen=True):
    """An exception that the submission raised."""

    type: str
    bases: list[str]
    message: str
    frames: list[Frame]
    phase: str
    """'import', 'name' (not defined), 'attribute' or 'call'."""
    signature: str = ""
    """The signature of what was called."""
    names: list[str] = []
    """Names that are there, when one is missing."""


class Reply(msgspec.Struct, frozen=True):
    """The answer to one request; its id is the request's."""

    id: int
    value: Value = None
    values: list[Value] = []
    names: list[str] = []
    shapes: list[list[list[int]]] = []
    code: dict[str, bytes] = {}
    error: Raised | None = None


def pack(header: bytes, body: bytes = b"") -> bytes:
    """One frame."""
    return LENGTHS.pack(len(header), len(body)) + header + body


def lengths(prefix: bytes) -> tuple[int, int]:
    """The header's and the body's length; raises WireError when either is beyond its limit."""
    header, body = LENGTHS.unpack(prefix)
    if header > LARGEST_HEADER or body > LARGEST_BODY:
        raise WireError(f"a frame announces {header} + {body} bytes, more than a frame may have")
    return header, body


def receive(channel: socket.socket) -> tuple[bytes, bytes]:
    """One frame of any length from a peer that is trusted; raises EOFError when it hung up."""
    header, body = LENGTHS.unpack(receive_exactly(channel, LENGTHS.size))
    return receive_exactly(channel, header), receive_exactly(channel, body)


def receive_exactly(channel: socket.socket, count: int) -> bytes:
    """`count` bytes; raises EOFError when there are fewer."""
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        received = channel.recv_into(view[got:])
        if not received:
            raise EOFError
        got += received
    return bytes(data)


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


to_worker_decoder: msgspec.json.Decoder[Setup | Request] = msgspec.json.Decoder(Setup | Request)
reply_decoder = msgspec.json.Decoder(Reply)
encode_header = msgspec.json.Encoder().encode


def decode_reply(header: bytes) -> Reply:
    """A worker's reply, with every text cut to its length; raises WireError for anything that is none."""
    try:
        reply = reply_decoder.decode(header)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise WireError(f"the header is not a reply: {error}") from None
    if any(len(shapes) > MOST_SHAPES for shapes in reply.shapes):
        raise WireError("it speaks of too many shapes")
    names = [name[:LONGEST_NAME] for name in reply.names]
    return msgspec.structs.replace(reply, names=names, error=trimmed(reply.error) if reply.error else None)


def trimmed(raised: Raised) -> Raised:
    """An exception with texts of a bearable length, whatever a worker says."""
    return Raised(
        raised.type[:LONGEST_NAME],
        [base[:LONGEST_NAME] for base in raised.bases[:20]],
        raised.message[:LONGEST_MESSAGE],
        [
            Frame(frame.file[:LONGEST_NAME], frame.line, frame.function[:LONGEST_NAME])
            for frame in raised.frames[-MOST_FRAMES:]
        ],
        raised.phase[:LONGEST_NAME],
        raised.signature[:LONGEST_MESSAGE],
        [name[:LONGEST_NAME] for name in raised.names[:100]],
    )
