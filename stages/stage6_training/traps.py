"""Springs the traps of the lesson on purpose, in numbers: `python -m stages.stage6_training.traps` (or `solutions.`).

Given, not an exercise. Beside each wrong way stands what your own functions make of the same thing.
"""

import argparse
import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from torch import Tensor, nn

from ..stage5_decoder.transformer import Transformer
from .decoding import beam_search, corpus_bleu, greedy_decode
from .training import evaluate, noam_lr, pad_batch, sequence_loss, shift_right, train_epoch

PAD, SOS, EOS = 0, 1, 2

HYPOTHESES = ["the cat sat on the mat .", "a dog barks at night", "hello world how are you"]
REFERENCES = ["the cat sat on the mat .", "the dog barked in the night", "goodbye moon where is she"]


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description="Spring the traps of stage 6 on purpose.").parse_args(argv)
    show_shift()
    show_padding()
    show_smoothing()
    show_schedule()
    show_accumulation()
    show_clipping()
    show_stale_gradients()
    show_modes()
    show_beams()
    show_length_penalty()
    show_temperature()
    show_bleu()


def show_shift() -> None:
    """What the decoder reads, and what it should answer."""
    words = ["<pad>", "<sos>", "<eos>", "<unk>", "i", "like", "tea"]
    inputs, targets = shift_right(pad_batch([[1, 4, 5, 6, 2], [1, 6, 2]]))
    for row in range(2):
        print(f"the decoder reads    {'  '.join(words[index] for index in inputs[row])}")
        print(f"and should answer    {'  '.join(words[index] for index in targets[row])}")


def show_padding() -> None:
    """A model that is sure of <pad> and knows nothing of words."""
    vocab, lengths = 1000, (10, 100)
    targets = pad_batch([[5] * length for length in lengths])  # (2, 100): 90 of its 200 places are padding
    logits = torch.zeros(2, 100, vocab)
    logits[targets == PAD, PAD] = 30.0
    counted = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss = sequence_loss(logits, targets)
    print(
        f"a model that is sure of <pad>, and guesses among 1,000 words: "
        f"loss {loss:.2f}; {counted:.2f} if padding counts"
    )
    print(
        f"a batch of padding: {sequence_loss(logits[:1, 10:], targets[:1, 10:]):.0f}; "
        f"F.cross_entropy's mean: {F.cross_entropy(logits[0, 10:], targets[0, 10:], ignore_index=PAD):.0f}"
    )


def show_smoothing() -> None:
    """The lowest loss that is possible with label smoothing."""
    vocab, smoothing = 1000, 0.1
    wanted = torch.full((vocab,), smoothing / vocab)
    wanted[5] += 1 - smoothing
    best = sequence_loss(wanted.log()[None, None], torch.tensor([[5]]), label_smoothing=smoothing)
    sure = torch.zeros(1, 1, vocab)
    sure[..., 5] = 30.0
    loss = sequence_loss(sure, torch.tensor([[5]]), label_smoothing=smoothing)
    print(
        f"label smoothing 0.1, 1,000 words: the best loss there is {best:.2f}; a model that is quite sure {loss:.2f}"
    )


def show_schedule() -> None:
    """Noam's formula is the learning rate itself."""
    for base in (1.0, 1e-3):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=base)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: noam_lr(step + 1, 512, 4000))
        rates = []
        for _ in range(4100):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        print(f"base rate {base:g}: the peak is {max(rates):.1e}, at step {rates.index(max(rates)) + 1}")


def show_accumulation() -> None:
    """Three batches, with 2, 3 and 39 real tokens, as one step."""
    batches = [_batch(1, 2), _batch(1, 3), _batch(3, 13)]
    model = _model()
    whole = _gradient(model, [_merged(batches)], accumulate=1)
    parts = _gradient(model, batches, accumulate=3)
    print(
        f"three batches as one: your gradient differs from that of one large batch by {_off(parts, whole):.0e}"
    )
    each = [_gradient(model, [batch], accumulate=1) for batch in batches]
    print(
        f"    the mean of the means: by {_off(sum(each) / 3, whole):.0%}; the sum: {_off(sum(each), whole):.0%}"
    )
    print(f"    in the mean of the means a token of the first batch counts as much as {39 / 2} of the last")


def show_clipping() -> None:
    """How far one bad batch moves the weights."""
    model = _model()
    with torch.no_grad():
        model.fc_out.weight *= 100  # as if training had gone wrong: large logits, large gradients
    for clip in (1.0, None):
        moved = _gradient(model, [_batch(2, 8)], accumulate=1, clip=clip).norm()
        print(f"one bad batch, clip={clip}: the weights move by {moved:.1f} times the learning rate")


def show_stale_gradients() -> None:
    """backward() adds."""
    model, (src, tgt) = _model(), _batch(2, 8)
    inputs, targets = shift_right(tgt)
    norms = []
    for _ in range(4):  # zero_grad is missing
        sequence_loss(model(src, inputs), targets).backward()
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item())
    print("without zero_grad, the same batch again and again: gradients", " ".join(f"{n:.2f}" for n in norms))


