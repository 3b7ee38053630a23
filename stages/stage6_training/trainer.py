"""One training run: epoch after epoch until BLEU no longer rises, with a checkpoint after each.

Given, not an exercise. Your `train_epoch`, `evaluate`, `noam_lr`, `EarlyStopping`, `greedy_decode` and
`corpus_bleu` do the work.
"""

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import checkpoint as checkpoints
from .corpus import Corpus, Pair
from .decoding import corpus_bleu, greedy_decode
from .distributed import Ranks
from .numerics import NotFinite, first_not_finite, stop_before_bad_steps
from .progress import Progress
from .settings import BadInput
from .training import EarlyStopping, evaluate, noam_lr, sequence_loss, shift_right, train_epoch
from .translator import Translator, sentence_of, vocab_to_text
from .vocab import tokenize_en

Batch = tuple[Tensor, Tensor]

SAMPLES = 4  # sentences of the validation part whose translations are shown
DELTA = 1e-9  # a higher BLEU is a gain, however small; an equal one is none


class Trainer:
    """A translator in training, with all that has to survive a kill: optimiser, schedule, history, best weights."""

    def __init__(
        self,
        translator: Translator,
        corpus: Corpus,
        corpus_name: str,
        path: Path,
        ranks: Ranks,
        patience: int,
        amp: bool = False,
        compiled: bool = False,
    ) -> None:
        """Make the optimiser and the schedule of the paper. The checkpoint goes to `path`."""
        self.translator = translator
        self.settings = translator.settings
        self.corpus = corpus
        self.corpus_name = f"{corpus_name} {fingerprint(corpus)}"
        self.path = path
        self.ranks = ranks
        self.amp = amp
        self.model = translator.model.to(ranks.device)
        if compiled:
            self.model.compile(dynamic=True)
        self.parallel = ranks.parallel(self.model)
        # Noam's formula gives the learning rate itself, so the base rate is no rate but a factor near 1.
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=self.settings.lr_factor, betas=(0.9, 0.98), eps=1e-9
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: noam_lr(step + 1, self.settings.d_model, self.settings.warmup)
        )
        stop_before_bad_steps(self.optimizer)
        self.stopping = EarlyStopping(patience, DELTA)
        self.stopped = False
        self.history: list[dict[str, Any]] = []
        self.samples = _spread(sorted(corpus.valid, key=lambda pair: len(pair.chinese)), SAMPLES)

    # Going on after an end

    def resume(self) -> None:
        """Go on from the checkpoint. Raises `BadInput` where it belongs to another run."""
        found = checkpoints.load(self.path)
        checkpoints.refuse_another_run(found, self.path, self.corpus_name, self.settings, self.translator)
        last = checkpoints.translator_of(found, self.path, best=False)
        self.model.load_state_dict(last.model.state_dict())
        try:
            self.optimizer.load_state_dict({"state": found.optimizer, "param_groups": found.param_groups})
            self.scheduler.load_state_dict(found.scheduler)
        except (KeyError, ValueError) as error:
            raise BadInput(
                f"{self.path} does not fit this optimiser and schedule ({error}). Give --fresh to begin anew in its "
                "place, or another --out"
            ) from None
        self.history = found.history
        for entry in found.history:
            self.stopped = self.stopping.step(-entry["bleu"])
        self.stopping.best_state = found.best

    def save(self) -> None:
        """Write the checkpoint; under torchrun only the first rank does."""
        if not self.ranks.is_first:
            return
        optimizer = self.optimizer.state_dict()
        checkpoint = checkpoints.Checkpoint(
            settings=self.settings,
            chinese=vocab_to_text(self.translator.chinese),
            english=vocab_to_text(self.translator.english),
            corpus=self.corpus_name,
            weights=self.model.state_dict(),
            best=self.stopping.best_state or {},
            optimizer=optimizer["state"],
            param_groups=optimizer["param_groups"],
            scheduler=self.scheduler.state_dict(),
            history=self.history,
        )
        checkpoints.save(self.path, checkpoint)

    # Training

    def train(self, epochs: int, progress: Progress) -> None:
        """Train until `epochs` are done, or BLEU has not risen for `patience` of them.

        Raises `BadInput`, naming a tensor, where the loss is no longer a number. The checkpoint is then that
        of the last good epoch.
        """
        while len(self.history) < epochs and not self.stopped:
            self.history.append(self._epoch(len(self.history) + 1, progress))
            self.stopped = self.stopping.step(-self.history[-1]["bleu"], self.model)
            self.save()
            progress.epoch_ended(self.history)

    def _epoch(self, epoch: int, progress: Progress) -> dict[str, Any]:
        start = time.perf_counter()
        progress.epoch_begins(epoch, math.ceil(len(self.corpus.train) / self.settings.batch_size))
        loss = self._train_once(epoch, progress)
        with self._precision():  # under torchrun every rank does this: it is quick, and they stay in step
            valid_loss = evaluate(self.model, self.translator.batches(self.corpus.valid), self.ranks.device)
            translations = self.translate(self.corpus.valid)
        entry = {
            "epoch": epoch,
            "train_loss": loss,
            "valid_loss": valid_loss,
            "bleu": bleu_of(translations, self.corpus.valid)[0],
            "lr": self.scheduler.get_last_lr()[0],
            "steps": self.scheduler.last_epoch,
            "seconds": time.perf_counter() - start,
            "samples": [translations[self.corpus.valid.index(pair)] for pair in self.samples],
        }
        # Ranks may round differently, and have to agree on when to stop.
        return self.ranks.from_first(entry)  # type: ignore[no-any-return]

    def _train_once(self, epoch: int, progress: Progress) -> float:
        """Go once through the training part, step by step; return the mean loss per token."""
        # What is random depends on seed and epoch alone, so a run that goes on makes the same steps.
        order = torch.Generator().manual_seed(self.settings.seed * 100_003 + epoch)
        torch.manual_seed((self.settings.seed * 100_003 + epoch) * 1009 + self.ranks.rank)
        total, tokens = 0.0, 0
        for group in _groups(self.translator.batches(self.corpus.train, order), self.settings.accumulate):
            loss = self._step(group, epoch)
            real = sum(int((tgt[:, 1:] != self.model.pad_id).sum()) for _, tgt in group)
            total, tokens = total + loss * real, tokens + real
            progress.step(len(group), total / tokens)
        return total / tokens

    def _step(self, group: list[Batch], epoch: int) -> float:
        """Make one step of the optimiser with your `train_epoch`; return its mean loss per token."""
        random_state = torch.get_rng_state()
        try:
            with self._precision():
                loss = train_epoch(
                    self.parallel,
                    self.ranks.share(group),
                    self.optimizer,
                    self.scheduler,
                    clip=self.settings.clip,
                    accumulate=self.settings.accumulate,
                    device=self.ranks.device,
                    label_smoothing=self.settings.label_smoothing,
                )
            loss = self.ranks.mean(loss)
            if not math.isfinite(loss):
                raise NotFinite
        except NotFinite:
            torch.set_rng_state(random_state)
            raise BadInput(self._explain(group, epoch)) from None
        return loss

    def _explain(self, group: list[Batch], epoch: int) -> str:
        """Say which tensor went bad first, by computing the losses of a step once more."""
        name = ""
        for src, tgt in group:
            inputs, targets = (part.to(self.ranks.device) for part in shift_right(tgt))
            source = src.to(self.ranks.device)
            with self._precision():
                name = name or first_not_finite(
                    self.model,
                    lambda model, source=source, inputs=inputs, targets=targets: sequence_loss(
                        model(source, inputs), targets, model.pad_id, self.settings.label_smoothing
                    ),
                )
        kept = (
            f"{self.path} holds epoch {epoch - 1}, the last good one"
            if self.history
            else "no checkpoint is written"
        )
        return (
            f"the loss is no longer a number in epoch {epoch}, step {self.scheduler.last_epoch + 1}; the first "
            f"tensor with NaN or infinity: {name or 'none that shows when the step is computed again'}; {kept}"
        )

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.ranks.device.type, torch.bfloat16) if self.amp else nullcontext()

    # Measuring

    def translate(self, pairs: Sequence[Pair]) -> list[str]:
        """Translate the Chinese sides greedily into sentences."""
        translations = self.translator.translate([pair.chinese for pair in pairs], greedy_decode)
        return [sentence_of(tokens) for tokens in translations]

    def use_best(self) -> None:
        """Put the weights of the best epoch into the model, where training has left those of the last one."""
        if self.stopping.best_state:
            self.model.load_state_dict(self.stopping.best_state)


def bleu_of(translations: Sequence[str], pairs: Sequence[Pair]) -> tuple[float, str]:
    """Compare translations with the English sides, all in lower case; return BLEU and its signature."""
    references = [sentence_of(tokenize_en(pair.english)) for pair in pairs]
    return corpus_bleu([text.lower() for text in translations], [text.lower() for text in references])


def fingerprint(corpus: Corpus) -> str:
    """A short hash of all pairs, by which a run knows its corpus again."""
    text = "\n\n".join("\n".join("\t".join(pair) for pair in part) for part in corpus)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    while group := list(islice(batches, size)):
        yield group


def _spread(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Take `count` pairs evenly from a list, short sentences and long ones."""
    count = min(count, len(pairs))
    return [pairs[len(pairs) * (2 * i + 1) // (2 * count)] for i in range(count)]
