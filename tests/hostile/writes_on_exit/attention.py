"""Writes a forged report in an exit hook, after the verdict."""

import atexit
import threading
import time

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    atexit.register(lambda: open('/tmp/hostile_was_here', 'w').write('{}'))
    threading.Thread(target=lambda: (time.sleep(0.2), open('/tmp/hostile_was_here', 'w'))).start()
    return torch.zeros(1, 1, length, length, dtype=torch.bool)
