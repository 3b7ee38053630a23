"""The corpus that the grammar makes: ten thousand natural pairs, the same everywhere, tested on unseen combinations."""

from __future__ import annotations

import hashlib
import re
from itertools import combinations
from pathlib import Path

import pytest

from data.generate import generate, main, words
from data.grammar import PATTERNS, Sentence
from data.grammar.english import Person, count, ing, third_person
from solutions.stage6_training.corpus import Corpus, load_corpus

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def generated() -> dict[str, list[Sentence]]:
    return generate()


def test_the_generated_corpus_has_ten_thousand_pairs_and_is_the_same_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The digest was taken once; every system and Python must find it again."""
    assert main(["--out", str(tmp_path / "new" / "folder")]) == 0
    digest = hashlib.sha256()
    for part in Corpus._fields:
        digest.update((tmp_path / "new" / "folder" / f"{part}.tsv").read_bytes())
    assert digest.hexdigest()[:16] == "bb14732e5d5b7efd"
    assert "train.tsv: 8,000 pairs" in capsys.readouterr().out
    corpus = load_corpus(tmp_path / "new" / "folder")
    assert [len(part) for part in corpus] == [8000, 1000, 1000]
    assert len({pair for part in corpus for pair in part}) == 10_000


def test_equal_arguments_give_equal_sentences_and_another_seed_others() -> None:
    one, again, other = generate(200, seed=1), generate(200, seed=1), generate(200, seed=2)
    assert one == again
    assert len(set(one["train"]) & set(other["train"])) < 80


@pytest.mark.parametrize("size", [10, 100, None])
def test_validation_and_test_hold_unseen_combinations_of_known_words(
    size: int | None, generated: dict[str, list[Sentence]]
) -> None:
    corpus = generated if size is None else generate(size)

    def meetings(sentence: Sentence) -> set[frozenset[str]]:
        return {frozenset(pair) for pair in combinations(sentence.content, 2)}

    known = {word for sentence in corpus["train"] for word in words(sentence)}
    seen = {meeting for sentence in corpus["train"] for meeting in meetings(sentence)}
    validated = {meeting for sentence in corpus["valid"] for meeting in meetings(sentence)}
    for sentence in corpus["valid"] + corpus["test"]:
        assert known.issuperset(words(sentence)), sentence
        assert meetings(sentence) - seen, sentence
    for sentence in corpus["test"]:
        assert meetings(sentence) - validated - seen, sentence


def test_the_content_of_a_sentence_stands_in_it() -> None:
    for pattern in PATTERNS:
        for sentence in pattern():
            assert all(word in sentence.chinese for word in sentence.content), sentence
            assert len(set(sentence.content)) == len(sentence.content) >= 2, sentence


def test_every_sentence_of_the_grammar_has_one_translation_each_way() -> None:
    sentences = [sentence for pattern in PATTERNS for sentence in pattern()]
    assert (
        len({s.chinese for s in sentences}) == len({s.english for s in sentences}) == len(sentences) > 20_000
    )


def test_the_grammar_agrees_with_itself() -> None:
    one = "he|she|xiaoming|xiaohong|father|mother|brother|sister|friend|teacher"
    wrong = re.compile(
        r"\ba [aeiou]|\ban [^aeiou]"
        rf"|\b({one}) (am|are|were|have|like|want|go|take|play|don't)\b"
        r"|\b(we|they|children) (am|is|was|has|likes|wants|goes|takes|plays|doesn't)\b"
        r"|\bi (is|are|were|has|likes|wants|goes|doesn't)\b"
        r"|\b(two|three|four|five) (book|shirt|pair|cup|glass|bowl|bottle|plate|cat|umbrella)\b"
        r"|\bthere is (two|three|four|five)|\bthere are an?\b"
    )
    for pattern in PATTERNS:
        for sentence in pattern():
            statement = sentence.english.split("?")[0] if sentence.english.endswith(".") else ""
            assert not wrong.search(statement.lower()), sentence
            assert re.fullmatch(r"[\u4e00-\u9fff，]{3,22}[。？]", sentence.chinese), sentence
            assert re.fullmatch(r"[A-Z][A-Za-z' ]*[.?]", sentence.english), sentence
            assert (sentence.chinese[-1] == "？") == (sentence.english[-1] == "?"), sentence


def test_more_sentences_than_the_grammar_makes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pairs, told in (("30000", "the grammar can make"), ("9", "cannot be split 8:1:1")):
        assert main(["--pairs", pairs, "--out", str(tmp_path / "folder")]) == 2
        assert told in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("base", "third", "form"),
    [
        ("read", "reads", "reading"),
        ("watch", "watches", "watching"),
        ("wash", "washes", "washing"),
        ("study", "studies", "studying"),
        ("play", "plays", "playing"),
        ("go", "goes", "going"),
        ("have", "has", "having"),
        ("do", "does", "doing"),
        ("take", "takes", "taking"),
        ("run", "runs", "running"),
        ("swim", "swims", "swimming"),
    ],
)
def test_verbs(base: str, third: str, form: str) -> None:
    assert third_person(base) == third
    assert ing(base) == form
    assert Person("她", "she", "he").verb(base) == third
    assert Person("我", "I", "I").verb(base) == Person("他们", "they", "you").verb(base) == base


def test_counted_nouns() -> None:
    assert count(1, "book", "books") == "a book"
    assert count(1, "umbrella", "umbrellas") == "an umbrella"
    assert count(2, "pair of shoes", "pairs of shoes") == "two pairs of shoes"
