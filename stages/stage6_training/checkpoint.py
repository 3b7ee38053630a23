"""Checkpoints: everything a training run needs to go on, in one file that is whole or not there.

Given, not an exercise. The tensors stand in a safetensors file under `model.NAME` (the weights), `best.NAME`
(those of the best epoch) and `optimizer.INDEX.NAME`; settings, vocabularies and history are JSON in its header.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .settings import BadInput, Settings
from .translator import Translator, vocab_from_text, vocab_to_text

KEY = "translator"  # the entry of the header that is ours
Tensors = dict[str, Tensor]


@dataclass
class Checkpoint:
    """What a checkpoint holds, on the CPU."""

    settings: Settings
    chinese: str  # the vocabularies, as `Vocab.save` writes them
    english: str
    corpus: str  # the corpus's name and a hash of its pairs
    weights: Tensors
    best: Tensors = field(default_factory=dict)
    optimizer: dict[int, Tensors] = field(default_factory=dict)
    param_groups: list[dict[str, Any]] = field(default_factory=list)
    scheduler: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint. Whatever happens, the file at `path` is either the old one or the new one."""
    told = {
        "settings": asdict(checkpoint.settings),
        "chinese": checkpoint.chinese,
        "english": checkpoint.english,
        "corpus": checkpoint.corpus,
        "param_groups": checkpoint.param_groups,
        "scheduler": checkpoint.scheduler,
        "history": checkpoint.history,
    }
    write(path, KEY, told, checkpoint.weights, checkpoint.best, checkpoint.optimizer)


def write(
    path: Path, key: str, told: dict[str, Any], weights: Tensors, best: Tensors, optimizer: dict[int, Tensors]
) -> None:
    """Write the file of a checkpoint of any kind: its tensors, and `told` as JSON under `key` in the header."""
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, values in optimizer.items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    # A copy of each: safetensors refuses tensors that share their memory.
    tensors = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.part")  # the next save writes over one that a kill has left
    try:
        save_file(tensors, temporary, {key: json.dumps(told, ensure_ascii=False)})
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())  # on the disk before it takes the old one's place
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises `BadInput`, one line naming the file, where it is not a whole one of ours."""
    told, tensors = read(path, KEY, "train first, then translate")
    try:
        told["settings"] = Settings.of(told["settings"])
        return Checkpoint(**tensors, **told)
    except (BadInput, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path} is a checkpoint of another version of this demo ({error})") from None


def read(path: Path, key: str, mend: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the file of a checkpoint of any kind: what it tells, and its `weights`, `best` and `optimizer`.

    Raises `BadInput`, one line naming the file, where it is not a whole one with `key`; `mend` is what to do
    where there is none.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError:
        raise BadInput(f"there is no checkpoint {path}; {mend}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise BadInput(
            f"{path} is not a whole checkpoint ({error}); it may have been cut off while it was copied. "
            "Copy it again, or train again with --fresh"
        ) from None
    if key not in metadata:
        raise BadInput(
            f"{path} is a safetensors file, but no checkpoint of this demo: its header lacks {key!r}"
        )
    try:
        told = json.loads(metadata[key])
    except ValueError as error:
        raise BadInput(f"{path} is a checkpoint of another version of this demo ({error})") from None
    optimizer: dict[int, Tensors] = {}
    for name, value in _under("optimizer.", tensors).items():
        index, _, state = name.partition(".")
        optimizer.setdefault(int(index), {})[state] = value
    return told, {
        "weights": _under("model.", tensors),
        "best": _under("best.", tensors),
        "optimizer": optimizer,
    }


def translator_of(checkpoint: Checkpoint, path: Path, best: bool = True) -> Translator:
    """Make the translator that a checkpoint holds: its best epoch, or its last one.

    Raises `BadInput` where the weights do not fit the vocabularies or your Transformer.
    """
    chinese, english = vocab_from_text(checkpoint.chinese), vocab_from_text(checkpoint.english)
    translator = Translator(checkpoint.settings, chinese, english)
    weights = checkpoint.best if best and checkpoint.best else checkpoint.weights
    for side, vocab, name in (("Chinese", chinese, "src_embed"), ("English", english, "tgt_embed")):
        embedding = weights.get(f"{name}.weight", torch.empty(0))
        if len(embedding) != len(vocab):
            raise BadInput(
                f"{path} has weights for {len(embedding)} {side} tokens, but a vocabulary of {len(vocab)}: "
                "they are from different runs. Train again with --fresh"
            )
    try:
        translator.model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n", 2)[1:2]).strip() or str(error)
        raise BadInput(f"the weights in {path} do not fit your Transformer: {reason}") from None
    return translator


def refuse_another_run(
    found: Checkpoint, path: Path, corpus: str, settings: Settings, fresh: Translator
) -> None:
    """Raise `BadInput` where the run that wrote a checkpoint is not the one that should go on."""
    mend = "Give --fresh to begin anew in its place, or another --out"
    if found.corpus != corpus:
        raise BadInput(f"{path} was trained on another corpus ({found.corpus}, not {corpus}). {mend}")
    if differences := found.settings.differences(settings):
        raise BadInput(f"{path} was trained with {'; '.join(differences)}. {mend}")
    for side, old, new in (
        ("Chinese", found.chinese, fresh.chinese),
        ("English", found.english, fresh.english),
    ):
        if old != vocab_to_text(new):
            raise BadInput(f"{path} has another {side} vocabulary than yours makes of this corpus. {mend}")


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
