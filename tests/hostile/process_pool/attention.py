"""Starts a pool of processes."""

import multiprocessing

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    with multiprocessing.get_context('fork').Pool(2) as pool:
        pool.map(abs, [1])
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
