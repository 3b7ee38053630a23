"""From text to token ids and back: the vocabulary, two tokenizers, and byte-level BPE."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<pad>", "<sos>", "<eos>", "<unk>")
PAD_ID, SOS_ID, EOS_ID, UNK_ID = range(4)


class Vocab:
    """A numbered list of tokens: a token's id is its place in the list.

    The four special tokens come first: `<pad>` 0, `<sos>` 1, `<eos>` 2, `<unk>` 3. `<pad>` fills up the
    short sentences of a batch, `<sos>` and `<eos>` mark where a sentence begins and ends, and `<unk>`
    stands for every token that is not in the list.

    Make a vocabulary with `Vocab.build`, from the training sentences alone, or with `Vocab.load`.
    """

    def __init__(self, tokens: list[str]) -> None:
        """Take the whole list of tokens, in the order of their ids, special tokens included."""
        raise NotImplementedError

    @classmethod
    def build(cls, sentences: Iterable[list[str]], min_freq: int = 1) -> "Vocab":
        """Collect the tokens of `sentences`, each of which is a list of tokens.

        After the special tokens come all tokens that occur at least `min_freq` times in all sentences
        together: the more frequent first, and those of equal frequency in the order in which they first
        appear.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        """Say how many tokens there are, the special ones included."""
        raise NotImplementedError

    def encode(self, tokens: list[str]) -> list[int]:
        """Turn the tokens of one sentence into ids, with the id of `<sos>` before and of `<eos>` after them.

        A token that is not in the vocabulary becomes the id of `<unk>`.
        """
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Turn ids back into tokens: a list of strings, without any special token.

        It stops at the first `<eos>`: what a model wrote after that is not part of the sentence. All four
        special tokens are left out, `<unk>` too.
        """
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a JSON file in UTF-8, from which `load` makes the same one again."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path) -> "Vocab":
        """Read a vocabulary that `save` has written: every token has its old id.

        Raises `ValueError`, naming the file, where it holds something else.
        """
        raise NotImplementedError


def tokenize_zh(text: str) -> list[str]:
    """Split Chinese text into its characters, punctuation included; white space is left out.

    Chinese has no spaces between words. Characters make a small vocabulary, in which few are unknown.
    """
    raise NotImplementedError


def tokenize_en(text: str) -> list[str]:
    """Split English text into lower-case words, with every punctuation mark a token of its own.

    An apostrophe inside a word stays in it: "I don't know." becomes `i`, `don't`, `know`, `.`
    """
    raise NotImplementedError


def train_bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a byte-level BPE tokenizer from `texts`, with the library `tokenizers`.

    The text is taken as its UTF-8 bytes, so there are 256 tokens to begin with and no unknown character;
    then the pair of neighbours that is most frequent is merged into a new token, again and again, until
    there are `vocab_size` tokens or nothing is left to merge.

    The special tokens have the ids 0 to 3. The tokenizer adds none of them by itself, and it loses
    nothing: `t.decode(t.encode(text).ids) == text` for every text, white space at its ends included, also
    one in a script that `texts` does not have.

    Raises `ValueError` where `vocab_size` is below 260: 4 special tokens and 256 bytes.

    Source: "Neural Machine Translation of Rare Words with Subword Units" (Sennrich et al., 2016), section
    3.2; "Language Models are Unsupervised Multitask Learners" (Radford et al., 2019), section 2.2, for the
    bytes.
    """
    raise NotImplementedError
