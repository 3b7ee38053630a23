"""Prints a forged stack with an endless line number while it loops."""

import sys
import time

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    while True:
        sys.stderr.write('File "stage1_attention/attention.py", line ' + '9' * 5000 + ' in x\n')
        time.sleep(0.01)
