"""A text as a GPT of characters reads it: ids, and which part is for training.

Given, not an exercise.
"""

import hashlib
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from ..stage6_training.settings import BadInput

VALID_PART = 0.1  # the last tenth of a text is for validation


class Characters:
    """The vocabulary: every character that occurs in a text, in the order of their code points."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.ids = {character: index for index, character in enumerate(characters)}

    @classmethod
    def of(cls, text: str) -> "Characters":
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def unknown(self, text: str) -> str:
        """The characters of `text` that are not in the vocabulary, each once."""
        return "".join(dict.fromkeys(character for character in text if character not in self.ids))

    def encode(self, text: str) -> Int[Tensor, "length"]:
        return torch.tensor([self.ids[character] for character in text], dtype=torch.int64)

    def decode(self, ids: Int[Tensor, "length"]) -> str:
        return "".join(self.characters[index] for index in ids.tolist())


class Text:
    """A text in two parts: `train`, and `valid` with its last tenth; both are ids."""

    def __init__(self, name: str, text: str, block_size: int) -> None:
        """Raises `BadInput` where the text is too short for windows of `block_size` + 1 characters in both parts."""
        self.characters = Characters.of(text)
        ids = self.characters.encode(text)
        split = int(len(ids) * (1 - VALID_PART))
        self.train, self.valid = ids[:split], ids[split:]
        if len(self.valid) <= block_size:
            raise BadInput(
                f"{name} has {len(text)} characters; its last tenth should hold more than --block-size {block_size} "
                "of them: give a longer text, or a smaller --block-size"
            )
        self.name = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def read(path: Path | None) -> tuple[str, str]:
    """Name and content of a text file, or of the topics that Python's own `help()` knows, which are on every machine.

    Raises `BadInput` where the file cannot be read or is not UTF-8.
    """
    if path is None:
        from pydoc_data.topics import topics

        return "pydoc topics", "\n\n".join(topics[name].strip() for name in sorted(topics)) + "\n"
    try:
        return str(path), path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(
            f"there is no text {path}; leave out --text to train on Python's help topics"
        ) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None


def random_batch(
    ids: Int[Tensor, "length"], block_size: int, batch_size: int, generator: torch.Generator
) -> tuple[Int[Tensor, "batch block_size"], Int[Tensor, "batch block_size"]]:
    """Windows from anywhere in a text, and as targets the same windows one character further on."""
    starts = torch.randint(len(ids) - block_size, (batch_size,), generator=generator).tolist()
    tokens = torch.stack([ids[start : start + block_size] for start in starts])
    targets = torch.stack([ids[start + 1 : start + 1 + block_size] for start in starts])
    return tokens, targets


def all_windows(
    ids: Int[Tensor, "length"], block_size: int, at_most: int | None = None
) -> tuple[Int[Tensor, "windows block_size"], Int[Tensor, "windows block_size"]]:
    """Windows side by side through a text, with targets; evenly spread ones where there are more than `at_most`."""
    count = (len(ids) - 1) // block_size
    tokens = ids[: count * block_size].view(count, block_size)
    targets = ids[1 : count * block_size + 1].view(count, block_size)
    if at_most is not None and count > at_most:
        chosen = torch.arange(at_most) * count // at_most
        tokens, targets = tokens[chosen], targets[chosen]
    return tokens, targets
