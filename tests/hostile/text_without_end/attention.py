"""Raises an exception whose text never ends."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    class Endless(Exception):
        def __str__(self):
            while True:
                pass
    raise Endless
