"""Names another function with a letter that looks like the expected one."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.zeros(1, 1, length, length, dtype=torch.bool)


def cаusal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
