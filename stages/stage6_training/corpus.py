"""Corpora: read Chinese-English sentence pairs, and split them so that nothing leaks from part to part.

Given, not an exercise. A corpus is a text file in UTF-8 with one pair a line and tabs between the columns:
the corpora of this course (`data/README.md`), and the lists of manythings.org and Tatoeba as they are.
"""

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

COURSE = Path(__file__).resolve().parents[2]

# A long list from the Internet may have a few broken lines: one in so many is skipped, and told.
LINES_PER_SKIPPED_LINE = 1000

HAN = re.compile("[\u3007\u3400-\u9fff\U00020000-\U0003ffff]")
LATIN = re.compile("[A-Za-z]")

# Particles and pronouns, simplified and traditional, and in English articles and forms of "be" and "do" too.
LIGHT_CHARACTERS = set("的了吗嗎呢吧啊我你妳您他她它們们")
LIGHT_WORDS = set(
    "a an the i you he she it we they me him her us them my your his our their "
    "am is are was were be do does did".split()
)
CONTRACTIONS = {"n't": " not", "'m": " am", "'re": " are", "'s": " is", "'ve": " have", "'ll": " will"}

Core = str | tuple[str, ...]  # what `core_of_chinese` and `core_of_english` leave of a sentence


class Pair(NamedTuple):
    """A sentence and its translation."""

    chinese: str
    english: str


class Corpus(NamedTuple):
    """The three parts: learn from `train`, choose by `valid`, report `test`."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def load_corpus(name_or_path: str | Path) -> Corpus:
    """Load a corpus of the course by its name, or any file of sentence pairs.

    - "zh_en" or "data/zh_en": about 500 everyday sentences written for this course.
    - "generated" or "data/generated": 10,000 sentences from a small grammar, once `nox -s corpus` has made
      them.
    - a path: a file for `read_pairs`, or a folder that holds `pairs.tsv`, or `train.tsv`, `valid.tsv` and
      `test.tsv`.

    A single file is split by `split_pairs`; three files are taken as they are. Raises `FileNotFoundError`
    where there is no such corpus, and `ValueError` as `read_pairs` and `split_pairs` do.
    """
    path = _find(name_or_path)
    if path.is_file():
        return split_pairs(read_pairs(path))
    if (path / "pairs.tsv").is_file():
        return split_pairs(read_pairs(path / "pairs.tsv"))
    return Corpus(*(read_pairs(path / f"{part}.tsv") for part in Corpus._fields))


def read_pairs(path: str | Path) -> list[Pair]:
    """Read a file of sentence pairs, in the order of its lines.

    The two languages may stand in either order; the file is looked at to find out. These layouts are known:

        english, chinese                    and the other way round
        english, chinese, attribution       as manythings.org has them; what follows the pair is left out
        id, sentence, id, sentence          as Tatoeba exports pairs; columns of numbers are left out

    Sentences stay as they are, but for white space at their ends: traditional characters stay traditional.
    Empty lines are passed over.

    Raises `ValueError`, one line naming the file and the line, where the file is empty, has a single column,
    lacks one of the languages, is not UTF-8, or where a line lacks a side. Of this last kind a long list may
    have one in a thousand: such lines are skipped, and the first one is named on standard error.
    """
    rows = list(_rows(Path(path)))
    if not rows:
        raise ValueError(
            f"{path}, line 1: the file is empty; expected a Chinese and an English sentence on each line, "
            "with a tab between them"
        )
    chinese, english = _language_columns(path, rows)
    pairs = []
    broken = []
    for number, cells in rows:
        pair = Pair(_cell(cells, chinese), _cell(cells, english))
        if problem := _problem(pair, cells):
            broken.append(f"{path}, line {number}: {problem}")
        else:
            pairs.append(pair)
    if len(broken) * LINES_PER_SKIPPED_LINE > len(rows):
        raise ValueError(broken[0])
    if broken:
        print(f"{broken[0]} (skipped; {len(broken)} of {len(rows)} lines are like this)", file=sys.stderr)
    return pairs


def split_pairs(pairs: list[Pair]) -> Corpus:
    """Split 8:1:1 into train, valid and test, with near-copies together in one part.

    The groups of near-copies (`near_copies`) are put in the order of a hash of their text. Each goes to the
    test part while that has room, then to the validation part; the rest is for training. Groups of more than
    three pairs and of more than a hundredth of the corpus go to training, lest one of them fill a part.

    So the split is the same on every machine and for every order of the lines, and a new line moves few old
    ones. Each part keeps the order of the lines. Raises `ValueError` where a part would be empty.
    """
    groups = near_copies(pairs)
    groups.sort(key=lambda group: min(_fingerprint(pairs[index]) for index in group))
    room = max(1, len(pairs) // 10)
    largest = max(3, len(pairs) // 100)
    train, valid, test = [], [], []
    for group in groups:
        if len(group) > largest:
            train.extend(group)
        elif len(test) + len(group) <= room:
            test.extend(group)
        elif len(valid) + len(group) <= room:
            valid.extend(group)
        else:
            train.extend(group)
    if not (train and valid and test):
        raise ValueError(
            f"{len(pairs)} pairs in {len(groups)} groups of near-copies are too few for three parts; "
            "add sentences that differ in more than a word, or put train.tsv, valid.tsv and test.tsv in a folder"
        )
    return Corpus(*([pairs[index] for index in sorted(part)] for part in (train, valid, test)))


def near_copies(pairs: list[Pair]) -> list[list[int]]:
    """Group the indices of pairs that are near-copies of each other, directly or through others.

    Two pairs are near-copies when their Chinese sentences, or their English ones, become the same

    1. without the words that add little: `core_of_chinese` and `core_of_english` say which. So a question
       stays with its answer, and "I am hungry" with "Are you hungry?";
    2. and then without one more character (Chinese) or word (English) of each, wherever it stands, where 4
       to 40 are left. So "I like to eat fish" stays with "I like to eat rice".

    By the first rule all translations of one sentence stay together. A traditional character and its
    simplified form count as different: nothing is converted.
    """
    groups = [[index] for index in range(len(pairs))]  # groups[i]: the group of pair i
    first_with: dict[Core, int] = {}
    for index, pair in enumerate(pairs):
        for core in (core_of_chinese(pair.chinese), core_of_english(pair.english)):
            for key in _with_one_left_out(core):
                other = groups[first_with.setdefault(key, index)]
                if other is not groups[index]:
                    small, large = sorted((other, groups[index]), key=len)
                    large.extend(small)
                    for member in small:
                        groups[member] = large
    return [sorted(group) for group in {id(group): group for group in groups}.values()]  # each once


def core_of_chinese(sentence: str) -> str:
    """Keep the characters that matter: no punctuation, no white space, no particles and pronouns."""
    return "".join(char for char in sentence.lower() if char.isalnum() and char not in LIGHT_CHARACTERS)


def core_of_english(sentence: str) -> tuple[str, ...]:
    """Keep the words that matter, in lower case: no punctuation, articles, pronouns, forms of be and do."""
    text = sentence.lower().replace("’", "'")
    for short, long in CONTRACTIONS.items():
        text = text.replace(short, long)
    return tuple(word for word in re.findall(r"\w+", text) if word not in LIGHT_WORDS)


def place_of(name_or_path: str | Path, pair: Pair) -> str:
    """Say where in a corpus a pair stands: "FILE, line N", or the corpus alone where it is not found."""
    path = _find(name_or_path)
    names = ("pairs.tsv", *(f"{part}.tsv" for part in Corpus._fields))
    files = [path] if path.is_file() else [path / name for name in names if (path / name).is_file()]
    for file in files:
        for number, cells in _rows(file):
            if pair.chinese in cells and pair.english in cells:
                return f"{file}, line {number}"
    return str(path)


def _with_one_left_out(core: Core) -> Iterator[Core]:
    """Give the core, unless it is empty, and what remains without each of its items if it has 4 to 40."""
    if core:
        yield core
    if 4 <= len(core) <= 40:
        for i in range(len(core)):
            yield core[:i] + core[i + 1 :]


def _fingerprint(pair: Pair) -> str:
    return hashlib.sha256("\t".join(pair).encode()).hexdigest()


def _find(name_or_path: str | Path) -> Path:
    """Look from here, then in the course, then among its corpora."""
    for folder in (Path(), COURSE, COURSE / "data"):
        path = folder / name_or_path
        if path.is_file() or (path / "pairs.tsv").is_file() or (path / "train.tsv").is_file():
            return path
    raise FileNotFoundError(
        f"there is no corpus {str(name_or_path)!r}; give data/zh_en, generated (`nox -s corpus` makes it), "
        "or a file with tabs between the sentences"
    )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Read the lines as `(line number, cells)`, without the empty ones."""
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")  # the mark with which some programs begin UTF-8
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            cells = [cell.strip() for cell in line.decode("utf-8").split("\t")]
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; "
                "save the file as UTF-8"
            ) from None
        if cells != [""]:
            yield number, cells


