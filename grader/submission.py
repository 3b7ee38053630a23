"""What a check sees of a submission: handles on objects that live in the worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from grader.codec import Decoder, Encoder, load_body
from grader.failure import CheckFailed, CheckFault
from grader.links import Link, WorkerStopped, fresh_id
from grader.wire import Raised, ReferenceValue, Reply, Request, Value, WireError

MOST_ITEMS = 100_000
"""A check never looks at longer lists of a submission."""

MATRIX_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "addbmm", "mv", "addmv"}


class Returned:
    """A value that came back from the submission. `expect` looks into it; unpacking gives its parts."""

    def __init__(self, value: Any, source: str) -> None:
        self._value = value
        self._source = source

    def __iter__(self) -> Iterator[Returned]:
        if not isinstance(self._value, (tuple, list)):
            raise CheckFailed(
                f"{self._source} returned {described(self._value)}, where several values were expected.",
                next_step="Return all of them, in the order of the docstring: `return first, second`.",
            )
        return iter(
            [Returned(part, f"{self._source}, value {index + 1}") for index, part in enumerate(self._value)]
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise CheckFault(f"a check uses .{name} of a returned value: pass it to expect(...) first")
        raise self._no_module()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._no_module()

    def _no_module(self) -> CheckFailed:
        """Of a value that is used as only a module can be: a fault of the check would show with the solution."""
        return CheckFailed(
            f"{self._source} gave {described(self._value)}, where an nn.Module was expected.",
            next_step="Let the class inherit from nn.Module, and begin its __init__ with super().__init__().",
        )

    def __bool__(self) -> bool:
        raise CheckFault("a check asks whether a returned value is true: pass it to expect(...) first")


def unwrap(value: Any) -> Any:
    """The plain value behind what a check holds."""
    if isinstance(value, Returned):
        return unwrap(value._value)
    if isinstance(value, (tuple, list)):
        return type(value)(unwrap(item) for item in value)
    return value


class Operator(NamedTuple):
    """An ATen operator that ran, with the shapes of its tensor arguments."""

    name: str
    shapes: list[list[int]]

    @property
    def rows(self) -> int:
        """Rows that go through a matrix product; 0 for every other operator."""
        if self.name not in MATRIX_PRODUCTS:
            return 0
        matrices = [shape for shape in self.shapes if len(shape) >= 2]
        if not matrices:
            return 0
        left = matrices[-2] if len(matrices) >= 2 else matrices[0]
        rows = 1
        for size in left[:-1]:
            rows *= size
        return rows


class Gradients(NamedTuple):
    """What a backward pass gave."""

    output: Returned
    inputs: list[torch.Tensor | None]
    parameters: dict[str, torch.Tensor | None]


class Session:
    """One worker and the requests a check makes of it."""

    def __init__(self, link: Link, places: dict[str, str], folder: str, device: str, seconds: float) -> None:
        self._link = link
        self.folder = folder
        """The stage's folder."""
        self.places = places
        """Exercise or other name -> the file it stands in."""
        self.device = device
        self._seconds = seconds
        self.last_inputs: list[torch.Tensor] = []

    def ask(
        self,
        op: str,
        target: int | str = "",
        name: str = "",
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        source: str = "",
    ) -> tuple[Reply, Decoder]:
        """Sends a request; what the submission raised, or that it gave no answer, ends the check."""
        encoder = Encoder(own_reference)
        wire_args = [encoder.value(unwrap(item)) for item in args]
        wire_kwargs = {key: encoder.value(unwrap(item)) for key, item in (kwargs or {}).items()}
        if op != "attribute":
            self.last_inputs = list(encoder.tensors)
        request = Request(fresh_id(), op, target, name, wire_args, wire_kwargs)
        try:
            reply, body = self._link.ask(request, encoder.body(), self._seconds)
            decoder = Decoder(load_body(body), lambda reference: Handle(self, reference, source))
        except WorkerStopped as stopped:
            raise CheckFailed(stopped.reason, status=stopped.status, where=stopped.where) from None
        except WireError as error:
            raise tampered(error) from None
        if len(reply.shapes) != len(reply.names) and op in ("operators", "state"):
            raise tampered(WireError("its lists have different lengths"))
        if reply.error is not None:
            raise Raising(reply.error, call_text(source, args, kwargs or {}))
        return reply, decoder

    def values(self, decoder: Decoder, values: list[Value]) -> list[Any]:
        """Decodes; a value that makes no sense is tampering."""
        try:
            return [decoder.value(value) for value in values]
        except WireError as error:
            raise tampered(error) from None

    def finish(self) -> None:
        """Ends a check that passed so far; one that flooded its output does not pass."""
        try:
            self._link.printed()
        except WorkerStopped as stopped:
            raise CheckFailed(stopped.reason, status=stopped.status, where=stopped.where) from None

    def printed(self) -> str:
        """What the submission printed so far."""
        try:
            return self._link.printed()
        except WorkerStopped:
            return ""


