"""The runs behind the cases: each in a healthy and in a broken form. No peeking before you have a diagnosis!"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ...stage1_attention.attention import causal_mask, padding_mask
from ...stage5_decoder.transformer import Transformer
from .task import PAD, VOCABULARY, as_it_should_be, encode, exact_match, random_words, write
from .training import History, Settings, make_model, mean_over_real_tokens, train

HEALTHY = Settings()
FRESH = random_words(100, torch.Generator().manual_seed(99))  # words of no training run
SHOWN = ["abcdef", "cab", "jig", "if", "faced"]  # the samples

LogitsOf = Callable[[nn.Module, Tensor, Tensor], Tensor]


@dataclass
class AttentionMap:
    """The weights of one attention, the mean of its heads."""

    weights: Float[Tensor, "queries keys"]
    queries: list[str]
    keys: list[str]


@dataclass
class Run:
    """What there is to see of one run."""

    history: History
    samples: dict[str, str]  # word -> what was written for it
    numbers: dict[str, float] = field(default_factory=dict)
    map: AttentionMap | None = None
    marks: Sequence[int] = ()  # steps to be marked in the curves


@lru_cache(maxsize=4)
def trained(settings: Settings) -> tuple[Transformer, History]:
    """A model that was trained as it should be; several cases begin with the same one."""
    model = make_model(settings)
    history = train(model, settings)
    return model.eval(), history


def seen(model: nn.Module, history: History, logits_of: LogitsOf = as_it_should_be) -> Run:
    """What every case shows: the samples, the last loss, and how many fresh words are right."""
    written = write(model, FRESH, logits_of)
    numbers = {
        "loss at the end": sum(history.losses[-10:]) / len(history.losses[-10:]),
        "words right": exact_match(FRESH, written),
    }
    return Run(history, dict(zip(SHOWN, write(model, SHOWN, logits_of))), numbers)


def case1(broken: bool) -> Run:
    """The learning rate, times ten."""
    settings = replace(HEALTHY, peak=10 * HEALTHY.peak) if broken else HEALTHY
    return seen(*trained(settings))


def case2(broken: bool) -> Run:
    """Post-norm, without warm-up."""
    settings = replace(HEALTHY, norm_first=False, num_layers=3, steps=250)
    return seen(*trained(replace(settings, warmup=0) if broken else settings))


def without_source_mask(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """The masks of padding are forgotten where the model writes."""
    hidden = model.decode(tgt, model.encode(src), causal_mask(tgt.size(1)))
    return model.fc_out(hidden)


def case3(broken: bool) -> Run:
    """The mask of the source's padding is lost at inference."""
    model, history = trained(HEALTHY)
    logits_of = without_source_mask if broken else as_it_should_be
    run = seen(model, history, logits_of)
    right = 0.0
    for length in sorted({len(word) for word in FRESH}):
        words = [word for word in FRESH if len(word) == length]
        right += exact_match(words, write(model, words, logits_of)) * len(words)
    run.numbers["words right, words of one length at a time"] = right / len(FRESH)
    run.map = attention_map(model, model.decoder.layers[-1].cross_attn, ["cab", "abcdef"], logits_of)
    return run


def case4(broken: bool) -> Run:
    """`eval()` is forgotten before the model writes."""
    model, history = trained(replace(HEALTHY, dropout=0.05))
    torch.manual_seed(0)
    model.train(broken)
    run = seen(model, history)
    versions = [write(model, FRESH) for _ in range(5)]
    changing = sum(len(set(texts)) > 1 for texts in zip(*versions))
    run.numbers["words that change when written five times"] = changing / len(FRESH)
    model.eval()
    return run


