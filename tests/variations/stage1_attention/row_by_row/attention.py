# Unusual but right: a loop over the queries, one row of scores at a time.

import torch
from torch import nn


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()


def fitting(mask, scores):
    shape = tuple(scores.shape)
    try:
        fits = torch.broadcast_shapes(mask.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"mask {tuple(mask.shape)} does not fit scores {shape}")
    return mask != 0


def scaled_dot_product_attention(query, key, value, mask=None):
    shape = torch.Size((*query.shape[:-1], key.shape[-2]))
    if mask is not None:
        mask = fitting(mask, torch.empty(shape)).expand(shape)
    outputs, rows = [], []
    for i in range(query.shape[-2]):
        row = (key * query[..., i : i + 1, :]).sum(dim=-1) * query.shape[-1] ** -0.5
        if mask is not None:
            row = row.masked_fill(~mask[..., i, :], torch.finfo(row.dtype).min)
        weights = torch.softmax(row, dim=-1)
        rows.append(weights)
        outputs.append((weights[..., None] * value).sum(dim=-2))
    return torch.stack(outputs, dim=-2), torch.stack(rows, dim=-2)


class SingleHeadAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k)
        self.w_k = nn.Linear(d_model, d_k)
        self.w_v = nn.Linear(d_model, d_k)

    def forward(self, x, mask=None):
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)
