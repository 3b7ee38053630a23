"""Hides code from a reader with marks that change the direction of the text."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    # ‮ } ⁦if True:⁩ ⁦ right
    return torch.zeros(1, 1, length, length, dtype=torch.bool)
