"""Looks for expected values in memory and on the stack."""

import gc
import sys

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    for item in gc.get_objects():
        if type(item).__name__ in ('CheckFailed', 'Expectation', 'Job', 'Draw', 'Declared', 'Handle'):
            raise RuntimeError('hostile_found a ' + type(item).__name__)
    frame = sys._getframe()
    while frame is not None:
        if 'expected' in frame.f_locals or '/checks/' in frame.f_code.co_filename:
            raise RuntimeError('hostile_found ' + frame.f_code.co_filename)
        frame = frame.f_back
    return torch.zeros(1, 1, length, length, dtype=torch.bool)
