"""The leak detector finds each kind of leak and of blindness, and accuses no right model."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import leaky_models as models
import pytest
import torch
from torch import Tensor, nn

from grader.leaks import find_leaks
from solutions.stage1_attention.attention import causal_mask
from solutions.stage4_encoder.encoder import Encoder
from solutions.stage5_decoder.transformer import Transformer

ROOT = Path(__file__).parents[1]

SRC = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [6, 4, 11, 5, 0, 0, 0], [12, 7, 0, 0, 0, 0, 0]])
TGT = torch.tensor([[1, 9, 8, 7, 6], [1, 5, 4, 0, 0], [1, 6, 10, 11, 0]])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def on_the_left(tokens: Tensor) -> Tensor:
    """The same rows with their padding moved to the left."""
    order = (tokens == 0).long().argsort(dim=1, descending=True, stable=True)
    return tokens.gather(1, order)


SIDES = pytest.mark.parametrize("side", [lambda tokens: tokens, on_the_left], ids=["right", "left"])


# ---- Right models ----


@SIDES
def test_the_solutions_are_accused_of_nothing(side: Callable[[Tensor], Tensor]) -> None:
    for norm_first in (True, False):
        model = Transformer(13, 13, 16, num_heads=4, num_layers=2, d_ff=32, norm_first=norm_first)
        report = find_leaks(model, side(SRC), side(TGT))
        assert report.ok, str(report)
        assert [each.verdict for each in report.findings] == ["fine"] * 5


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_pytorchs_own_transformer_is_accused_of_nothing() -> None:
    report = find_leaks(models.Seq2Seq(), SRC, TGT)
    assert [each.verdict for each in report.findings] == ["fine"] * 5, str(report)


@SIDES
def test_a_small_gpt_is_accused_of_nothing(side: Callable[[Tensor], Tensor]) -> None:
    report = find_leaks(models.GPT(), side(SRC))
    assert [each.kind for each in report.findings] == ["future", "past", "padding", "batch"]
    assert [each.verdict for each in report.findings] == ["fine"] * 4, str(report)


@SIDES
def test_an_encoder_is_accused_of_nothing(side: Callable[[Tensor], Tensor]) -> None:
    report = find_leaks(models.Encoder(), side(SRC), causal=False)
    assert [each.kind for each in report.findings] == ["past", "padding", "batch"]
    assert [each.verdict for each in report.findings] == ["fine"] * 3, str(report)


def test_pytorchs_fast_path_is_accused_of_nothing() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder, embed = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), models.Embed(16)
    report = find_leaks(
        lambda tokens: encoder(embed(tokens), src_key_padding_mask=tokens == 0), SRC, causal=False
    )
    assert report.ok, str(report)
    assert report["padding"].verdict == "fine"
    assert report.title == "encoder, inputs 3x7, in float32"


def test_activations_may_be_the_input() -> None:
    encoder = Encoder(2, 16, 4, 32)
    x = torch.randn(2, 5, 16)
    assert find_leaks(encoder, x, causal=False).ok
    assert find_leaks(lambda x: encoder(x, causal_mask(5)), x).ok
    report = find_leaks(encoder, x)
    assert report["future"].verdict == "LEAK"
    assert report["padding"].verdict == "not tested"


# ---- Leaks ----


def test_a_decoder_without_its_causal_mask() -> None:
    report = find_leaks(models.Seq2Seq(causal=False), SRC, TGT)
    leak = report["future"]
    assert (leak.verdict, leak.row, leak.output, leak.changed) == ("LEAK", 0, 0, 1)
    assert "Output 0 moves by" in leak.text and "when token 1 of the same row (0) changes" in leak.text
    assert [each.kind for each in report.problems] == ["future"]


def test_a_mask_that_is_open_one_place_too_far() -> None:
    report = find_leaks(models.GPT(reach=1), SRC)
    assert (report["future"].output, report["future"].changed) == (0, 1)
    assert [each.kind for each in report.problems] == ["future"]


@SIDES
def test_visible_padding_in_an_encoder(side: Callable[[Tensor], Tensor]) -> None:
    report = find_leaks(models.Encoder(masks_padding=False), side(SRC), causal=False)
    assert [each.kind for each in report.problems] == ["padding"], str(report)
    assert report["padding"].row == 1
    assert "what stands at the padding of the input changes" in report["padding"].text


def test_visible_padding_matters_to_a_language_model_on_the_left_alone() -> None:
    model = models.GPT(masks_padding=False)
    assert find_leaks(model, SRC).ok
    assert [each.kind for each in find_leaks(model, on_the_left(SRC)).problems] == ["padding"]


@pytest.mark.parametrize("mask", ["src_mask", "memory_mask"])
def test_visible_padding_of_the_source(mask: str) -> None:
    report = find_leaks(models.Seq2Seq(**{mask: False}), SRC, TGT)
    assert [each.kind for each in report.problems] == ["padding"], str(report)
    assert "padding of the source" in report["padding"].text


def test_a_model_that_counts_its_padding() -> None:
    report = find_leaks(models.OverTheLength(), SRC, causal=False)
    assert [each.kind for each in report.problems] == ["padding"], str(report)
    assert "read without the padding" in report["padding"].text


def test_rows_that_know_of_each_other() -> None:
    report = find_leaks(models.OverTheBatch(), SRC.clamp(min=4))
    assert [each.kind for each in report.problems] == ["batch"], str(report)
    assert (report["batch"].row, report["batch"].output) == (0, 0)


# ---- What is not seen ----


def test_a_decoder_that_never_reads_its_source() -> None:
    report = find_leaks(models.Seq2Seq(reads=False), SRC, TGT)
    assert [each.kind for each in report.problems] == ["source"]
    assert report["source"].verdict == "BLIND"
    assert report["source"].text == "No output moves when the source changes: the decoder does not read it."


def test_a_decoder_that_reads_a_part_of_its_source() -> None:
    model = models.Seq2Seq()
    report = find_leaks(lambda src, tgt: model(src.where(torch.arange(7) != 2, 4), tgt), SRC, TGT)
    assert (report["source"].verdict, report["source"].changed, report["source"].row) == ("BLIND", 2, 0)


def test_a_model_that_never_sees_its_own_token() -> None:
    report = find_leaks(models.ForgetsItself(), SRC)
    assert (report["past"].verdict, report["past"].output) == ("BLIND", 0)


def test_tokens_that_do_not_see_each_other() -> None:
    report = find_leaks(models.AloneEach(), SRC)
    assert report["past"].text == "No output moves when an earlier token changes."
    assert [each.kind for each in report.problems] == ["past"]


def test_an_encoder_with_a_causal_mask() -> None:
    report = find_leaks(models.Encoder(reach=0), SRC, causal=False)
    assert report["past"].verdict == "BLIND"
    assert "an encoder should read both sides" in report["past"].text


# ---- What cannot be asked ----


def test_dropout_that_never_stops() -> None:
    report = find_leaks(models.AlwaysDropping(), SRC)
    assert [(each.kind, each.verdict) for each in report.findings] == [("steady", "BROKEN")]
    assert not report.ok


def test_not_a_number() -> None:
    report = find_leaks(models.Seq2Seq(), on_the_left(SRC), on_the_left(TGT))  # PyTorch's own NaN
    assert [(each.kind, each.verdict) for each in report.findings] == [("finite", "BROKEN")]
    assert "padding" in report["finite"].text


def test_without_padding_or_neighbours_the_question_is_left_open() -> None:
    report = find_leaks(models.GPT(), SRC[:1])
    assert report.ok
    assert {each.kind for each in report.findings if each.verdict == "not tested"} == {"padding", "batch"}


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((), "here are 0"),
        ((SRC, TGT, TGT), "here are 3"),
        ((SRC[0],), r"not of shape \(7,\)"),
        (([1, 2],), "not a list"),
        ((SRC[:2], TGT), "2 and 3 rows"),
        ((torch.full((2, 5), 4),), "fewer than two different tokens"),
    ],
)
def test_inputs_of_another_form_are_refused(inputs: tuple[Tensor, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        find_leaks(models.GPT(), *inputs)


def test_outputs_of_another_form_are_refused() -> None:
    model = models.GPT()
    with pytest.raises(ValueError, match=r"should begin with \(3, 7\)"):
        find_leaks(lambda tokens: model(tokens)[0].transpose(0, 1), SRC)
    with pytest.raises(ValueError, match="returned a dict"):
        find_leaks(lambda tokens: {"out": model(tokens)}, SRC)


def test_the_models_own_error_is_shown() -> None:
    with pytest.raises(IndexError):
        find_leaks(models.GPT(), SRC + 100)


# ---- Nothing is left behind ----


@pytest.mark.parametrize("wrapped", [False, True], ids=["module", "function"])
def test_the_model_stays_as_it_was(wrapped: bool) -> None:
    model = models.GPT()
    model.blocks[0].eval()
    model(SRC)[0].sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    modes = [module.training for module in model.modules()]
    state, src = torch.get_rng_state(), SRC.clone()

    find_leaks((lambda tokens: model(tokens)) if wrapped else model, SRC)

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(old, new.grad) for old, new in zip(gradients, model.parameters(), strict=True))
    assert modes == [module.training for module in model.modules()]
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(SRC, src)
    assert torch.is_grad_enabled()


def test_float64_finds_what_float32_would_call_rounding() -> None:
    class Faint(models.GPT):
        def between(self, x: Tensor, tokens: Tensor) -> Tensor:
            return x + 1e-7 * x.flip(1)

    model = Faint()
    assert find_leaks(model, SRC[:1])["future"].verdict == "LEAK"
    assert find_leaks(lambda tokens: model(tokens), SRC[:1])["future"].verdict == "fine"


# ---- The page ----


def test_the_page_shows_what_its_example_prints() -> None:
    page = (ROOT / "docs" / "leaks.md").read_text(encoding="utf-8")
    printed = io.StringIO()
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        with redirect_stdout(printed):
            exec(code, names)
    shown = "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))
    assert numbers_aside(printed.getvalue()) == numbers_aside(shown)


def numbers_aside(text: str) -> str:
    """The text without the sizes that depend on the build of PyTorch."""
    return re.sub(r"moves by [\d.e+-]+", "moves by N", text)
