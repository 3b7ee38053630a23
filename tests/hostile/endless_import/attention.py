"""Loops without end while it is imported."""

import torch

while True:
    pass


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
