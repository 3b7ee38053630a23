"""The character model's training run survives a kill, refuses bad input in one line, and writes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors import safe_open

from solutions.stage7_gpt import characters, checkpoint, demo, pictures, progress, trainer
from solutions.stage7_gpt.settings import Settings

TINY = "--d-model 16 --num-heads 2 --num-layers 1 --block-size 8 --batch-size 3 --warmup 5 --every 4".split()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat; the rat sat on the cat. “Ah!”\n" * 12, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def without_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the seconds of drawing wherever the drawing itself is not tested."""
    if "with_pictures" not in request.fixturenames:
        for name in ("draw_curves", "draw_surprise", "draw_sampling"):
            monkeypatch.setattr(demo, name, lambda *_: None)


@pytest.fixture
def with_pictures() -> None:
    """Ask for the pictures."""


def train(text: Path, out: Path, *more: str, steps: int = 8) -> int:
    return demo.main(["--text", str(text), "--out", str(out), "--steps", str(steps), *TINY, *more])


def saved(out: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(out / demo.CHECKPOINT)


def tensors(out: Path) -> dict[str, torch.Tensor]:
    with safe_open(out / demo.CHECKPOINT, framework="pt") as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}


def history(out: Path) -> list[dict[str, object]]:
    return [
        {name: value for name, value in entry.items() if name != "seconds"} for entry in saved(out).history
    ]


