"""How well the solution's translator learns, beside `nn.Transformer` in the same loop.

Both models have the same sizes and go through the same batches with the same optimiser and schedule, the demo's own
(`solutions/stage6_training`). What counts is BLEU on the test part: the solution may be better, or below by no more
than chance. Exits with 1 where it is further below. Give `--corpus FILE` for a list of Tatoeba or manythings.org.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.models.pytorch_transformer import PyTorchTransformer
from solutions.stage6_training.corpus import Corpus, load_corpus
from solutions.stage6_training.distributed import Ranks
from solutions.stage6_training.progress import Progress
from solutions.stage6_training.settings import Settings
from solutions.stage6_training.trainer import Trainer, bleu_of
from solutions.stage6_training.translator import Translator

NOISE = 3.0
"""BLEU by which two runs of the same model differ when only their seeds do, on a test part of fifty sentences."""

LEARNED = 500
"""Sentences of the training part that are translated, for its BLEU."""


def translator_of(corpus: Corpus, settings: Settings, baseline: bool) -> Translator:
    """A fresh translator; with `baseline` its model is nn.Transformer."""
    translator = Translator.build(settings, corpus.train)
    if baseline:
        torch.manual_seed(settings.seed)
        translator.model = PyTorchTransformer(
            len(translator.chinese),
            len(translator.english),
            settings.d_model,
            settings.num_heads,
            settings.num_layers,
            settings.d_ff,
            settings.dropout,
            settings.max_len,
        )
    return translator


def run(name: str, corpus: Corpus, settings: Settings, epochs: int, baseline: bool) -> float:
    """Train once, print a line, and return BLEU on the test part."""
    with tempfile.TemporaryDirectory() as folder:
        translator = translator_of(corpus, settings, baseline)
        path = Path(folder) / "translator.safetensors"
        trainer = Trainer(translator, corpus, name, path, Ranks("cpu"), patience=epochs)
        start = time.perf_counter()
        trainer.train(epochs, Progress())
        seconds = time.perf_counter() - start
    last = trainer.history[-1]
    below = next((entry["epoch"] for entry in trainer.history if entry["train_loss"] < 0.1), math.nan)
    learned = corpus.train[:LEARNED]
    train_bleu = bleu_of(trainer.translate(learned), learned)[0]
    test_bleu = bleu_of(trainer.translate(corpus.test), corpus.test)[0]
    print(
        f"  seed {settings.seed}  {'nn.Transformer' if baseline else 'solution':14}  {seconds:5.0f} s"
        f"  train loss {last['train_loss']:.3f} (below 0.1 from epoch {below:g})"
        f"  train BLEU {train_bleu:5.1f}  valid BLEU {last['bleu']:5.1f}  test BLEU {test_bleu:5.1f}",
        flush=True,
    )
    return test_bleu


def cut(corpus: Corpus, pairs: int | None) -> Corpus:
    """The first pairs of a large corpus, and at most 500 of its other parts."""
    return Corpus(corpus.train[:pairs], corpus.valid[:500], corpus.test[:500])


def main() -> int:
    """Train both for each seed; print BLEU, seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="data/zh_en", help="as for demo6 (default: data/zh_en)")
    parser.add_argument("--epochs", type=int, default=40, help="(default: 40)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each model (default: 3)")
    parser.add_argument("--pairs", type=int, help="use only so many pairs to learn from")
    parser.add_argument("--alone", action="store_true", help="leave nn.Transformer out")
    parser.add_argument("--quick", action="store_true", help="one seed, three epochs: it runs, no more")
    options = parser.parse_args()
    epochs, seeds = (3, 1) if options.quick else (options.epochs, options.seeds)

    # Its tensors are small: a second thread that has to wait for its processor costs more than it gives.
    torch.set_num_threads(1)
    corpus = cut(load_corpus(options.corpus), options.pairs)
    longest = max(len(side) for part in corpus for pair in part for side in pair)
    settings = replace(Settings(), max_len=max(Settings.max_len, longest + 2))
    train, valid, test = map(len, corpus)
    print(f"A translator on {options.corpus} ({train:,} / {valid} / {test} pairs), {epochs} epochs:")
    scores: list[list[float]] = [[], []]
    for seed in range(seeds):
        for which in range(1 if options.alone else 2):
            scores[which].append(
                run(options.corpus, corpus, replace(settings, seed=seed), epochs, baseline=bool(which))
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    own = statistics.mean(scores[0])
    line = f"  test BLEU {own:.1f}"
    within = True
    if not options.alone:
        theirs = statistics.mean(scores[1])
        within = own >= theirs - NOISE
        line += f", nn.Transformer {theirs:.1f} (at most {NOISE:g} above)"
    print(f"{line}; memory at most {peak:.2f} GiB{'' if within else '  ABOVE ITS LIMIT'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
