"""The channel: nothing that a worker can send crashes the judge, and values survive the journey."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
from collections import OrderedDict

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import limits, wire
from grader.codec import CARRIED_DTYPES, Decoder, Encoder, load_body
from grader.failure import CheckFailed
from grader.links import SocketLink, WorkerStopped
from grader.submission import Handle, Session, unwrap
from grader.wire import ReferenceValue, Reply, Request, WireError

REFERENCE = ReferenceValue(3, "numpy.ndarray")


def journey(value: object) -> object:
    """A value, encoded to bytes and decoded from them."""
    encoder = Encoder(lambda item: REFERENCE)
    header = wire.encode_header(Reply(1, encoder.value(value)))
    return Decoder(load_body(encoder.body()), lambda reference: reference).value(
        wire.decode_reply(header).value
    )


@pytest.mark.parametrize(
    "value",
    [None, True, 5, -2.5, "text 中文", float("inf"), (1, (2, [3])), [], {"a": [None]}, {1: (2,)}, torch.float64,
     torch.device("cpu"), slice(1, None, 2), torch.Size([2, 3])],
)  # fmt: skip
def test_plain_values_survive(value: object) -> None:
    back = journey(value)
    assert back == value
    assert type(back) is type(value) or isinstance(value, torch.Size)


def test_nan_survives() -> None:
    back = journey(float("nan"))
    assert back != back


@pytest.mark.parametrize("dtype", sorted(CARRIED_DTYPES))
def test_tensors_survive(dtype: str) -> None:
    kind = getattr(torch, dtype.removeprefix("torch."))
    for tensor in (
        torch.tensor([[0, 1, 1], [1, 0, 1]]).to(kind),
        torch.tensor(1).to(kind),
        torch.zeros(0, 4).to(kind),
        torch.arange(6).reshape(2, 3).to(kind).T,
        torch.ones(1, 3).to(kind).expand(4, 3),
    ):
        back = journey(tensor)
        assert isinstance(back, torch.Tensor)
        assert back.dtype == kind
        assert torch.equal(back, tensor)


def test_what_cannot_travel_becomes_a_reference() -> None:
    for value in (object(), torch.ones(2).to_sparse(), torch.ones(2, dtype=torch.complex64), 1 << 70, len):
        assert journey(value) == REFERENCE


def test_a_dict_with_methods_of_its_own_stays_an_object() -> None:
    class Vocab(dict[str, int]):
        def encode(self, tokens: list[str]) -> list[int]:
            return [self[token] for token in tokens]

    assert journey(Vocab(a=4)) == REFERENCE
    assert journey(OrderedDict(a=4)) == {"a": 4}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from(
    ["tensor", "reference", "tuple", "list", "dict", "float", "dtype", "device", "slice", "x"]
)
tagged = st.fixed_dictionaries(
    {"kind": kinds},
    optional={
        "index": st.integers(-3, 5), "device": st.text(max_size=5), "id": st.integers(), "type": st.text(max_size=5),
        "items": st.lists(json_values, max_size=3), "keys": st.lists(json_values, max_size=3),
        "values": st.lists(json_values, max_size=3), "text": st.sampled_from(["nan", "inf", "1e5", "x"]),
        "name": st.sampled_from(["float32", "cpu", "nn", "__class__", "cuda:99", "quint8"]),
        "start": st.none() | st.integers(), "stop": st.none() | st.integers(), "step": st.none() | st.integers(),
    },
)  # fmt: skip
replies = st.fixed_dictionaries(
    {"id": st.sampled_from([7, 8, True, "7"])},
    optional={
        "value": json_values | tagged, "values": st.lists(tagged | json_values, max_size=3),
        "names": st.lists(st.text(max_size=5), max_size=3),
        "shapes": st.lists(st.lists(st.lists(st.integers(-2, 1 << 70), max_size=3), max_size=3), max_size=3),
        "error": json_values, "further": json_values,
    },
)  # fmt: skip
bodies = st.binary(max_size=80) | st.builds(
    lambda header, rest: struct.pack("<Q", len(header)) + header + rest,
    st.dictionaries(st.sampled_from(["0", "1", "x"]), json_values, max_size=2).map(
        lambda item: json.dumps(item).encode()
    ),
    st.binary(max_size=16),
)


class OneReply:
    """A link whose worker answers anything with one header and one body."""

    def __init__(self, header: bytes, body: bytes) -> None:
        self._answer = header, body

    def ask(self, request: Request, body: bytes, seconds: float) -> tuple[Reply, bytes]:
        try:
            reply = wire.decode_reply(self._answer[0])
        except WireError as error:
            raise WorkerStopped("tampered", str(error)) from None
        return reply, self._answer[1]

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


LOOKS = (
    lambda handle: handle(1),
    lambda handle: handle.attribute,
    lambda handle: handle.shapes(),
    lambda handle: handle.parameters(),
    len,
)
EXAMPLES, DAMAGED = 2_500, 8


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    reply=replies.map(lambda item: json.dumps(item).encode()) | st.binary(max_size=60),
    body=bodies,
    seed=st.integers(0, 1 << 32),
)
def test_no_frame_crashes_the_judge(reply: bytes, body: bytes, seed: int) -> None:
    """22,500 frames, most of them damaged: an operation gives a value or ends the check, and raises nothing else."""
    rng = random.Random(seed)
    frames = [(reply, body), *((damaged(reply, rng), damaged(body, rng)) for _ in range(DAMAGED))]
    for header, rest in frames:
        handle = Handle(Session(OneReply(header, rest), {}, "s", "cpu", 1.0), "s/a.py:f", "f")
        try:
            unwrap(rng.choice(LOOKS)(handle))
        except CheckFailed as failure:
            assert failure.status in ("tampered", "failed", "error")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which a few are others, are missing, or are there twice."""
    found = bytearray(data)
    for _ in range(rng.randrange(3)):
        start, stop = sorted(rng.randrange(len(found) + 1) for _ in range(2))
        piece = bytes(found[start : min(stop, start + 4)])
        found[start : start + len(piece)] = rng.choice([b"", piece * 2, rng.randbytes(len(piece)), b"9"])
    return bytes(found)


