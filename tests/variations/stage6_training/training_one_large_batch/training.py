# The batches of a group are merged into one large batch, padded anew; the mask multiplies; the mode is set by a context.

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def pad_batch(sequences, pad_id=0, max_len=None):
    rows = [torch.tensor(sequence) for sequence in sequences]
    if max_len is not None:
        rows = [
            torch.cat([row[: max_len - 1], row[-1:] if row[-1] == 2 else row[max_len - 1 : max_len]])
            if len(row) > max_len
            else row
            for row in rows
        ]
    width = max(map(len, rows))
    return torch.stack([F.pad(row, (0, width - len(row)), value=pad_id) for row in rows])


def shift_right(batch):
    return batch[..., : batch.shape[-1] - 1].contiguous(), batch[..., 1:].contiguous()


def sequence_loss(logits, targets, pad_id=0, label_smoothing=0.0):
    mask = (targets != pad_id).to(logits.dtype)
    wanted = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    wanted = wanted * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    losses = -torch.einsum("bsv,bsv->bs", wanted, F.log_softmax(logits, -1))
    return (losses * mask).sum() / mask.sum().clamp(min=1)


def noam_lr(step, d_model, warmup):
    return float(torch.tensor([max(1, step) ** -0.5, step * warmup**-1.5], dtype=torch.float64).min()) * d_model**-0.5


@contextmanager
def mode_of(model, training):
    before = model.training
    model.train(training)
    yield
    model.train(before)


def merged(batches, pad_id, device):
    for side in range(2):
        width = max(batch[side].shape[1] for batch in batches)
        yield torch.cat([F.pad(b[side], (0, width - b[side].shape[1]), value=pad_id) for b in batches]).to(device)


def loss_of(model, batches, device, label_smoothing=0.0):
    src, tgt = merged(batches, model.pad_id, device)
    inputs, targets = shift_right(tgt)
    loss = sequence_loss(model(src, inputs), targets, model.pad_id, label_smoothing)
    return loss, (targets != model.pad_id).sum().item()


def train_epoch(
    model, batches, optimizer, scheduler=None, clip=1.0, accumulate=1, device="cpu", label_smoothing=0.0
):
    seen, group = [], []
    with mode_of(model, True):
        for batch in [*batches, None]:
            if batch is not None:
                group.append(batch)
            if group and (batch is None or len(group) == accumulate):
                loss, tokens = loss_of(model, group, device, label_smoothing)
                optimizer.zero_grad()
                loss.backward()
                if clip is not None:
                    clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                if scheduler is not None:
                    scheduler.step()
                seen.append((loss.item() * tokens, tokens))
                group = []
    return sum(loss for loss, _ in seen) / sum(tokens for _, tokens in seen)


@torch.inference_mode()
def evaluate(model, batches, device="cpu"):
    with mode_of(model, False):
        return loss_of(model, list(batches), device)[0].item()


class EarlyStopping:
    best_loss, best_state, bad = float("inf"), None, 0

    def __init__(self, patience, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta

    def step(self, loss, model=None):
        if loss + self.min_delta < self.best_loss:
            self.best_loss, self.bad = loss, -1
            if model is not None:
                self.best_state = {key: value.detach().clone() for key, value in model.state_dict().items()}
        self.bad += 1
        return self.bad >= self.patience
