"""Sleeps while it is imported, in every check anew."""

import time

import torch

time.sleep(1000)


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
