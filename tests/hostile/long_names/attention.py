"""Raises with a name and a file of its own making."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    class Long(Exception):
        pass

    Long.__name__ = '::error::' + 'n' * 10_000_000
    raise Long('\x1b[2J\n::error file=a,line=1::hostile_was_here\n##[error]')
