"""Checks of text and vocabulary, stage 6, that are held back from a class."""

from __future__ import annotations

import json

from grader.checks import check, expect, fail, mistake, raising_means

from . import test_public_vocab as public
from .objects import a_list, an_object, built, encoded, ids_inside, words_of
from .parts import made_of

# Vocab


@check("Vocab", points=1)
def test_min_freq_keeps_what_is_frequent_enough(submission, draw):
    """A token is in the vocabulary if it occurs at least min_freq times."""
    sentences = [["a", "b", "c", "b"], ["c", "d", "c", "c"], ["b", "d"]]
    vocab = built(submission, sentences, min_freq=2)
    expect(len(vocab), "the size of the vocabulary with min_freq=2").equals(
        7, mistakes={"vocab-min-freq-exclusive": 6}
    )
    expect(sorted(words_of(vocab, 3), key=str), "the tokens that are kept").equals(["b", "c", "d"])


@check("Vocab", points=2)
def test_an_unknown_token_becomes_unk(submission, draw):
    """encode gives the id 3, <unk>, to a token that is not in the vocabulary."""
    vocab = built(submission, [["a", "b", "b"]])
    with raising_means("vocab-unknown-raises", ["zebra"]):
        ids = a_list(vocab.encode(["b", "zebra", "b"]), "the ids of b, an unknown word, and b")
    b = ids_inside(vocab, ["b"])[0]
    expect([index for index in ids if index not in (1, 2)], "the ids of b, an unknown word, and b").equals(
        [b, 3, b], mistakes={"vocab-unknown-is-pad": [b, 0, b]}
    )


@check("Vocab", points=2)
def test_a_saved_vocabulary_is_the_same_again(submission, draw):
    """save writes JSON, and load makes the same vocabulary of it."""
    with made_of(submission, draw, *public.VOCABULARY, test_an_unknown_token_becomes_unk):
        vocab = built(submission, [["一", "二", "一", "three"], ["四", "二", "一"]])
        path = expect(submission.probes.scratch_file("vocab.json"), "a path").value()
        vocab.save(path)
        if not is_json(expect(submission.probes.text_of(path), "what save wrote").value()):
            fail("The file that save wrote is not JSON.", "Write it with json.dump or json.dumps.")
        again = an_object(submission.Vocab.load(path), "what Vocab.load returned")
        sentence = ["四", "three", "一", "二", "x"]
        ids = a_list(vocab.encode(sentence), "the ids of a sentence")
        expect(len(again), "the size of the loaded vocabulary").equals(len(vocab))
        expect(again.encode(sentence), "the ids that the loaded vocabulary gives").equals(ids)
        with raising_means("vocab-ids-become-text", [str(index) for index in ids]):
            tokens = again.decode(ids)
        expect(tokens, "the tokens that the loaded vocabulary gives").equals(sentence[:-1])


def is_json(text):
    """Whether a text is JSON."""
    try:
        json.loads(text)
    except (ValueError, TypeError):
        return False
    return True


# tokenize_en


@check("tokenize_en", points=2)
def test_an_apostrophe_inside_a_word_stays(submission, draw):
    """tokenize_en keeps an apostrophe inside a word, and splits off one that stands outside."""
    for text, right, wrong in (
        ("I don't know.", "i don't know .", {"en-splits-apostrophe": "i don ' t know ."}),
        ("It's Anna's.", "it's anna's .", {"en-splits-apostrophe": "it ' s anna ' s ."}),
        ("He said 'yes'.", "he said ' yes ' .", {}),
    ):
        expect(submission.tokenize_en(text), f"the tokens of {text!r}").equals(
            right.split(), mistakes={code: tokens.split() for code, tokens in wrong.items()}
        )


# train_bpe


@check("train_bpe", points=2)
def test_bpe_has_the_special_tokens_first_and_adds_none(submission, draw):
    """The tokenizer of train_bpe has the special tokens at 0 to 3, and adds none of them to a text."""
    tokenizer = an_object(submission.train_bpe(public.TEXTS, 300), "the tokenizer")
    found = [
        expect(tokenizer.token_to_id(token), f"the id of {token}").value()
        for token in ("<pad>", "<sos>", "<eos>", "<unk>")
    ]
    expect(found, "the ids of <pad>, <sos>, <eos> and <unk>").equals([0, 1, 2, 3])
    for text in ("lower the better", "茶"):
        special = [index for index in encoded(tokenizer, text) if index in range(4)]
        if special and text.isascii():
            mistake("bpe-adds-special-tokens", text=text, special=special)


@check("train_bpe", points=2)
def test_bpe_learns_as_many_tokens_as_asked(submission, draw):
    """train_bpe learns merges until there are vocab_size tokens, so that a frequent word becomes one token."""
    texts = [f"{word} " * 5 for word in ("banana", "potato", "tomato", "cucumber", "carrot", "cabbage")]
    for size in (262, 275, 290):
        tokenizer = an_object(submission.train_bpe(texts, size), "the tokenizer")
        expect(tokenizer.get_vocab_size(), f"the size of the vocabulary for vocab_size={size}").equals(size)
    expect(len(encoded(tokenizer, "banana")), "the number of tokens of 'banana', seen often").equals(1)
