"""Each broken run shows a symptom that the healthy run does not, and the answers are judged rightly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from solutions.stage6_training.gym import memory, runs
from solutions.stage6_training.gym.__main__ import main
from solutions.stage6_training.gym.cases import CASES, is_right

ROOT = Path(__file__).parents[1]
NUMBERS = range(1, len(CASES) + 1)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def both(number: int) -> tuple[runs.Run, runs.Run]:
    """The healthy and the broken run of a case; trained once for all tests."""
    case = CASES[number - 1]
    return case.run(False), case.run(True)


def number(name: str) -> Callable[[runs.Run], float]:
    return lambda run: run.numbers[name]


def on_padding(run: runs.Run) -> float:
    assert run.map is not None
    return float(run.map.weights[:, [key == "<pad>" for key in run.map.keys]].sum(1).mean())


def on_the_future(run: runs.Run) -> float:
    assert run.map is not None
    return float(run.map.weights.triu(1).sum(1).mean())


def on_the_mirrored_letter(run: runs.Run) -> float:
    """How much a map of the reversal of a word of six letters has where it must look."""
    assert run.map is not None
    return float(torch.stack([run.map.weights[place, 5 - place] for place in range(6)]).mean())


def after_outliers(run: runs.Run) -> float:
    return (
        run.numbers["loss in the 10 steps after a mark"] / run.numbers["loss in the 10 steps before a mark"]
    )


def early_loss(run: runs.Run) -> float:
    return sum(run.history.losses[50:150]) / 100


# case, what is measured, the healthy run is on this side of it, the broken one on the other: (lower, upper)
SYMPTOMS = [
    (1, number("words right"), 0.8, 0.4),
    (1, number("loss at the end"), 0.2, 0.7),
    (2, number("words right"), 0.7, 0.45),
    (2, early_loss, 1.3, 1.45),
    (3, number("words right"), 0.8, 0.5),
    (3, on_padding, 0.0, 0.05),
    (4, number("words that change when written five times"), 0.0, 0.2),
    (5, number("loss at the end"), 0.45, 0.35),
    (5, number("chance given to <pad> after <eos>"), 0.1, 0.9),
    (6, number("words right after loading"), 0.9, 0.2),
    (6, number("loss after loading"), 0.1, 1.5),
    (6, on_the_mirrored_letter, 0.5, 0.3),
    (7, after_outliers, 1.1, 2.0),
    (8, number("words right"), 0.8, 0.2),
    (8, number("loss at the end"), 0.02, 0.01),
    (8, on_the_future, 0.0, 0.1),
]


@pytest.mark.parametrize(("case", "measure", "healthy_side", "broken_side"), SYMPTOMS)
def test_the_symptom_is_there_and_only_in_the_broken_run(
    case: int, measure: Callable[[runs.Run], float], healthy_side: float, broken_side: float
) -> None:
    healthy, broken = map(measure, both(case))
    if healthy_side < broken_side:
        assert healthy <= healthy_side and broken >= broken_side, (healthy, broken)
    else:
        assert healthy >= healthy_side and broken <= broken_side, (healthy, broken)


def test_what_training_does_not_cause_leaves_the_curve_alone() -> None:
    for case in (3, 4):
        healthy, broken = both(case)
        assert healthy.history.losses == broken.history.losses
    healthy, broken = both(3)
    alone = "words right, words of one length at a time"
    assert healthy.numbers[alone] == broken.numbers[alone]


def test_saving_loses_nothing_in_the_healthy_run() -> None:
    healthy, broken = both(6)
    assert healthy.numbers["words right before saving"] == healthy.numbers["words right after loading"]
    assert broken.numbers["words right before saving"] > 0.9


@pytest.mark.parametrize("case", NUMBERS)
def test_a_case_shows_all_there_is_and_asks(
    case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = both(case)
    known = CASES[case - 1]
    monkeypatch.setattr(
        "solutions.stage6_training.gym.__main__.CASES",
        [type(known)(**{**vars(each), "run": lambda broken: trained[broken]}) for each in CASES],
    )
    assert main([str(case), "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert (tmp_path / f"case{case}.png").stat().st_size > 10_000
    assert all(answer in shown for answer in known.answers)
    assert all(name in shown for name in trained[1].numbers)
    assert all(word in shown for word in runs.SHOWN)
    assert known.how_to_tell[:30] not in shown
    assert f"nox -s gym -- {case} --answer NUMBER" in shown


def test_the_list_gives_nothing_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {number}  {case.title}\n" in shown for number, case in zip(NUMBERS, CASES, strict=True))
    for case in CASES:
        assert case.answers[case.right - 1] not in shown
        assert not any(word in case.title.lower() for word in case.words)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(CASES.index(case) + 1))
def test_answers_are_judged(case: runs.Run) -> None:
    assert 4 <= len(case.answers) <= 5
    assert [is_right(case, str(choice)) for choice in range(1, len(case.answers) + 1)].count(True) == 1
    for choice, answer in enumerate(case.answers, 1):
        assert is_right(case, answer) == is_right(case, str(choice)) == (choice == case.right), answer
    for senseless in ("0", "6", "?", "  "):
        with pytest.raises(ValueError):
            is_right(case, senseless)


def test_an_answer_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1", "--answer", "the learning rate is too high"]) == 0
    right = capsys.readouterr().out
    assert right.startswith("That is it.\n")
    assert "How to tell:" in right and "Next: nox -s gym -- 2" in right
    assert main(["1", "--answer", "1"]) == 1
    assert "That is not it." in capsys.readouterr().out
    assert main(["8", "--solution"]) == 0
    assert "causal_mask" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["9"], "there is no case '9'"),
        (["x"], "choose 1 to 8, or memory"),
        (["2", "--answer", "7"], "answers go from 1 to 4"),
        (["--solution"], "name the case too"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err


# ---- Memory ----


def test_less_memory_and_the_same_gradients() -> None:
    model, src, tgt = memory.example(num_layers=2, batch=12)
    plain, whole = memory.gradients_of(model, src, tgt)
    parts, peak = memory.gradients_of(model, src, tgt, micro_batches=4)
    assert memory.apart(plain, parts) < 1e-12
    assert 0.2 < peak / whole < 0.3
    with memory.checkpointed_layers(model):
        again, kept = memory.gradients_of(model, src, tgt)
    assert memory.apart(plain, again) < 1e-12
    assert kept < 0.2 * whole
    assert kept + memory.largest_layer(model, src, tgt) < 0.5 * whole
    assert memory.gradients_of(model, src, tgt)[1] == whole  # and all is as before


def test_saved_bytes_are_counted_exactly() -> None:
    layer = torch.nn.Linear(3, 5, bias=False, dtype=torch.float64)
    x = torch.randn(7, 3, dtype=torch.float64)
    with memory.counting(layer) as count:
        y = layer(x).exp()  # saves x, and its own result; the weight does not count
        assert count.now == count.peak == 8 * (7 * 3 + 7 * 5)
        y.sum().backward()
        del y
    assert (count.now, count.peak) == (0, 8 * (7 * 3 + 7 * 5))


def test_the_page_on_memory_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory"]) == 0
    page = (ROOT / "stages/stage6_training/gym/README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    rounding = r"\d+e[-+]\d+"
    assert re.sub(rounding, "N", shown[1]) in re.sub(rounding, "N", capsys.readouterr().out)
