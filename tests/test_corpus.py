"""The corpora are what their README says, files of every known layout are read, and no part leaks into another."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest

from solutions.stage6_training.corpus import (
    Corpus,
    Pair,
    core_of_chinese,
    core_of_english,
    load_corpus,
    near_copies,
    read_pairs,
    split_pairs,
)

ROOT = Path(__file__).resolve().parent.parent
ZH_EN = ROOT / "data" / "zh_en" / "pairs.tsv"

HELLO = Pair("你好。", "Hello.")
CAT = Pair("我喜歡貓。", "I like cats.")  # traditional characters
TEN = [
    Pair("你好。", "Hello."),
    Pair("现在几点？", "What time is it?"),
    Pair("火车很快。", "The train is fast."),
    Pair("她会唱歌。", "She can sing."),
    Pair("我饿了。", "I am hungry."),
    Pair("门开着。", "The door is open."),
    Pair("茶在哪里？", "Where is the tea?"),
    Pair("昨天下雪了。", "It snowed yesterday."),
    Pair("我爱爸爸。", "I love my father."),
    Pair("请坐！", "Sit down, please!"),
]


def english_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)*|[^\w\s]", text.lower())


def write(path: Path, rows: Iterable[Iterable[str]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


# The corpus written by hand


@pytest.fixture(scope="module")
def zh_en() -> Corpus:
    return load_corpus("zh_en")


def test_zh_en_has_the_size_that_its_readme_tells(zh_en: Corpus) -> None:
    assert [len(part) for part in zh_en] == [417, 51, 51]
    lines = ZH_EN.read_text(encoding="utf-8").splitlines()
    topics = Counter(line.split("\t")[2] for line in lines)
    assert len(lines) == sum(topics.values()) == 519
    assert len(topics) == 18
    assert min(topics.values()) >= 16


def test_zh_en_is_written_alike_throughout() -> None:
    marks = {"。": ".", "？": "?", "！": "!"}
    for pair in read_pairs(ZH_EN):
        assert 3 <= len(pair.chinese) <= 14, pair
        assert re.fullmatch(r"[\u4e00-\u9fff，]+[。？！]", pair.chinese), pair
        assert re.fullmatch(r"[A-Z][A-Za-z' ,.]+[.?!]", pair.english), pair
        assert marks[pair.chinese[-1]] == pair.english[-1], pair
        assert "  " not in pair.english, pair


def test_each_sentence_of_zh_en_has_one_translation() -> None:
    pairs = read_pairs(ZH_EN)
    assert len({pair.chinese for pair in pairs}) == len({pair.english for pair in pairs}) == len(pairs)


def test_every_word_of_validation_and_test_stands_in_the_training_part(zh_en: Corpus) -> None:
    characters = {char for pair in zh_en.train for char in pair.chinese}
    english = {word for pair in zh_en.train for word in english_words(pair.english)}
    for pair in zh_en.valid + zh_en.test:
        assert characters.issuperset(pair.chinese), pair
        assert english.issuperset(english_words(pair.english)), pair


def test_nearly_every_word_stands_in_two_pairs_or_more() -> None:
    pairs = read_pairs(ZH_EN)
    characters = Counter(char for pair in pairs for char in set(pair.chinese))
    english = Counter(word for pair in pairs for word in set(english_words(pair.english)))
    assert (len(characters), len(english)) == (357, 429)
    assert sum(count == 1 for count in [*characters.values(), *english.values()]) <= 4


def test_the_sentence_of_the_lesson_can_be_said_from_the_training_part(zh_en: Corpus) -> None:
    chinese, english = "我喜欢吃苹果", "i like to eat apples"
    assert all(any(char in pair.chinese for pair in zh_en.train) for char in chinese)
    assert all(any(word in english_words(pair.english) for pair in zh_en.train) for word in english.split())
    assert any(pair.chinese.startswith("我喜欢吃") for pair in zh_en.train)
    assert any("吃苹果" in pair.chinese for pair in zh_en.train)


def test_the_split_of_zh_en_is_what_it_was() -> None:
    """Scores of another split cannot be compared: change this only together with the sentences or the rule."""
    text = "\n".join("\t".join(pair) for pair in load_corpus("zh_en").test)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "1ef7e4cebaffd252"


# Splitting


def keys(core: str | tuple[str, ...]) -> set[tuple[str, ...]]:
    """The core, and what is left without each of its items: said once more, and otherwise, than in corpus.py."""
    items = tuple(core)
    shorter = set(combinations(items, len(items) - 1)) if 4 <= len(items) <= 40 else set()
    return shorter | ({items} if items else set())


def test_no_near_copy_of_a_pair_stands_in_another_part(zh_en: Corpus) -> None:
    chinese = [[keys(core_of_chinese(pair.chinese)) for pair in part] for part in zh_en]
    english = [[keys(core_of_english(pair.english)) for pair in part] for part in zh_en]
    compared = 0
    for one, other in combinations(range(3), 2):
        for i, pair in enumerate(zh_en[one]):
            for j, neighbour in enumerate(zh_en[other]):
                compared += 1
                assert chinese[one][i].isdisjoint(chinese[other][j]), (pair, neighbour)
                assert english[one][i].isdisjoint(english[other][j]), (pair, neighbour)
    assert compared == 417 * 51 + 417 * 51 + 51 * 51


def test_a_split_keeps_every_pair_once_and_the_order_of_the_lines(zh_en: Corpus) -> None:
    pairs = read_pairs(ZH_EN)
    assert sorted(pair for part in zh_en for pair in part) == sorted(pairs)
    for part in zh_en:
        assert part == sorted(part, key=pairs.index)


def test_the_order_of_the_lines_does_not_matter(zh_en: Corpus) -> None:
    pairs = read_pairs(ZH_EN)
    random.Random(0).shuffle(pairs)
    assert [set(part) for part in split_pairs(pairs)] == [set(part) for part in zh_en]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("我饿了。", "I am hungry."), ("你饿吗？", "Are you hungry?"), id="question and answer"),
        pytest.param(("他很高。", "He is tall."), ("他是高个子。", "He's tall!"), id="two translations"),
        pytest.param(
            ("他很高。", "He is tall."), ("他很高！", "He is a tall man."), id="two translations back"
        ),
        pytest.param(
            ("我要茶。", "I don't want tea."), ("不要。", "We do not want the tea"), id="contraction"
        ),
        pytest.param(("你好嗎", "How do you do"), ("你好吗？", "Hi!"), id="particles"),
        pytest.param(
            ("我喜欢鱼。", "I like to eat fish."), ("饭好。", "I like to eat rice."), id="one other word"
        ),
        pytest.param(("我今天很忙。", "A busy day."), ("我今天忙。", "Today!"), id="one character more"),
        pytest.param(("今天天气好。", "Fine."), ("今天天气坏。", "Bad."), id="one other character"),
    ],
)
def test_near_copies(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert near_copies([Pair(*one), HELLO._replace(chinese="再见"), Pair(*other)]) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("我要茶。", "I want tea."), ("我要鱼。", "I want fish."), id="short"),
        pytest.param(("今天很冷。", "Cold."), ("昨天很热。", "Hot."), id="two other characters"),
        pytest.param(("我？", "I?"), ("你！", "You!"), id="nothing but light words"),
    ],
)
def test_other_sentences_are_no_near_copies(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert near_copies([Pair(*one), Pair(*other)]) == [[0], [1]]


def test_what_is_joined_through_a_third_pair_is_one_group() -> None:
    first, second, third = (
        Pair("狗", "A dog runs"),
        Pair("狗！", "One cat sleeps"),
        Pair("猫", "One cat sleeps!"),
    )
    assert near_copies([first, third]) == [[0], [1]]
    assert near_copies([first, HELLO, third, second]) == [[0, 2, 3], [1]]


def test_many_translations_of_one_sentence_go_to_training() -> None:
    many = [
        Pair(sentence, "Fine.") for sentence in ("好", "行", "可以啊", "没问题", "当然", "对", "走", "是")
    ]
    corpus = split_pairs(TEN + many)
    assert set(many) <= set(corpus.train)
    assert corpus.valid
    assert corpus.test


def test_ten_pairs_are_split_8_1_1_and_twice_the_same_pair_is_not_torn() -> None:
    assert [len(part) for part in split_pairs(TEN)] == [8, 1, 1]
    twice = split_pairs(TEN + TEN)
    assert set(twice.train).isdisjoint(twice.valid + twice.test)
    assert set(twice.valid).isdisjoint(twice.test)


@pytest.mark.parametrize(
    "pairs", [[], [HELLO], [HELLO] * 20, [HELLO, CAT]], ids=["none", "one", "equal", "two"]
)
def test_too_few_pairs_for_three_parts(pairs: list[Pair]) -> None:
    with pytest.raises(ValueError, match=rf"^{len(pairs)} pairs in \d groups of near-copies are too few"):
        split_pairs(pairs)


# Reading


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param("{chinese}\t{english}", id="chinese first"),
        pytest.param("{english}\t{chinese}", id="english first"),
        pytest.param("{english}\t{chinese}\tCC-BY 2.0 (France) #1 (CK) & #2 (小明)", id="manythings.org"),
        pytest.param("{chinese}\t{english}\tgreetings", id="topic"),
        pytest.param("1\t{english}\t22\t{chinese}", id="tatoeba, english first"),
        pytest.param("333\t{chinese}\t4\t{english}", id="tatoeba, chinese first"),
        pytest.param("7\t{chinese}\t{english}", id="numbered"),
        pytest.param("{english}\t{chinese}\t", id="tab at the end"),
        pytest.param("  {english} \t\u3000{chinese} \r", id="white space and carriage return"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_every_layout_is_read(tmp_path: Path, columns: str, mark: str) -> None:
    path = tmp_path / "pairs.txt"
    lines = [columns.format(chinese=pair.chinese, english=pair.english) for pair in (HELLO, CAT)]
    path.write_bytes((mark + "\n".join(lines) + "\n").encode())
    assert read_pairs(path) == read_pairs(str(path)) == [HELLO, CAT]


def test_sentences_stay_as_they_are(tmp_path: Path) -> None:
    pairs = [
        Pair("「他說」：“好”\u2028吗", 'He said "fine", didn\'t he?'),
        Pair("他說:A和B。", "What does 你好 mean?"),
        Pair("三十", "30"),
    ]
    assert read_pairs(write(tmp_path / "pairs.tsv", pairs)) == pairs


def test_empty_lines_and_a_missing_last_line_end_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n你好。\tHello.\n\n  \n我喜歡貓。\tI like cats.", encoding="utf-8")
    assert read_pairs(path) == [HELLO, CAT]


GOOD_LINE = "你好。\tHello.\n".encode()


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        pytest.param(b"", 1, "the file is empty", id="empty"),
        pytest.param(b"\xef\xbb\xbf\n \n", 1, "the file is empty", id="only empty lines"),
        pytest.param("你好。\n再见。\n".encode(), 1, "one column of text", id="one column"),
        pytest.param("\n1\t你好。\n2\t再见。\n".encode(), 2, "one column of text", id="one column, numbered"),
        pytest.param(b"Hello.\tBonjour.\n", 1, "no Chinese here or below", id="no chinese"),
        pytest.param("你好。\t您好。\n".encode(), 1, "no English here or below", id="no english"),
        pytest.param(GOOD_LINE + "再见。\n".encode(), 2, "no tab in '再见。'", id="no tab"),
        pytest.param(GOOD_LINE * 2 + "再见。\t\n".encode(), 3, "no English sentence", id="no english side"),
        pytest.param(GOOD_LINE + b"\n\tGoodbye.\n", 3, "no Chinese sentence", id="no chinese side"),
        pytest.param(GOOD_LINE + b"  \tGoodbye.\n", 2, "no Chinese sentence", id="white space for a side"),
        pytest.param(GOOD_LINE + b"\t\n", 2, "no Chinese sentence", id="neither side"),
        pytest.param(
            GOOD_LINE * 3 + "Bye.\t再见。\n".encode(), 4, "no Chinese sentence", id="sides exchanged"
        ),
        pytest.param("1\t你好。\t2\tHello.\n3\t再见。\t4\n".encode(), 2, "no English sentence", id="tatoeba"),
        pytest.param(GOOD_LINE + "再见。\tGoodbye.\n".encode("gbk"), 2, "is not UTF-8", id="gbk"),
        pytest.param("你好。\tHello.\n".encode("utf-16"), 1, "is not UTF-8", id="utf-16"),
        pytest.param(GOOD_LINE * 5000 + b"\xff\tno\n", 5001, "0xff", id="one wrong byte in a long file"),
    ],
)
def test_bad_input_is_one_line_that_names_file_and_line(
    tmp_path: Path, content: bytes, line: int, problem: str
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=problem) as caught:
        load_corpus(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert "\n" not in str(caught.value)


def test_of_a_thousand_lines_one_may_lack_a_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(GOOD_LINE * 700 + "I am here! 我在这里！\n".encode() + GOOD_LINE * 299)
    assert read_pairs(path) == [HELLO] * 999
    told = capsys.readouterr().err
    assert told.startswith(f"{path}, line 701: no tab in 'I am here! 我在这里！'")
    assert told.endswith("(skipped; 1 of 1000 lines are like this)\n")
    assert told.count("\n") == 1

    path.write_bytes(GOOD_LINE * 700 + b"I am here!\nI was there.\n" + GOOD_LINE * 299)
    with pytest.raises(ValueError, match="line 701: no tab in 'I am here!'"):
        read_pairs(path)


# Loading by name


def test_a_corpus_has_a_name_or_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zh_en: Corpus
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("zh_en", "data/zh_en", ROOT / "data" / "zh_en", ZH_EN, str(ZH_EN)):
        assert load_corpus(name) == zh_en


def test_a_folder_of_three_parts_is_taken_as_it_is(tmp_path: Path) -> None:
    for part, pairs in zip(Corpus._fields, (TEN[:4], TEN[4:5], TEN[3:6]), strict=True):
        write(tmp_path / f"{part}.tsv", pairs)
    assert load_corpus(tmp_path) == Corpus(TEN[:4], TEN[4:5], TEN[3:6])


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    for name in ("no_such_corpus", tmp_path):
        with pytest.raises(FileNotFoundError, match="nox -s corpus"):
            load_corpus(name)
