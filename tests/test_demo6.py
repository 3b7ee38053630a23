"""The translator's training run survives a kill, refuses bad input in one line, and translates."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from torch import nn

from solutions.stage6_training import checkpoint, demo, numerics, pictures, progress, reversal, trainer
from solutions.stage6_training.corpus import Pair
from solutions.stage6_training.settings import BadInput, Settings

TRAIN = """\
我喜欢茶。\tI like tea.
他喜欢水。\tHe likes water.
你好！\tHello!
我很忙。\tI am busy.
他喝茶。\tHe drinks tea.
我喝水。\tI drink water.
她很好。\tShe is fine.
"""
PARTS = {
    "train": TRAIN,
    "valid": "我喝茶。\tI drink tea.\n你很忙。\tYou are busy.\n",
    "test": "他喝水。\tHe drinks water.\n",
}
TINY = "--d-model 16 --num-heads 2 --num-layers 1 --d-ff 16 --batch-size 3 --warmup 5".split()


def lay_corpus(folder: Path) -> None:
    folder.mkdir()
    for part, text in PARTS.items():
        (folder / f"{part}.tsv").write_text(text, encoding="utf-8")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a corpus of ten sentences."""
    lay_corpus(tmp_path / "corpus")
    return tmp_path / "corpus"


@pytest.fixture(autouse=True)
def without_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the seconds of drawing wherever the drawing itself is not tested."""
    if "with_curves" not in request.fixturenames:
        monkeypatch.setattr(demo, "draw_curves", lambda path, history: None)


@pytest.fixture
def with_curves() -> None:
    """Ask for the curves."""


def train(corpus: Path, out: Path, *more: str, epochs: int = 2) -> int:
    return demo.main(["--corpus", str(corpus), "--out", str(out), "--epochs", str(epochs), *TINY, *more])


def saved(out: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(out / demo.CHECKPOINT)


def tensors(out: Path) -> dict[str, torch.Tensor]:
    with safe_open(out / demo.CHECKPOINT, framework="pt") as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}


def history(out: Path) -> list[dict[str, object]]:
    return [
        {name: value for name, value in entry.items() if name != "seconds"} for entry in saved(out).history
    ]


def assert_same_run(one: Path, other: Path) -> None:
    assert history(one) == history(other)
    torch.testing.assert_close(tensors(one), tensors(other), rtol=0, atol=0)
    assert saved(one).scheduler == saved(other).scheduler


def refusal(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What was said, which has to be one line; the exit code has to be that of wrong input."""
    assert code == 2
    said = capsys.readouterr().err.strip()
    assert said
    assert "\n" not in said
    return said


# Training, and going on after an end


