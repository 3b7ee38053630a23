"""Raises the limit of recursion and calls itself without end."""

import sys

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    sys.setrecursionlimit(10**9)
    return causal_mask(length, device)