@pytest.fixture
def no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is played by this process: it would die of the signal that asks for a stack, and its other tests
    may have used more than a worker may."""
    monkeypatch.setattr(SocketLink, "_where", lambda self: None)
    for used in ("resident_bytes", "written_bytes", "thread_count"):
        monkeypatch.setattr(limits, used, lambda pid: 0)


def socket_link() -> tuple[SocketLink, socket.socket, int]:
    """A link to a worker that this test plays."""
    mine, theirs = socket.socketpair()
    reader, writer = os.pipe()
    return SocketLink(mine, reader, os.getpid(), []), theirs, writer


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (struct.pack(">IQ", 1 << 31, 0), "tampered"),
        (struct.pack(">IQ", 2, 1 << 60) + b"{}", "tampered"),
        (wire.pack(b"{}"), "tampered"),
        (wire.pack(b"[" * 60_000), "tampered"),
        (wire.pack(b'{"id": 1}'), "tampered"),
        (wire.pack(b'{"id": 7}') + b"x", "tampered"),
        (wire.pack(b'{"id": 7}') * 2000, "tampered"),
        (b"\x00", "timeout"),
        (b"", "timeout"),
    ],
)
@pytest.mark.usefixtures("no_stack")
def test_bad_frames_are_verdicts(frame: bytes, status: str) -> None:
    link, theirs, writer = socket_link()
    theirs.setblocking(False)
    theirs.send(frame)
    with pytest.raises(WorkerStopped) as stopped:
        link.ask(Request(7, "call"), b"", 0.05)
    assert stopped.value.status == status
    theirs.close()
    os.close(writer)
    link.close()


@pytest.mark.usefixtures("no_stack")
def test_a_worker_that_hangs_up_has_crashed() -> None:
    link, theirs, writer = socket_link()
    theirs.close()
    os.close(writer)
    with pytest.raises(WorkerStopped) as stopped:
        link.ask(Request(7, "call"), b"", 1.0)
    assert stopped.value.status == "crashed"
    link.close()
