"""The untrusted side: imports a submission and computes what it is asked for. It never sees a check or an answer."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grader.codec import Decoder, Encoder, load_body
from grader.importer import SubmissionFinder, module_name
from grader.wire import (
    LONGEST_MESSAGE,
    MOST_FRAMES,
    Frame,
    Raised,
    ReferenceValue,
    Reply,
    Request,
    Setup,
)

MOST_OPERATORS = 20_000


class MissingName(Exception):
    """A name that the submission does not define."""

    def __init__(self, name: str, names: list[str]) -> None:
        super().__init__(name)
        self.names = names


class MissingAttribute(Exception):
    """An attribute that an object of the submission does not have."""

    def __init__(self, owner: str, name: str, names: list[str]) -> None:
        super().__init__(f"{owner} has no attribute {name!r}")
        self.names = names


class OperatorRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every ATen operator and the shapes of its tensor arguments."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; True would import torch._dynamo, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.shapes: list[list[list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if len(self.names) < MOST_OPERATORS:
            self.names.append(func.overloadpacket.__name__)
            flat = [part for item in args for part in (item if isinstance(item, (list, tuple)) else [item])]
            self.shapes.append([list(part.shape) for part in flat if isinstance(part, torch.Tensor)])
        return func(*args, **(kwargs or {}))


class Worker:
    """Holds one submission and the objects it made; answers requests."""

    def __init__(self, setup: Setup) -> None:
        self._device = torch.device(setup.device)
        self._objects: list[Any] = []
        self._filenames = {setup.display.get(path, path): path for path in setup.sources}
        reset_global_state(setup.seed)
        self._finder = SubmissionFinder(setup.sources, setup.display, setup.code)
        self._finder.install()

    def answer(self, request: Request, body: bytes) -> tuple[Reply, bytes]:
        """The reply to one request; what the submission raises becomes part of the reply."""
        encoder = Encoder(self._remember)
        self._signature_of: Any = None
        self._phase = "call"
        try:
            decoder = Decoder(self._to_device(load_body(body)), lambda reference: self._objects[reference.id])
            reply = self._run(request, decoder, encoder)
            return reply, encoder.body()
        except BaseException as error:
            return Reply(request.id, error=self._raised(error)), b""

    def _run(self, request: Request, decoder: Decoder, encoder: Encoder) -> Reply:
        args = [decoder.value(item) for item in request.args]
        kwargs = {name: decoder.value(item) for name, item in request.kwargs.items()}
        target = self._resolve(request.target)
        operation: Callable[..., Reply] = getattr(self, "_op_" + request.op)
        return operation(request, encoder, target, args, kwargs)

    # Operations -------------------------------------------------------------------------------------------------

    def _op_compile(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        return Reply(request.id, code=self._finder.compiled())

    def _op_call(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        return Reply(request.id, encoder.value(self._call(target, args, kwargs)))

    def _op_inputs_after(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        result = self._call(target, args, kwargs)
        tensors = [item for item in [*args, *kwargs.values()] if isinstance(item, torch.Tensor)]
        return Reply(request.id, encoder.value(result), [encoder.value(tensor) for tensor in tensors])

    def _op_operators(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        recorder = OperatorRecorder()
        with recorder:
            result = self._call(target, args, kwargs)
        return Reply(request.id, encoder.value(result), names=recorder.names, shapes=recorder.shapes)

    def _op_gradients(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        of, cotangent = kwargs.pop("__of__"), kwargs.pop("__cotangent__")
        leaves: list[torch.Tensor] = []

        def leaf(item: Any) -> Any:
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                item = item.detach().clone().requires_grad_()
                leaves.append(item)
            return item

        args, kwargs = [leaf(item) for item in args], {name: leaf(item) for name, item in kwargs.items()}
        parameters = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        with torch.enable_grad():
            for parameter in parameters.values():
                parameter.grad = None
            result = self._call(target, args, kwargs)
            output = result[of] if isinstance(result, tuple) else result
            loss = output.sum() if cotangent is None else (output * cotangent).sum()
            if loss.requires_grad:
                loss.backward()
        gradients = [item.grad for item in leaves] + [parameter.grad for parameter in parameters.values()]
        return Reply(
            request.id,
            encoder.value(result),
            [encoder.value(item) for item in gradients],
            names=list(parameters),
        )

    def _op_attribute(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        self._phase = "attribute"
        if not hasattr(target, request.name):
            raise MissingAttribute(type(target).__name__, request.name, public_names(target))
        return Reply(request.id, encoder.value(getattr(target, request.name)))

    def _op_item(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        return Reply(request.id, encoder.value(target[args[0]]))

    def _op_generator(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        return Reply(request.id, encoder.value(torch.Generator(self._device).manual_seed(args[0])))

    def _op_length(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        return Reply(request.id, len(target))

    def _op_state(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        """Names, shapes and values of the state dict."""
        state = target.state_dict()
        tensors = {name: item for name, item in state.items() if isinstance(item, torch.Tensor)}
        values = [] if request.name == "shapes" else [encoder.value(item) for item in tensors.values()]
        return Reply(
            request.id,
            None,
            values,
            names=list(tensors),
            shapes=[[list(item.shape)] for item in tensors.values()],
        )

    def _op_parameters(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        named = dict(target.named_parameters())
        return Reply(request.id, None, [encoder.value(item) for item in named.values()], names=list(named))

    def _op_load_state(
        self, request: Request, encoder: Encoder, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Reply:
        own = target.state_dict()
        target.load_state_dict(
            {name: value.to(own[name].dtype) if name in own else value for name, value in args[0].items()}
        )
        return Reply(request.id)

    # Names and objects ------------------------------------------------------------------------------------------

    def _resolve(self, target: int | str) -> Any:
        if isinstance(target, int):
            return self._objects[target]
        if not target:
            return None
        path, _, name = target.rpartition(":")
        self._phase = "import"
        module = importlib.import_module(module_name(path))
        self._phase = "name"
        if not hasattr(module, name):
            raise MissingName(name, [key for key in vars(module) if not key.startswith("_")])
        self._phase = "call"
        return getattr(module, name)

    def _call(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._signature_of = target
        result = target(*args, **kwargs)
        # A layer is made on the CPU and brought here, as people do it; so is one that a probe has made.
        maker = isinstance(target, type) or str(getattr(target, "__module__", "")).endswith(".probes")
        if maker and isinstance(result, torch.nn.Module):
            result.to(self._device)
        return result

    def _remember(self, item: Any) -> ReferenceValue:
        self._objects.append(item)
        return ReferenceValue(
            len(self._objects) - 1,
            described_type(item),
            isinstance(item, torch.nn.Module),
        )

    def _to_device(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._device.type == "cpu":
            return tensors
        if self._device.type == "mps":
            tensors = [item.float() if item.dtype == torch.float64 else item for item in tensors]
        return [item.to(self._device) for item in tensors]

    # What was raised --------------------------------------------------------------------------------------------

    def _raised(self, error: BaseException) -> Raised:
        frames = list(self._own_frames(error.__traceback__))
        if isinstance(error, SyntaxError) and isinstance(error.filename, str):
            path = self._filenames.get(error.filename)
            if path is not None and self._phase in ("import", "call"):
                frames.append(Frame(path, int(error.lineno or 1), "<module>"))
        message = error.msg if isinstance(error, SyntaxError) else safe_text(error)
        return Raised(
            type(error).__name__[:100],
            [base.__name__[:100] for base in type(error).__mro__][:20],
            clean(str(message))[:LONGEST_MESSAGE],
            frames[-MOST_FRAMES:],
            self._phase,
            signature_text(self._signature_of),
            [name[:100] for name in getattr(error, "names", [])][:100]
            if isinstance(error, (MissingName, MissingAttribute))
            else [],
        )

    def _own_frames(self, traceback: TracebackType | None) -> Iterator[Frame]:
        while traceback is not None:
            code = traceback.tb_frame.f_code
            path = self._filenames.get(code.co_filename)
            if path is not None:
                yield Frame(path, traceback.tb_lineno, code.co_name)
            traceback = traceback.tb_next


def reset_global_state(seed: int) -> None:
    """Sets everything that one check could leave to the next one: seeds, dtype, grad mode, autocast, threads."""
    random.seed(seed)
    seed_torch(seed)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_anomaly_enabled(False)
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            torch.set_autocast_enabled(device, False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


def seed_torch(seed: int) -> None:
    """As torch.manual_seed, without what that does for devices which this build of torch does not know."""
    if torch.version.cuda or torch.version.hip or torch.backends.mps.is_built() or torch.xpu._is_compiled():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def public_names(item: Any) -> list[str]:
    """What an object has: attributes, submodules, parameters and buffers, without private ones."""
    names: dict[str, None] = {}
    for table in ("_parameters", "_buffers", "_modules", "__dict__"):
        found = (
            vars(item).get(table, {})
            if table != "__dict__"
            else vars(item)
            if hasattr(item, "__dict__")
            else {}
        )
        names.update(
            dict.fromkeys(name for name in found if isinstance(name, str) and not name.startswith("_"))
        )
    if isinstance(item, torch.nn.Module):
        names.pop("training", None)
    return list(names)


def described_type(item: Any) -> str:
    """The type as a person would name it: 'numpy.ndarray', 'function', 'complex64 tensor'."""
    if isinstance(item, torch.Tensor):
        return f"{str(item.dtype).removeprefix('torch.')} tensor ({item.layout}, {item.device})"
    kind = type(item)
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", kind.__name__)
    return (
        name
        if not isinstance(module, str) or module == "builtins" or module.startswith("submission")
        else f"{module}.{name}"
    )[:100]


def safe_text(item: Any) -> str:
    """str() of an object of the submission, whose own methods may raise."""
    try:
        return clean(str(item))[:LONGEST_MESSAGE]
    except BaseException as error:
        return f"<its text cannot be made: {type(error).__name__[:100]}>"


def clean(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def signature_text(target: Any) -> str:
    """The signature of what was called, for messages about wrong ones."""
    if target is None:
        return ""
    if isinstance(target, torch.nn.Module):
        target = target.forward
    try:
        signature = inspect.signature(target)
        plain = signature.replace(
            parameters=[
                item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()
            ],
            return_annotation=inspect.Signature.empty,
        )
        return clean(f"{getattr(target, '__name__', 'it')}{plain}")[:300]
    except BaseException:
        return ""