def show_modes() -> None:
    """Dropout during evaluation."""
    model, batch = _model(dropout=0.3), _batch(4, 8)
    inputs, targets = shift_right(batch[1])
    model.train()
    losses = [sequence_loss(model(batch[0], inputs), targets).item() for _ in range(3)]
    print("evaluated in training mode:", "  ".join(f"{loss:.3f}" for loss in losses))
    losses = [evaluate(model, [batch]) for _ in range(3)]
    print("with your evaluate:        ", "  ".join(f"{loss:.3f}" for loss in losses))


class Table(nn.Module):
    """A model that is a table: what has been written so far, and the chances of eos, a and b to come next."""

    pad_id = PAD

    def __init__(self, chances: dict[str, list[float]]) -> None:
        super().__init__()
        self.chances = chances
        self.fc_out = nn.Identity()

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        return src[..., None].float()

    def decode(self, tgt: Tensor, memory: Tensor, *masks: Tensor) -> Tensor:
        rows = []
        for written in tgt.tolist():
            prefixes = [_letters(written[: end + 1]) for end in range(len(written))]
            rows.append([[0.0, 0.0, *self._next(prefix)] for prefix in prefixes])
        return torch.tensor(rows).log()

    def _next(self, prefix: str) -> list[float]:
        eos, a, b = self.chances.get(prefix, [1.0, 0.0, 0.0])
        return [eos, 0.0, a, b]


def show_beams() -> None:
    """The best beginning is not the beginning of the best."""
    model = Table({"": [0.1, 0.5, 0.4], "a": [0.34, 0.33, 0.33], "b": [0.98, 0.01, 0.01]})
    print("a table of chances: a 0.5, then the end 0.34; b 0.4, then the end 0.98")
    src = torch.ones(1, 1, dtype=torch.int64)
    greedy, beams = greedy_decode(model, src, 6), beam_search(model, src, 6, beam=2)
    print(
        f"    greedy writes {_letters(greedy[0].tolist())}, which has a chance of {0.5 * 0.34:.2f}; "
        f"a beam of 2 writes {_letters(beams[0].tolist())}, which has {0.4 * 0.98:.2f}"
    )


def show_length_penalty() -> None:
    """Short wins, unless the sum is divided."""
    model = Table(
        {"": [0.45, 0.55, 0.0], "a": [0.1, 0.0, 0.9], "ab": [0.1, 0.9, 0.0], "aba": [1.0, 0.0, 0.0]}
    )
    for penalty in (0.0, 1.0):
        best = beam_search(model, torch.ones(1, 1, dtype=torch.int64), 8, beam=3, length_penalty=penalty)
        print(f"length_penalty={penalty:g}: the beam writes {_letters(best[0].tolist()) or 'nothing'}")


def show_temperature() -> None:
    """What a temperature does to three chances."""
    logits = torch.tensor([3.0, 2.0, 1.0])
    for temperature in (0.5, 1.0, 2.0):
        chances = (logits / temperature).softmax(0)
        print(f"temperature {temperature:g}: chances {'  '.join(f'{chance:.2f}' for chance in chances)}")


def show_bleu() -> None:
    """The same three sentences, scored in five ways."""
    score, signature = corpus_bleu(HYPOTHESES, REFERENCES)
    print(f"BLEU of three sentences, one of them right: {score:.1f}   ({signature})")
    transposed = BLEU().corpus_score(HYPOTHESES, [[reference] for reference in REFERENCES]).score
    print(f"    references one by one, [[r1], [r2], [r3]]: {transposed:.1f}")
    special = [f"<sos> {text} <eos>" for text in HYPOTHESES]
    print(f"    special tokens left in: {BLEU().corpus_score(special, [REFERENCES]).score:.1f}")
    single = [BLEU(effective_order=True).sentence_score(h, [r]).score for h, r in zip(HYPOTHESES, REFERENCES)]
    print(f"    the mean over sentences: {sum(single) / len(single):.1f}")


def _model(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(0)
    return Transformer(20, 20, d_model=16, num_heads=2, num_layers=2, d_ff=32, dropout=dropout, max_len=50)


def _batch(rows: int, words: int) -> tuple[Tensor, Tensor]:
    """Sources and targets of random words; `words` counts the real targets of a row, <eos> among them."""
    generator = torch.Generator().manual_seed(rows * 100 + words)
    bodies = torch.randint(4, 20, (rows, words - 1), generator=generator).tolist()
    return pad_batch([[*body, EOS] for body in bodies]), pad_batch([[SOS, *body, EOS] for body in bodies])


def _merged(batches: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """One large batch, padded to its longest row."""
    src, tgt = ([row.tolist() for batch in batches for row in batch[side]] for side in range(2))
    return pad_batch(src), pad_batch(tgt)


def _gradient(
    model: nn.Module, batches: list[tuple[Tensor, Tensor]], accumulate: int, clip: float | None = None
) -> Tensor:
    """What one step of gradient descent at learning rate 1 subtracts from the weights, in a row."""
    moved = copy.deepcopy(model)
    train_epoch(moved, batches, torch.optim.SGD(moved.parameters(), lr=1.0), clip=clip, accumulate=accumulate)
    pairs = zip(model.parameters(), moved.parameters())
    return torch.cat([(before - after).detach().flatten() for before, after in pairs])


def _off(found: Tensor, right: Tensor) -> float:
    return float((found - right).norm() / right.norm())


def _letters(ids: list[int]) -> str:
    return "".join("ab"[index - 4] for index in ids if index >= 4)


if __name__ == "__main__":
    main()
