"""Mixes tabs and spaces."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    if length:
    	return 1
            return 2