def refusal(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What was said, which has to be one line; the exit code has to be that of wrong input."""
    assert code == 2
    said = capsys.readouterr().err.strip()
    assert said
    assert "\n" not in said
    return said


# Training, and going on after an end


def test_plain_lines_and_pictures(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_pictures: None
) -> None:
    assert train(text, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "characters to learn from" in said
    assert "\nstep 8/8  train loss " in said
    assert "\n    | " in said
    assert "validation loss " in said
    assert "\x1b" not in said
    for name in ("curves", "surprise", "sampling"):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 5_000


def test_an_interrupt_costs_no_more_than_its_round(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(text, tmp_path / "whole", "--dropout", "0.2", steps=10) == 0
    made = []

    def interrupted(*args: object) -> tuple[torch.Tensor, torch.Tensor]:
        made.append(1)
        if len(made) == 7:  # in the middle of the second round
            raise KeyboardInterrupt
        return real(*args)

    real = trainer.random_batch
    monkeypatch.setattr(trainer, "random_batch", interrupted)
    assert train(text, tmp_path / "out", "--dropout", "0.2", steps=10) == demo.STOPPED
    assert "holds step 4; the same command goes on" in capsys.readouterr().err
    assert train(text, tmp_path / "out", "--dropout", "0.2", steps=10) == 0
    assert "holds 4 steps: going on from there" in capsys.readouterr().out
    assert [entry["step"] for entry in history(tmp_path / "out")] == [4, 8, 10]
    assert history(tmp_path / "whole") == history(tmp_path / "out")
    torch.testing.assert_close(tensors(tmp_path / "whole"), tensors(tmp_path / "out"), rtol=0, atol=0)


def test_a_finished_run_is_only_reported_again(text: Path, tmp_path: Path) -> None:
    assert train(text, tmp_path / "out") == 0
    before = tensors(tmp_path / "out")
    assert train(text, tmp_path / "out") == 0
    torch.testing.assert_close(tensors(tmp_path / "out"), before, rtol=0, atol=0)


def test_another_run_is_not_gone_on_with(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(text, tmp_path / "out") == 0
    capsys.readouterr()
    said = refusal(capsys, train(text, tmp_path / "out", "--lr", "0.01"))
    assert "--lr 0.001, not 0.01" in said
    assert "--fresh" in said
    text.write_text(text.read_text(encoding="utf-8") + "and more", encoding="utf-8")
    assert "another text" in refusal(capsys, train(text, tmp_path / "out"))
    assert train(text, tmp_path / "out", "--fresh") == 0


def test_a_loss_that_is_no_number_keeps_the_last_good_round(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trainer.Trainer._round

    def spoiled(self: trainer.Trainer, show: progress.Progress) -> dict[str, object]:
        if self.history:
            with torch.no_grad():
                self.model.blocks[0].mlp.linear1.bias[0] = torch.nan
        return run(self, show)

    monkeypatch.setattr(trainer.Trainer, "_round", spoiled)
    said = refusal(capsys, train(text, tmp_path / "out"))
    assert "in step 5" in said
    assert "the weight blocks.0.mlp.linear1.bias" in said
    assert "holds step 4, the last good one" in said
    assert len(history(tmp_path / "out")) == 1


def test_the_best_weights_are_kept(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([2.0, 1.0, 3.0])
    monkeypatch.setattr(
        trainer.Trainer, "valid_loss", lambda self, at_most=None: next(losses) if at_most else 0.0
    )
    assert train(text, tmp_path / "out", steps=12) == 0
    found = saved(tmp_path / "out")
    assert [entry["valid_loss"] for entry in found.history] == [2.0, 1.0, 3.0]
    name = "token_embed.weight"
    assert not torch.equal(found.best[name], found.weights[name])
    model, _ = checkpoint.model_of(found, tmp_path)
    assert torch.equal(model.token_embed.weight.detach(), found.best[name])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--d-model", "15"], ["d_model", "15", "num_heads"]),
        (["--position", "none"], ["position", "none", "rotary"]),
        (["--lr", "0"], ["--lr is 0.0"]),
        (["--min-lr", "1"], ["--min-lr is 1.0"]),
        (["--steps", "0"], ["--steps is 0"]),
        (["--block-size", "600"], ["--block-size 600", "last tenth"]),
        (["--device", "tpu"], ["--device tpu"]),
    ],
)
def test_impossible_options_are_one_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    said = refusal(capsys, train(text, tmp_path / "out", *options))
    assert all(word in said for word in words), said


def test_texts_that_cannot_be_read_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no text" in refusal(capsys, train(tmp_path / "none.txt", tmp_path / "out"))
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1") * 500)
    assert "is not UTF-8 (byte 0)" in refusal(capsys, train(tmp_path / "latin.txt", tmp_path / "out"))


def test_the_text_of_every_machine() -> None:
    name, text = characters.read(None)
    assert name == "pydoc topics"
    assert len(text) > 100_000


def test_windows_and_their_targets() -> None:
    ids = torch.arange(20)
    tokens, targets = characters.all_windows(ids, 6)
    assert tokens.tolist() == [list(range(start, start + 6)) for start in (0, 6, 12)]
    assert torch.equal(targets, tokens + 1)
    assert len(characters.all_windows(ids, 3, at_most=4)[0]) == 4
    tokens, targets = characters.random_batch(ids, 19, 50, torch.Generator().manual_seed(0))
    assert torch.equal(targets, tokens + 1)  # the longest window that there is, from the first character


def test_the_learning_rate_rises_and_falls() -> None:
    settings = Settings(lr=1.0, min_lr=0.1, warmup=4, steps=104)
    rates = [settings.lr_at(step) for step in range(105)]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert max(rates) == rates[4] == 1.0
    assert rates[54] == pytest.approx(0.55)
    assert rates[104] == pytest.approx(0.1)


def test_live_progress_redraws_in_place() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    show = progress.progress_on(console, 8)
    assert isinstance(show, progress.LiveProgress)
    entry = {"step": 4, "train_loss": 2.5, "valid_loss": 2.6, "lr": 1e-3, "seconds": 1.0, "sample": "a [b] c"}
    with show:
        show.epoch_begins(1, 4)
        show.step(4, 2.5)
        show.epoch_ended([entry])
    assert "a [b] c" in out.getvalue()
    assert "2.600" in out.getvalue()


# Writing


def test_writing_goes_on_with_a_prompt(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_pictures: None
) -> None:
    assert train(text, tmp_path / "out", "--position", "rotary", "--norm", "rms", "--mlp", "swiglu") == 0
    capsys.readouterr()
    path = tmp_path / "out" / demo.CHECKPOINT
    ask = ["write", str(path), "the c", "--length", "30", "--seed", "3"]
    assert demo.main([*ask, "--surprise", str(tmp_path / "s.png")]) == 0
    one = capsys.readouterr().out
    assert one.startswith("the c")
    assert len(one) == 36
    assert (tmp_path / "s.png").exists()
    assert demo.main(ask) == 0
    assert capsys.readouterr().out == one
    assert "'ü'" in refusal(capsys, demo.main(["write", str(path), "ü"]))
    assert "top_p is 2.0" in refusal(capsys, demo.main([*ask, "--top-p", "2"]))
    assert "empty" in refusal(capsys, demo.main(["write", str(path), ""]))


def test_a_file_that_is_no_checkpoint_is_one_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "train first, then write" in refusal(capsys, demo.main(["write", str(tmp_path / "none")]))
    assert "is not a whole checkpoint" in refusal(capsys, demo.main(["write", str(text)]))


def test_characters_without_a_glyph_are_drawn_too(tmp_path: Path) -> None:
    pictures.draw_surprise(tmp_path / "s.png", "茶 and\ttea\n", [1.0] * 9)
    assert (tmp_path / "s.png").exists()
