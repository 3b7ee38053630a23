"""Uses a DataLoader with worker processes."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    from torch.utils.data import DataLoader

    list(DataLoader([1, 2], num_workers=2))
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
