"""Writes 100 MB to standard error below Python's own streams."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    for _ in range(1000):
        os.write(2, b'y' * 100_000)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
