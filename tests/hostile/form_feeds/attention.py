"""Holds form feeds and other separators that are no line ends to Python."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    x = '      '
    raise RuntimeError('on line 14')
