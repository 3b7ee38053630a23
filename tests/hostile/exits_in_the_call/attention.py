"""Ends the process with sys.exit(0) in the middle of an answer."""

import sys

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    sys.exit(0)
