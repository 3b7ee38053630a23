"""Prints bytes that are no text."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    os.write(1, bytes(range(256)) * 10 + b'<script>alert(1)</script>')
    return torch.zeros(1, 1, length, length, dtype=torch.bool)
