# The loss is gathered position by position from log-probabilities; all batches of a group go forward before one backward.

import math

import torch
from torch import nn

EOS = 2


def pad_batch(sequences, pad_id=0, max_len=None):
    cut = [cut_to(list(sequence), max_len) for sequence in sequences]
    width = max(len(row) for row in cut)
    return torch.tensor([row + [pad_id] * (width - len(row)) for row in cut])


def cut_to(row, max_len):
    if max_len is None or len(row) <= max_len:
        return row
    return row[: max_len - 1] + ([EOS] if row[-1] == EOS else row[max_len - 1 : max_len])


def shift_right(batch):
    inputs, _ = batch.split([batch.shape[1] - 1, 1], dim=1)
    _, targets = batch.split([1, batch.shape[1] - 1], dim=1)
    return inputs, targets


def sequence_loss(logits, targets, pad_id=0, label_smoothing=0.0):
    log_probs = logits - logits.logsumexp(dim=-1, keepdim=True)
    total, count = logits.new_zeros(()), 0
    for here, wanted in zip(log_probs.unbind(1), targets.unbind(1)):
        real = wanted != pad_id
        nll = -here[torch.arange(len(wanted)), wanted]
        total = total + ((1 - label_smoothing) * nll - label_smoothing * here.mean(-1)).masked_fill(~real, 0).sum()
        count += int(real.sum())
    # Keeps the graph where nothing was counted.
    return total / count if count else logits.flatten()[:0].sum()


def noam_lr(step, d_model, warmup):
    later = math.inf if step == 0 else 1 / math.sqrt(step)
    return min(later, step / math.sqrt(warmup) ** 3) / math.sqrt(d_model)


def losses(model, group, device, label_smoothing=0.0):
    summed, real = [], 0
    for src, tgt in group:
        inputs, targets = shift_right(tgt.to(device))
        count = int(targets.ne(model.pad_id).sum())
        summed.append(count * sequence_loss(model(src.to(device), inputs), targets, model.pad_id, label_smoothing))
        real += count
    return torch.stack(summed).sum(), real


def train_epoch(
    model, batches, optimizer, scheduler=None, clip=1.0, accumulate=1, device="cpu", label_smoothing=0.0
):
    total, tokens, group = 0.0, 0, []
    model.train()

    def finish():
        nonlocal total, tokens
        summed, real = losses(model, group, device, label_smoothing)
        optimizer.zero_grad(set_to_none=False)
        (summed / real).backward()
        if clip is not None:
            gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            norm = nn.utils.get_total_norm(gradients)
            nn.utils.clip_grads_with_norm_(model.parameters(), clip, norm)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        total, tokens = total + summed.item(), tokens + real
        group.clear()

    for batch in batches:
        group.append(batch)
        if len(group) == accumulate:
            finish()
    if group:
        finish()
    return total / tokens


def evaluate(model, batches, device="cpu"):
    was = model.training
    model.eval()
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    total, tokens = 0.0, 0
    for batch in batches:
        summed, real = losses(model, [batch], device)
        total, tokens = total + summed.item(), tokens + real
    torch.set_grad_enabled(previous)
    model.train(was)
    return total / tokens


class EarlyStopping(nn.Module):
    def __init__(self, patience, min_delta=0.0):
        super().__init__()
        self.patience, self.min_delta, self.waited = patience, min_delta, 0
        self.best_loss, self.best_state = math.inf, {}

    def step(self, loss, model=None):
        self.waited += 1
        if self.best_loss - loss > self.min_delta:
            self.waited = 0
            self.best_loss = loss
            if model is not None:
                self.best_state = {name: value.detach().cpu() + 0 for name, value in model.state_dict().items()}
        return self.waited >= self.patience
