"""Raises an exception with a message of 50 MB."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    raise ValueError('z' * 50_000_000)
