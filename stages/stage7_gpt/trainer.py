"""One training run of a GPT: steps in rounds, and after each round a look, a sample and a checkpoint.

Given, not an exercise. Your `GPT` and your `generate` do the work.
"""

import math
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..stage6_training.distributed import Ranks
from ..stage6_training.numerics import NotFinite, first_not_finite, stop_before_bad_steps
from ..stage6_training.progress import Progress
from ..stage6_training.settings import BadInput
from . import checkpoint as checkpoints
from .characters import Text, all_windows, random_batch
from .generation import generate
from .gpt import GPT
from .settings import Settings

WINDOWS = 256  # of the validation part, after each round; in the end it is all of them
SAMPLE_LENGTH = 160
SAMPLE_TEMPERATURE = 0.8


class Trainer:
    """A GPT in training, with all that has to survive a kill: optimiser, schedule, history, best weights."""

    def __init__(
        self,
        settings: Settings,
        text: Text,
        path: Path,
        ranks: Ranks,
        amp: bool = False,
        compiled: bool = False,
    ) -> None:
        """Make model, optimiser and schedule. The checkpoint goes to `path`."""
        self.settings = settings
        self.text = text
        self.path = path
        self.ranks = ranks
        self.amp = amp
        torch.manual_seed(settings.seed)
        self.model = GPT(settings.config(len(text.characters))).to(ranks.device)
        if compiled:
            self.model.compile()
        self.parallel = ranks.parallel(self.model)
        self.optimizer = torch.optim.AdamW(
            _with_and_without_decay(self.model, settings.weight_decay),
            lr=settings.lr,
            betas=(0.9, settings.beta2),
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: settings.lr_at(step) / settings.lr
        )
        stop_before_bad_steps(self.optimizer)
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.prompt = text.valid[:1]

    @property
    def steps_done(self) -> int:
        return self.history[-1]["step"] if self.history else 0

    # Going on after an end

    def resume(self) -> None:
        """Go on from the checkpoint. Raises `BadInput` where it belongs to another run."""
        found = checkpoints.load(self.path)
        checkpoints.refuse_another_run(found, self.path, self.text.name, self.settings, self.text.characters)
        checkpoints.put_in(self.model, found.weights, self.path)
        try:
            self.optimizer.load_state_dict({"state": found.optimizer, "param_groups": found.param_groups})
            self.scheduler.load_state_dict(found.scheduler)
        except (KeyError, ValueError) as error:
            raise BadInput(
                f"{self.path} does not fit this optimiser and schedule ({error}). {checkpoints.MEND}"
            ) from None
        self.history, self.best = found.history, found.best

    def save(self) -> None:
        """Write the checkpoint; under torchrun only the first rank does."""
        if not self.ranks.is_first:
            return
        optimizer = self.optimizer.state_dict()
        checkpoint = checkpoints.Checkpoint(
            settings=self.settings,
            characters=self.text.characters.characters,
            text=self.text.name,
            weights=self.model.state_dict(),
            best=self.best,
            optimizer=optimizer["state"],
            param_groups=optimizer["param_groups"],
            scheduler=self.scheduler.state_dict(),
            history=self.history,
        )
        checkpoints.save(self.path, checkpoint)

    # Training

    def train(self, progress: Progress) -> None:
        """Train until all steps are made.

        Raises `BadInput`, naming a tensor, where the loss is no longer a number. The checkpoint is then that
        of the last good round.
        """
        while self.steps_done < self.settings.steps:
            self.history.append(self._round(progress))
            if is_best(self.history, self.history[-1]):
                self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
            self.save()
            progress.epoch_ended(self.history)

    def _round(self, progress: Progress) -> dict[str, Any]:
        start, first = time.perf_counter(), self.steps_done
        steps = min(self.settings.every, self.settings.steps - first)
        number = len(self.history) + 1
        progress.epoch_begins(number, steps)
        # What is random depends on seed and round alone, so a run that goes on makes the same steps.
        windows = torch.Generator().manual_seed(self.settings.seed * 100_003 + number)
        torch.manual_seed((self.settings.seed * 100_003 + number) * 1009 + self.ranks.rank)
        self.model.train()
        total = 0.0
        for made in range(1, steps + 1):
            lr = self.scheduler.get_last_lr()[0]
            batch = random_batch(self.text.train, self.settings.block_size, self.settings.batch_size, windows)
            total += self._step(*batch, step=first + made)
            progress.step(1, total / made)
        entry = {
            "step": first + steps,
            "train_loss": total / steps,
            "valid_loss": self.valid_loss(WINDOWS),
            "lr": lr,
            "sample": self.sample(),
            "seconds": time.perf_counter() - start,
        }
        # Ranks may round differently, and have to agree on which weights are the best.
        return self.ranks.from_first(entry)  # type: ignore[no-any-return]

    def _step(self, tokens: Tensor, targets: Tensor, step: int) -> float:
        """Make one step of the optimiser; return the mean loss of its batch."""
        own_tokens, own_targets = (part.to(self.ranks.device) for part in self._share(tokens, targets))
        try:
            with self._precision():
                _, loss = self.parallel(own_tokens, own_targets)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            mean = self.ranks.mean(loss.item())
            if not math.isfinite(mean):
                raise NotFinite
        except NotFinite:
            raise BadInput(self._explain(own_tokens, own_targets, step)) from None
        self.scheduler.step()
        return mean

    def _share(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's rows of a batch; one without any goes along with a row that counts for nothing."""
        rank, size = self.ranks.rank, self.ranks.size
        own_tokens, own_targets = tokens[rank::size], targets[rank::size]
        self.ranks.weight = len(own_tokens) / len(tokens)
        return (own_tokens, own_targets) if len(own_tokens) else (tokens[:1], targets[:1])

    def _explain(self, tokens: Tensor, targets: Tensor, step: int) -> str:
        """Say which tensor went bad first, by computing the loss of a step once more."""
        with self._precision():
            name = first_not_finite(self.model, lambda model: model(tokens, targets)[1])
        kept = (
            f"{self.path} holds step {self.steps_done}, the last good one"
            if self.history
            else "no checkpoint is written"
        )
        return (
            f"the loss is no longer a number in step {step}; the first tensor with NaN or infinity: "
            f"{name or 'none that shows when the step is computed again'}; {kept}"
        )

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.ranks.device.type, torch.bfloat16) if self.amp else nullcontext()

    # Measuring

    @torch.no_grad()
    def valid_loss(self, at_most: int | None = None) -> float:
        """The mean loss per character of the validation part, or of so many windows of it."""
        self.model.eval()
        tokens, targets = all_windows(self.text.valid, self.settings.block_size, at_most)
        total = 0.0
        for own_tokens, own_targets in zip(tokens.split(64), targets.split(64)):
            with self._precision():
                _, loss = self.model(own_tokens.to(self.ranks.device), own_targets.to(self.ranks.device))
            total += loss.item() * len(own_tokens)
        return total / len(tokens)

    def sample(self) -> str:
        """What the model writes after the first character of the validation part, the same random numbers each time."""
        device = self.ranks.device
        generator = torch.Generator(device).manual_seed(self.settings.seed)
        prompt = self.prompt[None].to(device)  # (1, 1)
        with self._precision():
            tokens = generate(self.model, prompt, SAMPLE_LENGTH, SAMPLE_TEMPERATURE, generator=generator)
        return self.text.characters.decode(tokens[0])

    def use_best(self) -> None:
        """Put the weights of the best round into the model, where training has left those of the last one."""
        if self.best:
            self.model.load_state_dict(self.best)


def is_best(history: list[dict[str, Any]], entry: dict[str, Any]) -> bool:
    """Whether a round is the first of those with the lowest validation loss."""
    return entry is min(history, key=lambda each: each["valid_loss"])


def _with_and_without_decay(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and embeddings decay; biases and the weights of norms, which have one axis, do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