def _language_columns(path: str | Path, rows: list[tuple[int, list[str]]]) -> tuple[int, int]:
    """Find the Chinese and the English column: the first two that are not numbers."""
    columns = defaultdict(list)
    for _, cells in rows:
        for column, cell in enumerate(cells):
            if cell:
                columns[column].append(cell)
    texts = []
    for column, cells in sorted(columns.items()):
        if sum(cell.isdecimal() for cell in cells) <= len(cells) / 2:
            texts.append(column)
    line = f"{path}, line {rows[0][0]}"
    if len(texts) < 2:
        raise ValueError(
            f"{line}: one column of text; expected a Chinese and an English sentence with a tab between"
        )
    first, second = texts[:2]
    chinese, english = sorted((first, second), key=lambda column: _share(HAN, columns[column]), reverse=True)
    for language, letters, column in (("Chinese", HAN, chinese), ("English", LATIN, english)):
        if _share(letters, columns[column]) == 0:
            raise ValueError(
                f"{line}: no {language} here or below; expected a Chinese and an English sentence"
            )
    return chinese, english


def _share(letters: re.Pattern[str], cells: list[str]) -> float:
    """Say in how large a part of the cells there is one of the letters."""
    return sum(letters.search(cell) is not None for cell in cells) / len(cells)


def _cell(cells: list[str], column: int) -> str:
    return cells[column] if column < len(cells) else ""


def _problem(pair: Pair, cells: list[str]) -> str:
    """Say what a line lacks; an empty text when it lacks nothing."""
    if len(cells) == 1:
        return f"no tab in {cells[0][:40]!r}; put one between the Chinese and the English sentence"
    for language, found, other in (
        ("Chinese", HAN.search(pair.chinese), pair.english),
        ("English", pair.english, pair.chinese),
    ):
        if not found:
            return f"no {language} sentence (the other side is {other[:40]!r}); add it, or leave the line out"
    return ""
