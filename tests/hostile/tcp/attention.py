"""Connects to the network."""

import socket

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    socket.create_connection(('127.0.0.1', 9), 1)
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()
