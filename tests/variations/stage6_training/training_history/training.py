# Early stopping keeps the whole history; batches are wider than they need to be; gradients by torch.autograd.grad.

import math
from itertools import chain

import torch
import torch.nn.functional as F
from torch import nn


def pad_batch(sequences, pad_id=0, max_len=None):
    width = max_len if max_len is not None else max(map(len, sequences)) + 2
    batch = torch.empty(len(sequences), width, dtype=torch.int64).fill_(pad_id)
    for row, sequence in zip(batch, sequences):
        kept = torch.as_tensor(sequence)[:width]
        row[: len(kept)] = kept
        if len(sequence) > width and sequence[-1] == 2:
            row[-1] = 2
    return batch


def shift_right(batch):
    return batch[:, torch.arange(batch.shape[1] - 1)], batch.roll(-1, 1)[:, :-1]


def sequence_loss(logits, targets, pad_id=0, label_smoothing=0.0):
    real = targets != pad_id
    chosen = F.cross_entropy(logits[real], targets[real], reduction="none", label_smoothing=label_smoothing)
    return chosen.sum() / max(int(real.sum()), 1)


def noam_lr(step, d_model, warmup):
    step = 0.5 if step == 0 else step
    return (d_model * max(step, warmup**3 / step**2)) ** -0.5


def train_epoch(
    model, batches, optimizer, scheduler=None, clip=1.0, accumulate=1, device="cpu", label_smoothing=0.0
):
    model.train()
    iterator, end = iter(batches), object()
    losses, counts = [], []
    parameters = list(model.parameters())
    first = next(iterator, end)
    while first is not end:
        group = [first]
        while len(group) < accumulate and (batch := next(iterator, end)) is not end:
            group.append(batch)
        pairs = [(src, *shift_right(tgt)) for src, tgt in group]
        sizes = [int((targets != model.pad_id).sum()) for _, _, targets in pairs]
        gradients = [torch.zeros_like(parameter) for parameter in parameters]
        for (src, inputs, targets), size in zip(pairs, sizes):
            logits = model(src.to(device), inputs.to(device))
            loss = sequence_loss(logits, targets.to(device), model.pad_id, label_smoothing)
            found = torch.autograd.grad(loss * (size / sum(sizes)), parameters, allow_unused=True)
            gradients = [old if new is None else old + new for old, new in zip(gradients, found)]
            losses.append(loss.item() * size)
            counts.append(size)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, max_norm=clip, foreach=False)
        optimizer.step()
        optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
        first = next(iterator, end)
    return math.fsum(losses) / sum(counts)


def evaluate(model, batches, device="cpu"):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    losses, counts = [], []
    with torch.no_grad():
        for src, tgt in chain(batches):
            inputs, targets = shift_right(tgt.to(device))
            counts.append((targets != model.pad_id).sum().item())
            losses.append(sequence_loss(model(src.to(device), inputs), targets, model.pad_id).item())
    for module, mode in modes.items():
        module.training = mode
    return sum(loss * count for loss, count in zip(losses, counts)) / sum(counts)


class EarlyStopping:
    def __init__(self, patience, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.history, self.best_state = [], None

    @property
    def best_loss(self):
        return self.history[self.gains()[-1]] if self.gains() else math.inf

    def gains(self):
        found, best = [], math.inf
        for epoch, loss in enumerate(self.history):
            if loss < best - self.min_delta:
                found.append(epoch)
                best = loss
        return found

    def step(self, loss, model=None):
        self.history.append(loss)
        gains = self.gains()
        if gains and gains[-1] == len(self.history) - 1 and model is not None:
            self.best_state = {name: torch.clone(value) for name, value in model.state_dict().items()}
        last_gain = gains[-1] if gains else -1
        return len(self.history) - 1 - last_gain >= self.patience
