"""Reads the home folder of its user."""

import os
import pwd

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    os.listdir(pwd.getpwuid(os.getuid()).pw_dir)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
