"""Sends a packet."""

import socket

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