def test_plain_lines_where_there_is_no_terminal(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_curves: None
) -> None:
    assert train(corpus, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "7 pairs to learn from, 2 for validation, 1 for test" in said
    assert "\nepoch 2/2  train loss " in said
    assert "  valid loss " in said
    assert "    你很忙。  " in said
    assert "tok:13a" in said
    assert "\x1b" not in said
    assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000


def test_a_run_in_two_parts_equals_one_in_one_go(corpus: Path, tmp_path: Path) -> None:
    assert train(corpus, tmp_path / "whole", epochs=4) == 0
    assert train(corpus, tmp_path / "parts", epochs=2) == 0
    assert train(corpus, tmp_path / "parts", epochs=4) == 0
    assert [entry["epoch"] for entry in history(tmp_path / "parts")] == [1, 2, 3, 4]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_an_interrupt_costs_no_more_than_its_epoch(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(corpus, tmp_path / "whole", epochs=3) == 0
    steps = []

    def interrupted(*args: object, **kwargs: object) -> float:
        steps.append(1)
        if len(steps) == 8:  # three steps an epoch: in the middle of the third
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    real = trainer.train_epoch
    monkeypatch.setattr(trainer, "train_epoch", interrupted)
    assert train(corpus, tmp_path / "out", epochs=3) == demo.STOPPED
    assert "Stopped in epoch 3." in capsys.readouterr().err
    assert len(history(tmp_path / "out")) == 2
    assert train(corpus, tmp_path / "out", epochs=3) == 0
    assert "holds 2 epochs: going on from there" in capsys.readouterr().out
    assert_same_run(tmp_path / "whole", tmp_path / "out")


def test_a_kill_while_writing_leaves_the_old_checkpoint(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(corpus, tmp_path / "out", epochs=1) == 0
    before = tensors(tmp_path / "out")
    found = saved(tmp_path / "out")

    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(SystemExit):
        checkpoint.save(tmp_path / "out" / demo.CHECKPOINT, found)
    torch.testing.assert_close(tensors(tmp_path / "out"), before, rtol=0, atol=0)


def test_a_finished_run_is_reported_again_and_fresh_begins_anew(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, epochs in (((), [1, 2]), ((), [1, 2]), (("--fresh",), [1, 2])):
        assert train(corpus, tmp_path / "out", *more) == 0
        assert [entry["epoch"] for entry in history(tmp_path / "out")] == epochs
        said = capsys.readouterr().out
        assert ("going on" in said) == (not more and "epoch 1/2" not in said)


def test_training_stops_when_bleu_no_longer_rises(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = iter([3.0, 7.0, 7.0, 5.0, 11.0, 12.0, 13.0, 14.0])  # four epochs, then the last and the best
    monkeypatch.setattr(trainer, "corpus_bleu", lambda hypotheses, references: (next(scores), "signature"))
    assert train(corpus, tmp_path / "out", "--patience", "2", epochs=9) == 0
    assert [entry["bleu"] for entry in history(tmp_path / "out")] == [3.0, 7.0, 7.0, 5.0]
    assert "BLEU has not risen for 2 epochs" in capsys.readouterr().out
    best, last = saved(tmp_path / "out").best, saved(tmp_path / "out").weights
    assert best.keys() == last.keys()
    assert not torch.equal(best["fc_out.weight"], last["fc_out.weight"])


def test_accumulated_batches_make_the_same_steps_as_large_ones(corpus: Path, tmp_path: Path) -> None:
    plain = ("--dropout", "0")
    assert train(corpus, tmp_path / "large", *plain, "--batch-size", "7") == 0
    assert train(corpus, tmp_path / "small", *plain, "--batch-size", "3", "--accumulate", "3") == 0
    for one, other in zip(history(tmp_path / "large"), history(tmp_path / "small")):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-5)
        assert one["steps"] == other["steps"]


def test_bfloat16_trains_too(corpus: Path, tmp_path: Path) -> None:
    assert train(corpus, tmp_path / "out", "--amp", "bf16") == 0
    assert tensors(tmp_path / "out")["model.fc_out.weight"].dtype == torch.float32


def test_the_live_view_shows_losses_and_translations() -> None:
    samples = [Pair("我喜欢茶。", "I like tea.")]
    entry = {"train_loss": 1.5, "valid_loss": 2.5, "bleu": 12.0, "lr": 1e-3, "seconds": 0.5}
    first = {**entry, "epoch": 1, "samples": ["I tea."]}
    second = {**entry, "epoch": 2, "bleu": 40.0, "samples": ["I like tea."]}
    console = Console(file=io.StringIO(), force_terminal=True, width=90)
    with progress.progress_on(console, 2, samples) as live:
        assert isinstance(live, progress.LiveProgress)
        for epoch, past in ((1, [first]), (2, [first, second])):
            live.epoch_begins(epoch, 3)
            live.step(3, 1.25)
            live.epoch_ended(past)
    said = console.file.getvalue()
    for words in ("epoch 2/2", "train loss 1.250", "40.0", "2 *", "I like tea.", "我喜欢茶。"):
        assert words in said


# Bad input


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["line 1", "the file is empty"]),
        ("我喜欢茶。\n你好！\n".encode(), ["line 1", "one column"]),
        ("我喜欢茶。\tI like tea.\n你好！\t\n".encode(), ["line 2", "no English sentence"]),
        ("我喜欢茶。\tI like tea.\n你好！\tHello".encode() + b"\xff!\n", ["line 2", "is not UTF-8"]),
        (f"我喜欢茶。\tI like tea.\n{'好' * 63}\tGood.\n".encode(), ["line 2", "65 tokens", "--max-len 65"]),
    ],
)
def test_a_bad_corpus_is_one_line_that_names_the_place(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: list[str]
) -> None:
    assert train(corpus, tmp_path / "out") == 0
    before = (tmp_path / "out" / demo.CHECKPOINT).read_bytes()
    (corpus / "valid.tsv").write_bytes(content)
    capsys.readouterr()
    said = refusal(capsys, train(corpus, tmp_path / "out", "--fresh"))
    for word in ("valid.tsv", *words):
        assert word in said
    assert (tmp_path / "out" / demo.CHECKPOINT).read_bytes() == before


def test_a_corpus_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no corpus" in refusal(capsys, train(tmp_path / "nowhere", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--d-model", "15"], "--d-model is 15"),
        (["--num-heads", "3"], "multiple of --num-heads 3"),
        (["--dropout", "1"], "--dropout is 1.0"),
        (["--device", "abacus"], "--device abacus"),
    ],
)
def test_impossible_options(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert words in refusal(capsys, train(corpus, tmp_path / "out", *more))


def test_a_checkpoint_of_another_run_is_left_alone(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert train(corpus, out) == 0
    before = (out / demo.CHECKPOINT).read_bytes()
    capsys.readouterr()
    assert "--dropout 0.1, not 0.2" in refusal(capsys, train(corpus, out, "--dropout", "0.2"))
    (corpus / "train.tsv").write_text("我喜欢花。\tI like flowers.\n", encoding="utf-8")
    assert "another corpus" in refusal(capsys, train(corpus, out))
    assert (out / demo.CHECKPOINT).read_bytes() == before
    assert train(corpus, out, "--fresh") == 0


def test_a_checkpoint_that_is_cut_off_is_left_alone(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / demo.CHECKPOINT
    assert train(corpus, tmp_path / "out") == 0
    cut = path.read_bytes()[:-100]
    path.write_bytes(cut)
    capsys.readouterr()
    assert "is not a whole checkpoint" in refusal(capsys, train(corpus, tmp_path / "out"))
    assert "is not a whole checkpoint" in refusal(capsys, demo.main(["translate", str(path), "我喝茶。"]))
    assert path.read_bytes() == cut


def test_weights_and_vocabulary_of_different_runs(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / demo.CHECKPOINT
    assert train(corpus, tmp_path / "out") == 0
    mixed = saved(tmp_path / "out")
    mixed.english = mixed.english.replace('"tea"', '"tea", "coffee"')
    checkpoint.save(path, mixed)
    capsys.readouterr()
    assert "English tokens" in refusal(capsys, demo.main(["translate", str(path), "我喝茶。"]))


# NaN


def spoil(model: nn.Module) -> None:
    """From now on the attention of the first encoder layer gives NaN."""

    def with_nan(module: nn.Module, inputs: object, output: tuple[torch.Tensor, torch.Tensor]) -> object:
        return output[0] * float("nan"), output[1]

    model.encoder.layers[0].self_attn.register_forward_hook(with_nan)


def test_nan_stops_training_and_names_its_tensor(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(corpus, tmp_path / "good", epochs=2) == 0
    steps = []

    def spoiled(model: nn.Module, *args: object, **kwargs: object) -> float:
        steps.append(1)
        if len(steps) == 8:
            spoil(model)
        return real(model, *args, **kwargs)

    real = trainer.train_epoch
    monkeypatch.setattr(trainer, "train_epoch", spoiled)
    capsys.readouterr()
    said = refusal(capsys, train(corpus, tmp_path / "out", epochs=5))
    assert "in epoch 3, step 8" in said
    assert "encoder.layers.0.self_attn" in said
    assert "holds epoch 2, the last good one" in said
    assert_same_run(tmp_path / "good", tmp_path / "out")


class Quotient(nn.Module):
    """0/0 in the middle of a model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x) / (x - x)


def test_the_first_bad_tensor_is_named() -> None:
    x = torch.randn(2, 3)
    good = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    assert numerics.first_not_finite(good, lambda model: model(x).sum()) == ""
    assert all(parameter.grad is None for parameter in good.parameters())
    quotient = nn.Sequential(nn.Linear(3, 3), Quotient(), nn.Linear(3, 1))
    assert "the output of 1 (Quotient)" in numerics.first_not_finite(quotient, lambda model: model(x).sum())
    assert "the loss itself" in numerics.first_not_finite(good, lambda model: model(x).sum() / 0 * 0)
    # finite forwards, NaN backwards: the slope of sqrt at 0 is infinite, times 0
    slope = numerics.first_not_finite(good, lambda model: (model(x) * 0).square().sqrt().sum())
    assert slope == "the gradient of the output of 1"
    with torch.no_grad():
        good[1].weight[0, 0] = float("inf")
    assert numerics.first_not_finite(good, lambda model: model(x).sum()) == "the weight 1.weight"


def test_a_bad_gradient_changes_no_weight() -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    optimizer = torch.optim.Adam(layer.parameters())
    numerics.stop_before_bad_steps(optimizer)
    layer(torch.tensor([[float("nan"), 1.0]])).sum().backward()
    with pytest.raises(numerics.NotFinite):
        optimizer.step()
    assert torch.equal(layer.weight, before)


# Translating


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a checkpoint that has learned a little."""
    folder = tmp_path_factory.mktemp("trained")
    lay_corpus(folder / "corpus")
    assert train(folder / "corpus", folder / "out", "--dropout", "0", "--patience", "10", epochs=10) == 0
    return str(folder / "out" / demo.CHECKPOINT)


def test_translating_greedily_by_beam_and_by_sampling(
    trained: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for way in ((), ("--greedy",), ("--beam", "1"), ("--beam", "4"), ("--sample", "0.8", "--seed", "3")):
        assert demo.main(["translate", trained, "我喜欢茶。", "你好！", *way]) == 0
        said[way] = capsys.readouterr().out.splitlines()
        assert len(said[way]) == 2
    assert said[()] == said[("--greedy",)] == said[("--beam", "1")]
    assert demo.main(["translate", trained, "我喜欢茶。", "你好！", "--sample", "0.8", "--seed", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == said[("--sample", "0.8", "--seed", "3")]


def test_unknown_characters_are_named_and_an_unknown_sentence_is_refused(
    trained: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["translate", trained, "我喜欢鲸鱼。"]) == 0
    assert capsys.readouterr().err == "not in the vocabulary, read as <unk>: 鲸鱼\n"
    assert "'鲸鱼。'" in refusal(capsys, demo.main(["translate", trained, "鲸鱼。"]))
    assert "63 characters" in refusal(capsys, demo.main(["translate", trained, "好" * 63]))
    assert "no sentence" in refusal(capsys, demo.main(["translate", trained, " "]))
    assert "no checkpoint" in refusal(capsys, demo.main(["translate", f"{trained}.x", "我喝茶。"]))


def test_the_attention_map_counts_the_characters_where_no_font_has_them(
    trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "find_font", lambda characters: None)
    picture = tmp_path / "map.png"
    assert demo.main(["translate", trained, "我喜欢茶。", "--map", str(picture)]) == 0
    assert "1 我  2 喜  3 欢  4 茶  5 。" in capsys.readouterr().err
    assert picture.stat().st_size > 5_000


def test_a_font_is_found_by_the_characters_it_has() -> None:
    assert pictures.find_font("aé") is not None
    assert pictures.find_font("\U0010fffd") is None
    assert not pictures.covers(Path(__file__), "a")


def test_attention_rows_are_distributions_over_the_source(trained: str) -> None:
    translator = checkpoint.translator_of(checkpoint.load(Path(trained)), Path(trained))
    translator.model.eval()
    weights = demo.cross_attention(translator, "我喜欢茶。", ["i", "like", "tea", "."])
    assert weights.shape == (1, 5, 7)  # layers, <sos> and four words, <sos> five characters <eos>
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 5))


# The rest


def test_reversal_reports_every_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reversal, "BATCHES", 2)
    assert demo.main(["reverse", "--rounds", "2"]) == 0
    assert "round 2/2  train loss" in capsys.readouterr().out


def test_settings_name_the_options_that_differ() -> None:
    assert Settings().differences(Settings(d_ff=256, seed=1)) == ["--d-ff 512, not 256", "--seed 0, not 1"]
    with pytest.raises(BadInput, match="--batch-size is 0"):
        Settings(batch_size=0)
