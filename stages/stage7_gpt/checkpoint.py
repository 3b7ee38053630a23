"""Checkpoints of a GPT of characters, in the files of stage 6: everything that a run needs to go on.

Given, not an exercise.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..stage6_training import checkpoint as files
from ..stage6_training.settings import BadInput
from .characters import Characters
from .gpt import GPT
from .settings import Settings

KEY = "gpt"  # the entry of the header that is ours
MEND = "Give --fresh to begin anew in its place, or another --out"


@dataclass
class Checkpoint:
    """What a checkpoint holds, on the CPU."""

    settings: Settings
    characters: str  # the vocabulary
    text: str  # the text's name and a hash of it
    weights: dict[str, Tensor]
    best: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    param_groups: list[dict[str, Any]] = field(default_factory=list)
    scheduler: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint. Whatever happens, the file at `path` is either the old one or the new one."""
    told = {
        "settings": asdict(checkpoint.settings),
        "characters": checkpoint.characters,
        "text": checkpoint.text,
        "param_groups": checkpoint.param_groups,
        "scheduler": checkpoint.scheduler,
        "history": checkpoint.history,
    }
    files.write(path, KEY, told, checkpoint.weights, checkpoint.best, checkpoint.optimizer)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises `BadInput`, one line naming the file, where it is not a whole one of ours."""
    told, tensors = files.read(path, KEY, "train first, then write")
    try:
        told["settings"] = Settings.of(told["settings"])
        return Checkpoint(**tensors, **told)
    except (BadInput, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path} is a checkpoint of another version of this demo ({error})") from None


def model_of(checkpoint: Checkpoint, path: Path) -> tuple[GPT, Characters]:
    """Make the model that a checkpoint holds, with its best weights, and its vocabulary.

    Raises `BadInput` where the weights do not fit your GPT.
    """
    characters = Characters(checkpoint.characters)
    model = GPT(checkpoint.settings.config(len(characters)))
    put_in(model, checkpoint.best or checkpoint.weights, path)
    return model, characters


def put_in(model: GPT, weights: dict[str, Tensor], path: Path) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n", 2)[1:2]).strip() or str(error)
        raise BadInput(f"the weights in {path} do not fit your GPT: {reason}") from None


def refuse_another_run(
    found: Checkpoint, path: Path, text: str, settings: Settings, characters: Characters
) -> None:
    """Raise `BadInput` where the run that wrote a checkpoint is not the one that should go on."""
    if found.text != text:
        raise BadInput(f"{path} was trained on another text ({found.text}, not {text}). {MEND}")
    if differences := found.settings.differences(settings):
        raise BadInput(f"{path} was trained with {'; '.join(differences)}. {MEND}")
    if found.characters != characters.characters:
        raise BadInput(f"{path} has another vocabulary than this text. {MEND}")
