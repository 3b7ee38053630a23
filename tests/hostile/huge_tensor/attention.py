"""Asks for a tensor of a terabyte."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1 << 40, dtype=torch.bool)
