"""Ends the process while it is imported."""

import sys

import torch

sys.exit(0)


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
