"""Stage 6's decoding: exhaustive search over a tiny model, known distributions, sacrebleu's own numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import sacrebleu
import torch
from torch import Tensor

from solutions.stage5_decoder.transformer import Transformer
from solutions.stage6_training.decoding import beam_search, corpus_bleu, greedy_decode, sample

PAD, SOS, EOS = 0, 1, 2
VOCAB = 7


@pytest.fixture
def model() -> Transformer:
    """A random model that listens to the source, and ends its rows at different steps."""
    torch.manual_seed(10)
    model = Transformer(9, VOCAB, d_model=16, num_heads=2, num_layers=2, d_ff=24, dropout=0.3).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "norm" in name and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * (0.25 if parameter.dim() > 1 else 0.1) + is_norm)
            if "embed" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.5)
        model.fc_out.weight.mul_(4)
        for layer in model.decoder.layers:
            layer.cross_attn.w_o.weight.mul_(4)
    return model


SOURCES = [[4, 5, 6, 7], [8, 4], [6, 6, 8, 5, 4], [7, 8, 4]]


def padded(sources: list[list[int]], side: str = "right") -> Tensor:
    longest = max(len(source) for source in sources)
    rows = []
    for source in sources:
        padding = [PAD] * (longest - len(source))
        rows.append(source + padding if side == "right" else padding + source)
    return torch.tensor(rows)


def written(tokens: Tensor) -> list[list[int]]:
    """The rows without what follows <eos>, which must be padding."""
    rows = []
    for row in tokens.tolist():
        end = row.index(EOS) + 1 if EOS in row else len(row)
        assert row[end:] == [PAD] * (len(row) - end)
        rows.append(row[:end])
    return rows


@torch.no_grad()
def next_log_probs(model: Transformer, source: list[int], prefix: list[int]) -> list[float]:
    was_training = model.training
    model.eval()
    logits = model(torch.tensor([source]), torch.tensor([prefix]))[0, -1]
    model.train(was_training)
    return logits.log_softmax(-1).tolist()


def everything(
    model: Transformer, source: list[int], max_len: int, prefix: tuple[int, ...] = (SOS,), score: float = 0.0
) -> Iterator[tuple[tuple[int, ...], float]]:
    """All that can be written, with its summed log-probability."""
    if len(prefix) == max_len or prefix[-1] == EOS:
        yield prefix, score
        return
    for token, log_prob in enumerate(next_log_probs(model, source, list(prefix))):
        yield from everything(model, source, max_len, (*prefix, token), score + log_prob)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_what_a_full_search_finds(model: Transformer, length_penalty: float) -> None:
    found = beam_search(model, padded(SOURCES[:2]), max_len=4, beam=300, length_penalty=length_penalty)
    for source, row in zip(SOURCES, written(found)):
        best, _ = max(
            everything(model, source, max_len=4),
            key=lambda pair: pair[1] / ((5 + len(pair[0]) - 1) / 6) ** length_penalty,
        )
        assert row == list(best)


def test_greedy_takes_the_largest_logit_at_each_step(model: Transformer) -> None:
    for source, row in zip(SOURCES, written(greedy_decode(model, padded(SOURCES), max_len=9))):
        assert row[0] == SOS
        assert row[-1] == EOS or len(row) == 9
        for length in range(1, len(row)):
            log_probs = next_log_probs(model, source, row[:length])
            assert row[length] == max(range(VOCAB), key=log_probs.__getitem__)


def test_rows_end_at_different_steps(model: Transformer) -> None:
    lengths = {len(row) for row in written(greedy_decode(model, padded(SOURCES), max_len=9))}
    assert len(lengths) > 1


def test_a_beam_of_one_is_greedy(model: Transformer) -> None:
    src = padded(SOURCES)
    for length_penalty in (0.0, 1.0):
        beam = beam_search(model, src, max_len=9, beam=1, length_penalty=length_penalty)
        assert torch.equal(beam, greedy_decode(model, src, max_len=9))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_is_decoded_as_each_source_alone(model: Transformer, side: str) -> None:
    # Sinusoidal positions move with left padding, so the sources alone are padded as they are in the batch.
    src = padded(SOURCES, side)
    for decode in (greedy_decode, beam_search):
        together = written(decode(model, src, max_len=9))
        assert together == [written(decode(model, row[None], max_len=9))[0] for row in src]


def test_padding_of_the_source_is_not_read(model: Transformer) -> None:
    for decode in (greedy_decode, beam_search):
        together = written(decode(model, padded(SOURCES), max_len=9))
        assert together == [written(decode(model, torch.tensor([row]), max_len=9))[0] for row in SOURCES]


def test_max_len_counts_sos(model: Transformer) -> None:
    with torch.no_grad():
        model.fc_out.bias[EOS] = -100.0
    src = padded(SOURCES)
    for decode in (greedy_decode, beam_search, sample):
        assert decode(model, src, max_len=5).shape == (4, 5)
        assert decode(model, src, max_len=1).tolist() == [[SOS]] * 4


def test_the_search_is_over_when_all_rows_have_finished(model: Transformer) -> None:
    with torch.no_grad():
        model.fc_out.bias[EOS] = 100.0
    src = padded(SOURCES)
    for decode in (greedy_decode, beam_search, sample):
        assert written(decode(model, src, max_len=50)) == [[SOS, EOS]] * 4
    assert greedy_decode(model, src, max_len=50).shape == (4, 2)


@pytest.mark.parametrize("training", [True, False])
def test_eval_mode_inside_and_the_old_mode_afterwards(model: Transformer, training: bool) -> None:
    model.train(training)
    src = padded(SOURCES)
    seen = []
    model.decoder.register_forward_hook(lambda *_: seen.append((model.training, torch.is_grad_enabled())))
    for decode in (greedy_decode, beam_search, sample):
        decode(model, src, max_len=5)
        assert model.training is training
    assert set(seen) == {(False, False)}
    with pytest.raises(ValueError):
        greedy_decode(model, src + 100, max_len=5)
    assert model.training is training


def test_the_encoder_runs_once(model: Transformer) -> None:
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    for count, decode in enumerate((greedy_decode, beam_search, sample), 1):
        decode(model, padded(SOURCES), max_len=6)
        assert len(calls) == count


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_samples_follow_the_distribution(model: Transformer, temperature: float) -> None:
    src = torch.tensor([SOURCES[0]]).expand(4_000, -1)
    drawn = sample(model, src, 2, temperature, torch.Generator().manual_seed(1))[:, 1]
    seen = drawn.bincount(minlength=VOCAB) / len(drawn)
    logits = torch.tensor(next_log_probs(model, SOURCES[0], [SOS])) / temperature
    torch.testing.assert_close(seen, logits.softmax(-1).float(), atol=0.04, rtol=0)


def test_a_generator_reproduces(model: Transformer) -> None:
    src = padded(SOURCES)
    first, again, other = (
        sample(model, src, 9, 2.0, torch.Generator().manual_seed(seed)).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_bad_settings_are_refused(model: Transformer) -> None:
    src = padded(SOURCES)
    for decode in (greedy_decode, beam_search, sample):
        with pytest.raises(ValueError, match="max_len is 0"):
            decode(model, src, max_len=0)
    with pytest.raises(ValueError, match="beam is 0"):
        beam_search(model, src, max_len=5, beam=0)
    for temperature in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"temperature is {temperature}"):
            sample(model, src, max_len=5, temperature=temperature)


HYPOTHESES = ["the cat sat on the mat .", "a dog barks at night", "hello world how are you"]
REFERENCES = ["the cat sat on the mat .", "the dog barked in the night", "goodbye moon where is she"]


def test_bleu_is_that_of_sacrebleu() -> None:
    score, signature = corpus_bleu(HYPOTHESES, REFERENCES)
    assert score == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score == pytest.approx(44.93, abs=0.01)
    assert signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"


def test_bleu_wants_one_reference_for_each_hypothesis() -> None:
    with pytest.raises(ValueError, match="3 hypotheses and 2 references"):
        corpus_bleu(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(ValueError, match="0 hypotheses"):
        corpus_bleu([], [])
