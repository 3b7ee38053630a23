"""Make the large corpus: thousands of sentence pairs from a small grammar.

    python -m data.generate                      10,000 pairs into data/generated/
    python -m data.generate --pairs 2000 --out FOLDER --seed 1

The folder gets train.tsv, valid.tsv and test.tsv, 8:1:1. The validation and test parts hold *unseen combinations*:
each of their words stands in the training part, but at least two that carry the meaning of the sentence, say 我妹妹
and 苹果, never meet there, in whatever pattern. Equal arguments give equal bytes, on every system and every Python.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import chain, combinations, zip_longest
from pathlib import Path

from .grammar import PATTERNS, Sentence

PAIRS = 10_000
PARTS = {"train": 0.8, "valid": 0.1, "test": 0.1}
OUT = Path(__file__).parent / "generated"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m data.generate", description="Make the large corpus.")
    parser.add_argument(
        "--out", type=Path, default=OUT, metavar="FOLDER", help="where it goes (data/generated)"
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help=f"how many pairs ({PAIRS})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other sentences (0)")
    options = parser.parse_args(argv)
    try:
        corpus = generate(options.pairs, options.seed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    for part, sentences in corpus.items():
        path = options.out / f"{part}.tsv"
        lines = "".join(f"{sentence.chinese}\t{sentence.english}\n" for sentence in sentences)
        path.write_bytes(lines.encode("utf-8"))
        print(f"{path}: {len(sentences):,} pairs")
    return 0


def generate(pairs: int = PAIRS, seed: int = 0) -> dict[str, list[Sentence]]:
    """Choose sentences for the three parts. Raises `ValueError` when the grammar cannot make so many."""
    if pairs < 10:
        raise ValueError(f"{pairs} pairs cannot be split 8:1:1; ask for at least 10")
    candidates = {part: list(sentences) for part, sentences in _candidates(seed).items()}
    corpus: dict[str, list[Sentence]] = {}
    known: set[str] = set()
    for part, share in PARTS.items():  # train first: what it lacks, the others may not use
        wanted = round(pairs * share)
        usable = [s for s in candidates[part] if part == "train" or known.issuperset(words(s))]
        if len(usable) < wanted:
            raise ValueError(
                f"the grammar can make {len(usable):,} sentences for {part}.tsv, and {pairs:,} pairs need {wanted:,}; "
                "ask for fewer with --pairs"
            )
        corpus[part] = usable[:wanted]
        if part == "train":
            known.update(chain.from_iterable(map(words, corpus[part])))
    return corpus


def words(sentence: Sentence) -> list[str]:
    """The characters of the Chinese sentence and the words of the English one."""
    return [*sentence.chinese, *re.findall(r"[a-z']+|[.?]", sentence.english.lower())]


def _candidates(seed: int) -> dict[str, Iterator[Sentence]]:
    """All sentences of the grammar by part: the patterns take turns, each in the order of a hash.

    A hash, and not `random`: Python promises the same numbers from `random.random()` alone, not the same shuffle.
    """
    by_part: dict[str, list[list[Sentence]]] = {part: [[] for _ in PATTERNS] for part in PARTS}
    for index, pattern in enumerate(PATTERNS):
        for sentence in sorted(pattern(), key=lambda s: _hash(seed, s.chinese, s.english)):
            by_part[_part(sentence, seed)][index].append(sentence)
    return {part: _take_turns(lists) for part, lists in by_part.items()}


def _part(sentence: Sentence, seed: int) -> str:
    """One pair of words in ten may meet in test.tsv only, one in valid.tsv and test.tsv, the others anywhere."""
    tenths = {_tenth(seed, *pair) for pair in combinations(sorted(sentence.content), 2)}
    if 0 in tenths:
        return "test"
    return "valid" if 1 in tenths else "train"


@cache  # the same pairs meet in many sentences
def _tenth(seed: int, one: str, other: str) -> int:
    return int(_hash(seed, one, other), 16) % 10


def _take_turns(lists: list[list[Sentence]]) -> Iterator[Sentence]:
    for sentences in zip_longest(*lists):
        yield from (sentence for sentence in sentences if sentence is not None)


def _hash(*texts: object) -> str:
    return hashlib.sha256("\t".join(map(str, texts)).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
