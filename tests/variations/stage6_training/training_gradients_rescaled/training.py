# Sums go backward and gradients are divided afterwards; they are cleared after a step, through the model; clipping by hand.

import copy

import torch
import torch.nn.functional as F


def pad_batch(sequences, pad_id=0, max_len=None):
    rows = []
    for sequence in sequences:
        row = list(sequence)
        if max_len is not None and len(row) > max_len:
            ended = row[-1] == 2
            row = row[:max_len]
            if ended:
                row[-1] = 2
        rows.append(torch.tensor(row, dtype=torch.long))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)


def shift_right(batch):
    length = batch.size(1) - 1
    return batch.narrow(1, 0, length).clone(), batch.narrow(1, 1, length).clone()


def sequence_loss(logits, targets, pad_id=0, label_smoothing=0.0):
    if not (targets != pad_id).any():
        return (logits * 0.0).sum()
    return F.cross_entropy(
        logits.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=label_smoothing
    )


def noam_lr(step, d_model, warmup):
    if step == 0:
        return 0.0
    rising = step < warmup
    return (step / warmup**1.5 if rising else 1 / step**0.5) / d_model**0.5


def train_epoch(
    model, batches, optimizer, scheduler=None, clip=1.0, accumulate=1, device="cpu", label_smoothing=0.0
):
    model.train()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    epoch_loss, epoch_tokens, tokens, waiting = 0.0, 0, 0, 0

    def step():
        nonlocal tokens, waiting
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad /= max(tokens, 1)
        if clip is not None:
            norm = sum(
                (parameter.grad**2).sum() for parameter in parameters if parameter.grad is not None
            ).sqrt()
            if norm > clip:
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter.grad *= clip / (norm + 1e-6)
        optimizer.step()
        model.zero_grad()
        if scheduler:
            scheduler.step()
        tokens, waiting = 0, 0

    for src, tgt in batches:
        inputs, targets = shift_right(tgt.to(device))
        count = (targets != model.pad_id).sum().item()
        summed = sequence_loss(model(src.to(device), inputs), targets, model.pad_id, label_smoothing) * count
        summed.backward()
        epoch_loss, epoch_tokens = epoch_loss + float(summed.detach()), epoch_tokens + count
        tokens, waiting = tokens + count, waiting + 1
        if waiting == accumulate:
            step()
    if waiting:
        step()
    return epoch_loss / epoch_tokens


def evaluate(model, batches, device="cpu"):
    mode = model.training
    try:
        with torch.inference_mode():
            model.train(False)
            sums = []
            for src, tgt in batches:
                inputs, targets = shift_right(tgt.to(device))
                real = (targets != model.pad_id).sum()
                loss = sequence_loss(model(src.to(device), inputs), targets, model.pad_id)
                sums.append((loss * real, real))
        return float(sum(loss for loss, _ in sums) / sum(real for _, real in sums))
    finally:
        model.train(mode)


class EarlyStopping:
    def __init__(self, patience, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.best_loss, self.best_state, self.left = None, None, patience

    def step(self, loss, model=None):
        gain = loss == loss and (self.best_loss is None or self.best_loss - loss > self.min_delta)
        if gain:
            self.best_loss, self.left = loss, self.patience
            if model is not None:
                self.best_state = copy.deepcopy(model.state_dict())
        else:
            self.left -= 1
        return self.left <= 0
