"""Sends one byte of an answer and goes to sleep."""

import os
import time

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    for fd in range(3, 9):
        try:
            os.write(fd, b'\0')
        except OSError:
            pass
    time.sleep(1000)
