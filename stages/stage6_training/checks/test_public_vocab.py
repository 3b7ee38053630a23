"""Checks of text and vocabulary, stage 6, that learners may read."""

from __future__ import annotations

from grader.checks import check, expect, mistake

from .objects import an_object, built, encoded, ids_inside, words_of

# Vocab


@check("Vocab", points=3)
def test_vocabulary_is_ordered_by_frequency(submission, draw):
    """After the special tokens come the more frequent tokens first, those of equal frequency as they appear."""
    names = [f"w{index}" for index in draw.permutation(6).tolist()]
    names[1], names[3] = max(names[1], names[3]), min(names[1], names[3])
    # Frequencies 1, 3, 2, 3, 1, 2, in the order of appearance; the two most frequent are not in that of the alphabet.
    sentences = [
        [names[0], names[1], names[2], names[1], names[3]],
        [names[3], names[4], names[5]],
        [names[5], names[3], names[2], names[1]],
    ]
    counts = dict(zip(names, (1, 3, 2, 3, 1, 2)))
    vocab = built(submission, sentences)
    expect(len(vocab), "the size of a vocabulary with 6 words and 4 special tokens").equals(10)
    expect(words_of(vocab, 6), "the tokens with the ids 4 to 9").equals(
        [names[1], names[3], names[2], names[5], names[0], names[4]],
        mistakes={
            "vocab-order-of-appearance": names,
            "vocab-ties-by-name": sorted(names, key=lambda name: (-counts[name], name)),
        },
    )


@check("Vocab", points=2)
def test_encoding_puts_sos_and_eos_around_a_sentence(submission, draw):
    """encode gives <sos>, an id for each token, and <eos>."""
    vocab = built(submission, [["three", "one", "two", "one"]])
    one, two, three = (ids_inside(vocab, [word])[0] for word in ("one", "two", "three"))
    expect(sorted((one, two, three)), "the ids of three words").equals([4, 5, 6])
    body = [two, one, two, three]
    expect(vocab.encode(["two", "one", "two", "three"]), "the ids of a sentence").equals(
        [1, *body, 2], mistakes={"vocab-no-eos": [1, *body]}
    )


@check("Vocab", points=2)
def test_decoding_ends_at_eos_and_drops_special_tokens(submission, draw):
    """decode gives the tokens up to <eos>, without any special token."""
    vocab = built(submission, [["a", "a", "a", "b", "b", "c"]])
    a, b, c = (ids_inside(vocab, [word])[0] for word in "abc")
    expect(
        vocab.decode([1, b, 3, a, 2, c, 0, 0]), "the tokens of <sos> b <unk> a <eos> c <pad> <pad>"
    ).equals(
        ["b", "a"],
        mistakes={
            "vocab-decode-goes-on": ["b", "a", "c"],
            "vocab-decode-keeps-special-tokens": ["<sos>", "b", "<unk>", "a"],
        },
    )


VOCABULARY = (
    test_vocabulary_is_ordered_by_frequency,
    test_encoding_puts_sos_and_eos_around_a_sentence,
    test_decoding_ends_at_eos_and_drops_special_tokens,
)


# The tokenizers


@check("tokenize_zh", points=2)
def test_chinese_is_split_into_characters(submission, draw):
    """tokenize_zh gives every character, punctuation included, and no white space."""
    text = "我 喜欢吃\u3000苹果,\n你呢?"
    expect(submission.tokenize_zh(text), f"the tokens of {text!r}").equals(
        list("我喜欢吃苹果,你呢?"),
        mistakes={
            "zh-keeps-white-space": list(text),
        },
    )


@check("tokenize_en", points=2)
def test_english_is_split_into_words_and_punctuation(submission, draw):
    """tokenize_en gives lower-case words, and every punctuation mark as a token of its own."""
    text = "Good morning, Mr Li!  How ARE you?"
    right = ["good", "morning", ",", "mr", "li", "!", "how", "are", "you", "?"]
    expect(submission.tokenize_en(text), f"the tokens of {text!r}").equals(
        right,
        mistakes={
            "en-punctuation-sticks": text.lower().split(),
        },
    )


# train_bpe

TEXTS = ["the lower the better", "low lower lowest", "我喜欢吃苹果", "newer newest wider widest"] * 3


@check("train_bpe", points=2)
def test_bpe_gives_every_text_back(submission, draw):
    """The tokenizer of train_bpe decodes what it encoded to the same text, in any script, white space included."""
    tokenizer = an_object(submission.train_bpe(TEXTS, 300), "the tokenizer")
    for text in ("lower the better", "茶和咖啡", "naïve façade", "🙂 e\u0301 \u05d0", " the  lowest\n"):
        returned = tokenizer.decode(encoded(tokenizer, text))
        back = expect(returned, "a text, encoded and decoded").value()
        if isinstance(back, str) and back != text:
            name_bpe_mistake(text, back)
        expect(back, f"{text!r}, encoded and decoded").equals(text)


def name_bpe_mistake(text, back):
    """Why a text came back as another, where that is known."""
    facts = {"text": text, "back": back}
    if back == " " + text:
        mistake("bpe-prefix-space", **facts)
    if not text.isascii() and (len(back) < len(text) or "\ufffd" in back):
        mistake("bpe-bytes-missing", **facts)
