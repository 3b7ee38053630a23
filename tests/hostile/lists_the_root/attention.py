"""Lists the root folder."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    os.listdir('/')
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
