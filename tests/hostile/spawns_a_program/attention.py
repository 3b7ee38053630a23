"""Runs a program with posix_spawn."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    os.posix_spawn('/bin/true', ['true'], {})
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
