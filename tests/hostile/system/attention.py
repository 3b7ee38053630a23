"""Runs a shell with os.system and reads its result."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    if os.system('true') != 0:
        raise PermissionError('os.system: Operation not permitted')
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
