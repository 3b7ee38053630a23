"""What travels between the judge and a worker: frames of a JSON header and a safetensors body.

A frame is two lengths (header: 4 bytes, body: 8 bytes, big endian), the header and the body. Nothing is ever pickled
or evaluated: a value is plain data, a tensor (its bytes stand in the body) or a reference to an object that stays in
the worker.
"""

from __future__ import annotations

import socket
import struct
from typing import Union

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