def mean_over_everything(
    logits: Float[Tensor, "batch seq vocab"], targets: Int[Tensor, "batch seq"]
) -> Float[Tensor, ""]:
    """Padding counts like any other token."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def case5(broken: bool) -> Run:
    """The loss counts padding."""
    settings = replace(HEALTHY, width=14)
    model = make_model(settings)
    history = train(model, settings, mean_over_everything if broken else mean_over_real_tokens, last=100)
    run = seen(model.eval(), history)
    src, tgt = encode(FRESH, settings.width)
    with torch.no_grad():
        chances = model(src, tgt[:, :-1]).softmax(-1)  # (batch, tgt_len - 1, vocab)
    targets = tgt[:, 1:]
    of_target = chances.gather(-1, targets[..., None])[..., 0]  # (batch, tgt_len - 1)
    run.numbers["chance given to the right letter"] = of_target[targets > 2].mean().item()
    after_eos = (tgt[:, :-1] == 2).nonzero()
    run.numbers["chance given to <pad> after <eos>"] = (
        chances[after_eos[:, 0], after_eos[:, 1], PAD].mean().item()
    )
    return run


class RandomPositions(nn.Module):
    """A fixed random vector for each position: as good as sines, where it is kept."""

    def __init__(self, max_len: int, d_model: int, saved: bool) -> None:
        super().__init__()
        pe = 0.7 * torch.randn(1, max_len, d_model)
        if saved:
            self.register_buffer("pe", pe)
        else:
            self.pe = pe  # no buffer, so no part of the state dict

    def forward(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch seq d_model"]:
        return x + self.pe[:, : x.size(1)]


def case6(broken: bool) -> Run:
    """The table of positions is not saved with the weights."""

    def make(seed: int) -> Transformer:
        model = make_model(replace(HEALTHY, seed=seed))
        model.positions = RandomPositions(16, HEALTHY.d_model, saved=not broken)
        return model

    stop = 300
    first = make(seed=0)
    history = train(first, HEALTHY, last=stop)
    before = exact_match(FRESH, write(first.eval(), FRESH))
    second = make(seed=1)  # another day, another process
    second.load_state_dict(first.state_dict())
    run = seen(second.eval(), history)
    run.numbers = {
        "words right before saving": before,
        "words right after loading": run.numbers["words right"],
    }
    run.map = attention_map(second, second.decoder.layers[-1].cross_attn, ["abcdef"])
    later = train(second, HEALTHY, first=stop)
    run.history = History(
        history.losses + later.losses, history.norms + later.norms, history.rates + later.rates
    )
    run.numbers["loss before saving"] = sum(history.losses[-10:]) / 10
    run.numbers["loss after loading"] = later.losses[0]
    run.marks = [stop]
    return run


def case7(broken: bool) -> Run:
    """Clipping where it comes too late, and beta2 too near to 1."""
    settings = replace(HEALTHY, outliers=(120, 200))
    if broken:
        settings = replace(settings, betas=(0.9, 0.9999), clip_after_step=True)
    model, history = trained(settings)
    run = seen(model, history)
    before = [loss for step in settings.outliers for loss in history.losses[step - 10 : step]]
    after = [loss for step in settings.outliers for loss in history.losses[step + 1 : step + 11]]
    run.numbers["loss in the 10 steps before a mark"] = sum(before) / len(before)
    run.numbers["loss in the 10 steps after a mark"] = sum(after) / len(after)
    run.marks = settings.outliers
    return run


class WithoutCausalMask(Transformer):
    """The decoder's self-attention hides padding alone."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        src_mask, tgt_mask = padding_mask(src), padding_mask(tgt)
        return self.fc_out(self.decode(tgt, self.encode(src, src_mask), tgt_mask, src_mask))


def case8(broken: bool) -> Run:
    """The decoder sees the answer."""
    if broken:
        model = make_model(HEALTHY, WithoutCausalMask)
        history = train(model, HEALTHY)
        model.eval()
    else:
        model, history = trained(HEALTHY)
    run = seen(model, history)
    src, tgt = encode(FRESH)
    with torch.no_grad():
        guessed = model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]
    run.numbers["next letters guessed, with the answer as input"] = (
        guessed[tgt[:, 1:] != PAD].float().mean().item()
    )
    run.map = attention_map(model, model.decoder.layers[-1].self_attn, ["abcdef"])
    return run


@torch.no_grad()
def attention_map(
    model: nn.Module, attention: nn.Module, words: list[str], logits_of: LogitsOf = as_it_should_be
) -> AttentionMap:
    """The weights of one attention for the first of `words`, with the right answer as the decoder's input."""
    weights: list[Tensor] = []
    hook = attention.register_forward_hook(lambda module, inputs, output: weights.append(output[1]))
    src, tgt = encode(words)
    tgt = tgt[:, :-1]
    try:
        logits_of(model, src, tgt)
    finally:
        hook.remove()
    mean = weights[-1][0].mean(0)  # (queries, keys)
    keys = src[0] if mean.size(1) == src.size(1) else tgt[0]
    return AttentionMap(mean, names(tgt[0]), names(keys))


def names(ids: Tensor) -> list[str]:
    return [VOCABULARY[token] for token in ids.tolist()]
