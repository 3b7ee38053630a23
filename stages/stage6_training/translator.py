"""A translator: a Transformer together with the vocabularies that turn text into its ids and back.

Given, not an exercise. The Transformer, the vocabularies and the decoding are yours.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ..stage5_decoder.transformer import Transformer
from .corpus import Pair
from .settings import BadInput, Settings
from .training import pad_batch
from .vocab import Vocab, tokenize_en, tokenize_zh

UNK_ID = 3
SENTENCES_AT_ONCE = 100

Decode = Callable[[nn.Module, Tensor, int], Tensor]  # greedy_decode, or another with its options filled in


class Translator:
    """A model, `chinese` and `english` (its vocabularies), and the settings it was made from."""

    def __init__(self, settings: Settings, chinese: Vocab, english: Vocab) -> None:
        """Make a fresh model for the two vocabularies; the seed of `settings` chooses its first weights."""
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.chinese = chinese
        self.english = english
        self.model = Transformer(
            len(chinese),
            len(english),
            d_model=settings.d_model,
            num_heads=settings.num_heads,
            num_layers=settings.num_layers,
            d_ff=settings.d_ff,
            dropout=settings.dropout,
            max_len=settings.max_len,
        )

    @classmethod
    def build(cls, settings: Settings, pairs: Sequence[Pair]) -> "Translator":
        """Make a fresh translator whose vocabularies are those of the training sentences `pairs`."""
        chinese = Vocab.build([tokenize_zh(pair.chinese) for pair in pairs], settings.min_freq)
        english = Vocab.build([tokenize_en(pair.english) for pair in pairs], settings.min_freq)
        return cls(settings, chinese, english)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def too_long(self, pair: Pair) -> int:
        """Say how many tokens the longer side of a pair has if that is above `max_len`, else 0."""
        longest = max(len(self.chinese_ids(pair.chinese)), len(self.english_ids(pair.english)))
        return longest if longest > self.settings.max_len else 0

    def chinese_ids(self, sentence: str) -> list[int]:
        return list(self.chinese.encode(tokenize_zh(sentence)))

    def english_ids(self, sentence: str) -> list[int]:
        return list(self.english.encode(tokenize_en(sentence)))

    def batches(
        self, pairs: Sequence[Pair], generator: torch.Generator | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Lay pairs out as batches of `(src, tgt)`; with a generator in a new order, which it draws.

        A shuffled epoch puts sentences of about the same length together, so that little is padding.
        """
        ids = [(self.chinese_ids(pair.chinese), self.english_ids(pair.english)) for pair in pairs]
        size = self.settings.batch_size
        if generator is None:
            groups = [ids[start : start + size] for start in range(0, len(ids), size)]
        else:
            order = torch.randperm(len(ids), generator=generator).tolist()
            order.sort(key=lambda index: len(ids[index][1]))  # keeps equals in their new order
            groups = [[ids[i] for i in order[start : start + size]] for start in range(0, len(ids), size)]
            groups = [groups[i] for i in torch.randperm(len(groups), generator=generator).tolist()]
        for group in groups:
            yield pad_batch([src for src, _ in group]), pad_batch([tgt for _, tgt in group])

    def check(self, sentence: str) -> str:
        """Name the characters of a sentence that the model does not know, each once.

        Raises `BadInput` where the sentence is empty, too long, or where the model knows none of it.
        """
        characters = tokenize_zh(sentence)
        if not characters:
            raise BadInput("there is no sentence to translate; put one in quotation marks")
        room = self.settings.max_len - 2
        if len(characters) > room:
            raise BadInput(
                f"{shortened(sentence)!r} has {len(characters)} characters, and this model reads at most {room}; "
                "translate it in parts"
            )
        ids = self.chinese_ids(sentence)[1:-1]
        unknown = dict.fromkeys(char for char, index in zip(characters, ids) if index == UNK_ID)
        words = [char for char in characters if char.isalnum()] or characters
        if all(char in unknown for char in words):
            raise BadInput(
                f"this model knows no character of {shortened(sentence)!r}; it learned only those of its corpus, "
                "so use such characters"
            )
        return "".join(unknown)

    def translate(self, sentences: Sequence[str], decode: Decode) -> list[list[str]]:
        """Translate sentences, many at once; each becomes a list of English tokens."""
        translations = []
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            ids = [self.chinese_ids(sentence) for sentence in sentences[start : start + SENTENCES_AT_ONCE]]
            src = pad_batch(ids).to(self.device)
            # A model that has learned little may never write <eos>: it gets room, but not without end.
            room = min(self.settings.max_len, 2 * src.shape[1] + 10)
            written = decode(self.model, src, room)
            translations += [list(self.english.decode(row)) for row in written.tolist()]
        return translations


def sentence_of(tokens: Sequence[str]) -> str:
    """Join English tokens as people write them: no space before a full stop, and a capital to begin with."""
    text = re.sub(r" ([.,!?;:%)])", r"\1", " ".join(tokens))
    text = re.sub(r"\bi\b", "I", text)
    return text[:1].upper() + text[1:]


def shortened(sentence: str, most: int = 30) -> str:
    return sentence if len(sentence) <= most else sentence[: most - 1] + "…"


def vocab_to_text(vocab: Vocab) -> str:
    """The JSON text that your `Vocab.save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        vocab.save(Path(folder) / "vocab.json")
        return (Path(folder) / "vocab.json").read_text(encoding="utf-8")


def vocab_from_text(text: str) -> Vocab:
    """The vocabulary that your `Vocab.load` makes of such a text."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.json").write_text(text, encoding="utf-8")
        return Vocab.load(Path(folder) / "vocab.json")
