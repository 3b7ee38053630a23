"""Stops itself with SIGSTOP, so that no signal but SIGKILL ends it."""

import os
import signal

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    os.kill(os.getpid(), signal.SIGSTOP)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
