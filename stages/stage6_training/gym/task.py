"""The task of the gym: write a word backwards. Words, ids, and how well a model writes on its own."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

PAD, SOS, EOS = 0, 1, 2
LETTERS = "abcdefghij"
VOCABULARY = ["<pad>", "<sos>", "<eos>", "<unk>", *LETTERS]
LONGEST = 6  # letters in a word

LogitsOf = Callable[[nn.Module, Tensor, Tensor], Tensor]


def random_words(count: int, generator: torch.Generator, shortest: int = 2) -> list[str]:
    """Draw words of `shortest` to `LONGEST` random letters."""
    lengths = torch.randint(shortest, LONGEST + 1, (count,), generator=generator).tolist()
    picks = torch.randint(0, len(LETTERS), (count, LONGEST), generator=generator).tolist()
    return ["".join(LETTERS[pick] for pick in row[:length]) for row, length in zip(picks, lengths)]


def encode(
    words: Sequence[str], width: int = 0
) -> tuple[Int[Tensor, "batch src_len"], Int[Tensor, "batch src_len+2"]]:
    """Turn words and their reversals into ids, the reversals with `<sos>` and `<eos>`.

    They are padded on the right, the words to the longest of them, or to `width` where that is more.
    """
    longest = max(width, max(len(word) for word in words))
    src, tgt = [], []
    for word in words:
        ids = [VOCABULARY.index(letter) for letter in word]
        padding = [PAD] * (longest - len(word))
        src.append(ids + padding)
        tgt.append([SOS, *reversed(ids), EOS, *padding])
    return torch.tensor(src), torch.tensor(tgt)


def spell(ids: Tensor) -> str:
    """Turn ids into text: without `<sos>`, up to `<eos>`."""
    text = ""
    for token in ids.tolist():
        if token == EOS:
            break
        if token != SOS:
            text += VOCABULARY[token]
    return text


def as_it_should_be(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """The logits of every next token, the model called as it was in training."""
    return model(src, tgt)


@torch.no_grad()
def write(
    model: nn.Module, words: Sequence[str], logits_of: LogitsOf = as_it_should_be, longest: int = LONGEST + 2
) -> list[str]:
    """Let the model write each word backwards on its own: the likeliest letter, one after the other.

    The mode of the model, training or eval, is the caller's business.
    """
    src, _ = encode(words)
    written = torch.full((len(words), 1), SOS)
    while written.size(1) < longest:
        logits = logits_of(model, src, written)[:, -1]  # (batch, vocab)
        written = torch.cat((written, logits.argmax(-1, keepdim=True)), dim=1)
    return [spell(row) for row in written]


def exact_match(words: Sequence[str], written: Sequence[str]) -> float:
    """The share of words that were written backwards without a single error."""
    return sum(word[::-1] == text for word, text in zip(words, written)) / len(words)
