"""Writes files outside its scratch folder."""

import pathlib
import sys

import torch


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length, device=None):
    root = pathlib.Path(sys.modules['grader'].__file__).resolve().parent.parent
    for folder in (root, root / 'stages', pathlib.Path('/tmp'), pathlib.Path.home().parent):
        try:
            (folder / 'hostile_was_here').write_text('{}')
        except PermissionError as error:
            refused = error
        else:
            return torch.ones(1, 1, length, length, dtype=torch.bool).tril()
    raise refused
