"""The reference of stage 6 from text to ids: what comes back is what went in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.stage6_training.vocab import (
    EOS_ID,
    PAD_ID,
    SOS_ID,
    SPECIAL_TOKENS,
    UNK_ID,
    Vocab,
    tokenize_en,
    tokenize_zh,
    train_bpe,
)

SENTENCES = [["b", "a", "c", "a"], ["d", "c", "a"], ["e", "d"]]
TEXTS = ["the lower the better", "我喜欢吃苹果", "low lower lowest"] * 3


def test_the_more_frequent_come_first_and_ties_as_they_appear() -> None:
    vocab = Vocab.build(SENTENCES)
    assert vocab.decode(range(len(vocab))) == []  # <eos> stands at 2
    assert vocab.decode(range(4, len(vocab))) == ["a", "c", "d", "b", "e"]
    assert len(vocab) == 9
    assert (PAD_ID, SOS_ID, EOS_ID, UNK_ID) == (0, 1, 2, 3)


def test_sentences_may_come_from_a_generator() -> None:
    assert Vocab.build(sentence for sentence in SENTENCES).tokens == Vocab.build(SENTENCES).tokens


@pytest.mark.parametrize(("min_freq", "kept"), [(1, "acdbe"), (2, "acd"), (3, "a"), (4, "")])
def test_min_freq_is_the_least_count(min_freq: int, kept: str) -> None:
    assert Vocab.build(SENTENCES, min_freq).tokens == [*SPECIAL_TOKENS, *kept]


def test_a_special_token_in_a_text_keeps_its_id() -> None:
    vocab = Vocab.build([["<eos>", "a", "<pad>", "<eos>"]])
    assert vocab.tokens == [*SPECIAL_TOKENS, "a"]
    assert vocab.encode(["a", "<pad>"]) == [1, 4, 0, 2]


def test_encoding_and_decoding() -> None:
    vocab = Vocab.build(SENTENCES)
    assert vocab.encode(["a", "z", "c"]) == [1, 4, 3, 5, 2]
    assert vocab.decode([1, 4, 3, 5, 2, 6, 0]) == ["a", "c"]
    assert vocab.encode([]) == [1, 2]
    assert vocab.decode([]) == []


@given(st.lists(st.lists(st.text(min_size=1), min_size=1)))
def test_known_tokens_come_back(sentences: list[list[str]]) -> None:
    sentences = [[token for token in row if token not in SPECIAL_TOKENS] for row in sentences]
    vocab = Vocab.build(sentences)
    for sentence in sentences:
        assert vocab.decode(vocab.encode(sentence)) == sentence


def test_a_saved_vocabulary_is_the_same_again(tmp_path: Path) -> None:
    vocab = Vocab.build([["苹果", "\u2028", '"', "a\\n", "\x00"], ["苹果"]])
    vocab.save(tmp_path / "vocab.json")
    assert Vocab.load(tmp_path / "vocab.json").tokens == vocab.tokens
    assert "苹果" in (tmp_path / "vocab.json").read_text(encoding="utf-8"), "people can read it"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"{}", b'["<pad>"]', b'["a", "<sos>", "<eos>", "<unk>"]']
)
def test_what_is_no_vocabulary_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"vocab\.json is not a vocabulary"):
        Vocab.load(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我 喜欢吃\u3000苹果。\n", "我喜欢吃苹果。"),
        ("他25岁, OK?", "他25岁,OK?"),
        ("", ""),
        (" \t", ""),
    ],
)
def test_chinese_is_split_into_characters(text: str, tokens: str) -> None:
    assert tokenize_zh(text) == list(tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("How ARE you?", "how are you ?"),
        ("I don't know, it's Li's.", "i don't know , it's li's ."),
        ("He’s here", "he’s here"),
        ("'yes', she said", "' yes ' , she said"),
        ("the dogs' food", "the dogs ' food"),
        ("a well-known café", "a well - known café"),
        ("It costs 3.50!?", "it costs 3 . 50 ! ?"),
        ("", ""),
    ],
)
def test_english_is_split_into_words_and_marks(text: str, tokens: str) -> None:
    assert tokenize_en(text) == tokens.split()


def test_bpe_starts_with_the_special_tokens_and_adds_none() -> None:
    tokenizer = train_bpe(TEXTS, 280)
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3]
    assert tokenizer.get_vocab_size() == 280
    assert min(tokenizer.encode("lower 茶").ids) > 3
    assert len(tokenizer.encode("lower").ids) < 5


BPE = train_bpe(TEXTS, 280)


@settings(max_examples=300)
@given(st.text())
def test_bpe_gives_every_text_back(text: str) -> None:
    literal = [token for token in SPECIAL_TOKENS if token in text]
    if not literal:  # how these are read is left open
        assert BPE.decode(BPE.encode(text).ids) == text


@pytest.mark.parametrize("vocab_size", [0, 259])
def test_bpe_needs_room_for_the_bytes(vocab_size: int) -> None:
    with pytest.raises(ValueError, match=rf"{vocab_size}.*260"):
        train_bpe(TEXTS, vocab_size)
    assert train_bpe(TEXTS, 260).get_vocab_size() == 260
