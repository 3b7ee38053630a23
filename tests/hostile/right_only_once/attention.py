"""Is right only the first time that it is called, if anything is carried from check to check."""

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    causal_mask.calls = getattr(causal_mask, 'calls', 0) + 1
    torch.hostile = getattr(torch, 'hostile', 0) + 1
    if torch.hostile > 2:
        return torch.zeros(1)
    if device == 'nowhere':
        raise ValueError(device)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
