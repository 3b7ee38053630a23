"""Raises an exception whose text raises another."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    class Odd(Exception):
        def __str__(self):
            raise SystemExit
    raise Odd
