"""A real Transformer, asked token by token: what a decoder should write with it, and what without its masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.checks import expect

from .searching import Rows, greedy, telling
from .tables import PAD, SOS, VOCAB, Prefix

Logits = Callable[[Tensor], Any]


def translator(submission: Any, draw: Any) -> Any:
    """A random Transformer that listens to its source and to what it wrote, and never writes <pad>."""
    model = submission.probes.transformer(VOCAB, d_model=16, num_layers=2)
    model.to(draw.exact)
    weights = model.state_dict()
    for name, value in weights.items():
        if name == "positions.pe":
            continue
        scale = 0.5 if "embed" in name else 0.25 if value.dim() > 1 else 0.1
        norm = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        weights[name] = draw.normal(*value.shape, dtype=draw.exact, scale=scale, shift=norm)
        if name == "fc_out.weight" or (name.startswith("decoder") and name.endswith("attn.w_o.weight")):
            weights[name] *= 4
    weights["fc_out.bias"][PAD] = -100.0
    model.load_state_dict(weights)
    model.eval()
    return model


def sources(draw: Any, side: str) -> Tensor:
    """Three sources of different length, padded on one side."""
    return draw.tokens([5, 2, 4], vocab=VOCAB, side=side)


class Asked:
    """The logits after each beginning, from the model itself with the masks that its forward makes."""

    def __init__(self, model: Any, row: Tensor) -> None:
        self.model, self.row = model, row[None]
        self.known: dict[Prefix, list[float]] = {}

    def logits(self, prefix: Prefix) -> Sequence[float]:
        """The logits after `prefix`."""
        if prefix not in self.known:
            logits = self.ask(torch.tensor([[SOS, *prefix]]))
            shape = (1, len(prefix) + 1, VOCAB)
            self.known[prefix] = expect(logits, "the model's logits").tensor(shape=shape)[0, -1].tolist()
        return self.known[prefix]

    def ask(self, tgt: Tensor) -> Any:
        """The logits of all positions."""
        return self.model(self.row, tgt)


class AskedWithoutMasks(Asked):
    """The logits that come when some masks are forgotten."""

    def __init__(self, model: Any, row: Tensor, encoder: bool, memory: bool, target: bool) -> None:
        super().__init__(model, row)
        real = (self.row != PAD)[:, None, None, :]
        self.memory_mask = real if memory else None
        self.target = target
        self.memory = expect(model.encode(self.row, real if encoder else None), "the memory").tensor()

    def ask(self, tgt: Tensor) -> Any:
        """The logits of all positions."""
        length = tgt.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None] if self.target else None
        hidden = self.model.decode(tgt, self.memory, mask, self.memory_mask)
        return self.model.fc_out(expect(hidden, "the hidden states").tensor())


FORGOTTEN = {
    "decode-source-mask-forgotten": [(False, False, True), (True, False, True), (False, True, True)],
    "decode-causal-mask-forgotten": [(True, True, False), (False, False, False)],
}
"""By code of the mistake: whether encoder, cross-attention and self-attention of the target have their masks."""


def greedy_task(submission: Any, draw: Any, side: str, max_len: int) -> tuple[Any, Tensor, Rows]:
    """A model and padded sources with which a forgotten mask shows, and what greedy decoding writes."""
    while True:
        model, src = translator(submission, draw), sources(draw, side)
        right = greedy(asked(model, src), max_len)
        wrong = {
            code: [greedy([AskedWithoutMasks(model, row, *ways[0]) for row in src], max_len)]
            for code, ways in FORGOTTEN.items()
        }
        if len(telling(right, wrong)) == len(FORGOTTEN):
            return model, src, right


def asked(model: Any, src: Tensor) -> list[Asked]:
    """The model, asked about each source."""
    return [Asked(model, row) for row in src]


def forgetting(model: Any, src: Tensor) -> dict[str, list[list[Asked]]]:
    """By code of the mistake, the model asked without some masks."""
    return {
        code: [[AskedWithoutMasks(model, row, *masks) for row in src] for masks in several]
        for code, several in FORGOTTEN.items()
    }
