"""Reads the address 0."""

import ctypes

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    ctypes.string_at(0)
