"""Asks the kernel about the network."""

import socket

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