class Raising(CheckFailed):
    """The submission raised an exception."""

    def __init__(self, raised: Raised, call: str) -> None:
        super().__init__(status="error", raised=raised)
        self.call = call


def tampered(error: WireError) -> CheckFailed:
    """The verdict on a reply that no worker sends."""
    return CheckFailed(f"The process sent a reply that no worker sends: {error}.", status="tampered")


class Handle:
    """An object in the worker: a function, a class, a module. Calls and attributes go there."""

    def __init__(self, session: Session, target: ReferenceValue | str, source: str) -> None:
        self._session = session
        self._target: int | str = target.id if isinstance(target, ReferenceValue) else target
        self._reference = target if isinstance(target, ReferenceValue) else None
        self._source = source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reply, decoder = self._session.ask(
            "call", self._target, args=args, kwargs=kwargs, source=self._source
        )
        return self._wrapped(decoder, reply.value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        source = f"{self._source}.{name}"
        reply, decoder = self._session.ask("attribute", self._target, name, source=source)
        value = self._session.values(decoder, [reply.value])[0]
        return value if isinstance(value, Handle) else Returned(value, source)

    def __getitem__(self, index: int | str | slice) -> Any:
        source = f"{self._source}[{index!r}]"
        reply, decoder = self._session.ask("item", self._target, args=(index,), source=source)
        value = self._session.values(decoder, [reply.value])[0]
        return value if isinstance(value, Handle) else Returned(value, source)

    def __iter__(self) -> Iterator[Any]:
        if self._reference is not None and not self._reference.module:
            raise CheckFailed(
                f"{self._source} returned {described(self)}, where several values were expected.",
                next_step="Return all of them, in the order of the docstring: `return first, second`.",
            )
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        reply, _ = self._session.ask("length", self._target, source=self._source)
        if type(reply.value) is not int or not 0 <= reply.value < MOST_ITEMS:
            raise CheckFailed(f"{self._source} has no sensible length.")
        return reply.value

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its state dict by name."""
        reply, _ = self._session.ask("state", self._target, "shapes", source=self._source)
        if any(len(shape) != 1 for shape in reply.shapes):
            raise tampered(WireError("it names weights without shapes"))
        return {name: tuple(shape[0]) for name, shape in zip(reply.names, reply.shapes)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The values of its state dict by name."""
        reply, decoder = self._session.ask("state", self._target, source=self._source)
        return self._tensors(reply, decoder)

    def parameters(self) -> dict[str, torch.Tensor]:
        """Its named parameters, each once."""
        reply, decoder = self._session.ask("parameters", self._target, source=self._source)
        return self._tensors(reply, decoder)

    def load_state_dict(self, weights: dict[str, torch.Tensor]) -> None:
        """Loads `weights`; names or shapes that do not fit end the check and are shown side by side."""
        found = self.shapes()
        expected = {name: tuple(value.shape) for name, value in weights.items()}
        if found != expected:
            raise CheckFailed(
                f"The weights of {self._source} do not have the names and shapes of the contract.",
                mistake="general/weights-do-not-fit",
                findings=misfits(expected, found),
                facts={"source": self._source},
                next_step="Give the layers the attribute names and sizes that the docstring lists.",
            )
        self._session.ask("load_state", self._target, args=(weights,), source=self._source)

    def _tensors(self, reply: Reply, decoder: Decoder) -> dict[str, torch.Tensor]:
        values = self._session.values(decoder, reply.values)
        if len(values) != len(reply.names) or not all(isinstance(value, torch.Tensor) for value in values):
            raise CheckFailed(f"{self._source} does not have plain tensors as weights.")
        return dict(zip(reply.names, values))

    def _wrapped(self, decoder: Decoder, wire: Value) -> Any:
        value = self._session.values(decoder, [wire])[0]
        return (
            value
            if isinstance(value, Handle) and value._reference and value._reference.module
            else Returned(value, self._source)
        )


class Submission:
    """Feels like the stage's module: every exercise is an attribute."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def probes(self) -> Probes:
        """What the stage's checks/probes.py defines, in the worker beside the submission."""
        return Probes(self._session)

    def generator(self, seed: int) -> Handle:
        """A torch.Generator on the device, seeded."""
        reply, decoder = self._session.ask("generator", args=(seed,), source="generator")
        found = self._session.values(decoder, [reply.value])[0]
        assert isinstance(found, Handle)
        return found

    @property
    def device(self) -> str:
        """The device graded on."""
        return self._session.device

    def __getattr__(self, name: str) -> Handle:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._session.places:
            raise CheckFault(f"a check asks for {name!r}, which is no exercise of the stage")
        return Handle(self._session, f"{self._session.places[name]}:{name}", name)

    def gradients(
        self, target: Handle, *args: Any, cotangent: torch.Tensor | None = None, of: int = 0, **kwargs: Any
    ) -> Gradients:
        """Runs `target`, multiplies an output with `cotangent`, sums and goes backward."""
        options = {**kwargs, "__of__": of, "__cotangent__": cotangent}
        reply, decoder = self._session.ask(
            "gradients", target._target, args=args, kwargs=options, source=target._source
        )
        values = self._session.values(decoder, [reply.value, *reply.values])
        plain = [value if isinstance(value, torch.Tensor) else None for value in values[1:]]
        count = len(plain) - len(reply.names)
        if count < 0:
            raise tampered(WireError("it names more parameters than it has"))
        return Gradients(
            Returned(values[0], target._source), plain[:count], dict(zip(reply.names, plain[count:]))
        )

    def operators(self, target: Handle, *args: Any, **kwargs: Any) -> tuple[Returned, list[Operator]]:
        """Runs `target` and gives every ATen operator that ran."""
        reply, decoder = self._session.ask(
            "operators", target._target, args=args, kwargs=kwargs, source=target._source
        )
        value = self._session.values(decoder, [reply.value])[0]
        return Returned(value, target._source), [Operator(*item) for item in zip(reply.names, reply.shapes)]

    def inputs_after(self, target: Handle, *args: Any, **kwargs: Any) -> tuple[Returned, list[Returned]]:
        """Runs `target` and gives its tensor arguments as they are afterwards."""
        reply, decoder = self._session.ask(
            "inputs_after", target._target, args=args, kwargs=kwargs, source=target._source
        )
        values = self._session.values(decoder, [reply.value, *reply.values])
        return Returned(values[0], target._source), [
            Returned(item, f"an argument of {target._source}") for item in values[1:]
        ]


class Probes:
    """The names of the stage's probes.py."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Handle:
        if name.startswith("__"):
            raise AttributeError(name)
        return Handle(self._session, f"{self._session.folder}/probes.py:{name}", f"probes.{name}")


def own_reference(item: Any) -> ReferenceValue:
    """The wire form of a handle among the arguments."""
    if isinstance(item, Handle) and item._reference is not None:
        return item._reference
    raise CheckFault(f"a check passes {type(item).__name__}, which cannot travel to the submission")


def described(value: Any) -> str:
    """A value as a person would name it: 'None', 'a tuple of 2 values', 'a numpy.ndarray'."""
    if value is None:
        return "None"
    if isinstance(value, Handle):
        kind = value._reference.type if value._reference else "object"
        return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
    if isinstance(value, torch.Tensor):
        return f"one tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)} value{'s' if len(value) != 1 else ''}"
    if isinstance(value, (bool, int, float, str)):
        return (
            f"the {type(value).__name__} {str(value)[:60]!r}"
            if isinstance(value, str)
            else f"the {type(value).__name__} {value}"
        )
    return f"a {type(value).__name__}"


def misfits(expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> list[str]:
    """What differs between two tables of names and shapes, in sentences."""
    lines = []
    for name in expected.keys() | found.keys():
        if name not in found:
            lines.append(f"expected {name} {expected[name]}: not there")
        elif name not in expected:
            lines.append(f"found {name} {found[name]}: not expected")
        elif expected[name] != found[name]:
            lines.append(f"expected {name} {expected[name]}: found {found[name]}")
    order = {name: index for index, name in enumerate([*expected, *found])}
    lines.sort(key=lambda line: order.get(line.split()[1], 0))
    return lines[:24]


def call_text(source: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """How something was called, for messages about signatures: 'f(tensor (2, 3), mask=None)'."""

    def short(item: Any) -> str:
        item = unwrap(item)
        if isinstance(item, torch.Tensor):
            return f"tensor {tuple(item.shape)}"
        return (
            repr(item)[:40] if isinstance(item, (bool, int, float, str, type(None), torch.dtype)) else "..."
        )

    parts = [short(item) for item in args]
    parts += [f"{name}={short(item)}" for name, item in kwargs.items() if not name.startswith("__")]
    return f"{source}({', '.join(parts)})"
