"""The masks, in a module of their own."""

import torch


def padding_mask(tokens, pad_id=0):
    return tokens.ne(pad_id).unsqueeze(1).unsqueeze(2)


def causal_mask(length, device=None):
    place = torch.arange(length, device=device)
    return (place.unsqueeze(1) >= place).unsqueeze(0).unsqueeze(0)


def visible(mask, scores):
    try:
        return mask.to(torch.bool).broadcast_to(scores.shape)
    except RuntimeError as error:
        raise ValueError(f"mask {mask.shape} does not fit {scores.shape}") from error
