"""The whole model, made of PyTorch's own encoder and decoder: right, or with one known flaw around them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .oracles import (
    Shapes,
    TorchDecoder,
    TorchEncoder,
    Weights,
    linear_shapes,
    part,
    sinusoidal_table,
    stack_shapes,
    under,
)
from .wrong_layers import Answer, nearest


class Sizes(NamedTuple):
    """What a Transformer is made with; all different, so that no axis can pass for another."""

    src_vocab: int = 17
    tgt_vocab: int = 13
    d_model: int = 12
    num_heads: int = 3
    num_layers: int = 2
    d_ff: int = 20
    max_len: int = 11
    norm_first: bool = True
    pad_id: int = 0

    def shapes(self) -> Shapes:
        """The parameters of the contract."""
        layers = (self.num_layers, self.d_model, self.d_ff, self.norm_first)
        return (
            {
                "src_embed.weight": (self.src_vocab, self.d_model),
                "tgt_embed.weight": (self.tgt_vocab, self.d_model),
            }
            | under("encoder", stack_shapes(*layers, cross=False))
            | under("decoder", stack_shapes(*layers, cross=True))
            | under("fc_out", linear_shapes(self.tgt_vocab, self.d_model))
        )

    def weights(self, draw: Any) -> Weights:
        """A random state dict; the positions are the table of stage 3."""
        weights: Weights = draw.weights(self.shapes(), dtype=draw.exact)
        return weights | {"positions.pe": sinusoidal_table(self.max_len, self.d_model).to(draw.exact)}


class Wiring(NamedTuple):
    """How a Transformer is put together; the defaults are right."""

    scale: tuple[str, str] = ("root", "root")  # source, target: or "none", "d_model", "divided", "after"
    positions: tuple[bool, bool] = (True, True)
    tables: tuple[str, str] = ("src", "tgt")
    encoder_mask: str = "src"  # or "none", "tgt", "causal"
    tgt_mask: str = "and"  # or "padding", "causal", "none", "or", "upper", "strictly upper", "src padding"
    memory_mask: str = "src"  # or "none", "tgt", "target mask"
    pad_ids: tuple[int | None, int | None] = (None, None)  # in place of the model's own
    memory: str = "encoder"  # or the embedded "source" or "target"
    output: str = "logits"  # or "probabilities", "hidden"


SOUND = Wiring()

WIRING_FLAWS: dict[str, list[Wiring]] = {
    "embedding-unscaled": [
        Wiring(scale=("none", "none")),
        Wiring(scale=("none", "root")),
        Wiring(scale=("root", "none")),
    ],
    "embedding-scaled-wrongly": [Wiring(scale=("d_model", "d_model")), Wiring(scale=("divided", "divided"))],
    "positions-scaled": [Wiring(scale=("after", "after"))],
    "positions-not-used": [
        Wiring(positions=(False, False)),
        Wiring(positions=(False, True)),
        Wiring(positions=(True, False)),
    ],
    "one-embedding-for-both": [Wiring(tables=("src", "src")), Wiring(tables=("tgt", "tgt"))],
    "encoder-bypassed": [
        Wiring(memory="source"),
        Wiring(memory="target", memory_mask="none"),
        Wiring(memory="target", memory_mask="tgt"),
    ],
    "source-padding-in-encoder": [Wiring(encoder_mask="none")],
    "causal-mask-in-encoder": [Wiring(encoder_mask="causal")],
    "source-padding-in-cross-attention": [Wiring(memory_mask="none")],
    "causal-mask-missing": [Wiring(tgt_mask="padding"), Wiring(tgt_mask="none")],
    "causal-mask-upper": [Wiring(tgt_mask="upper"), Wiring(tgt_mask="strictly upper")],
    "masks-or-ed": [Wiring(tgt_mask="or")],
    "target-padding-not-combined": [Wiring(tgt_mask="causal")],
    "padding-of-the-wrong-side": [
        Wiring(encoder_mask="tgt"),
        Wiring(memory_mask="tgt"),
        Wiring(tgt_mask="src padding"),
    ],
    "target-mask-for-the-memory": [Wiring(memory_mask="target mask")],
    "pad-id-ignored": [Wiring(pad_ids=(0, 0)), Wiring(pad_ids=(None, 0)), Wiring(pad_ids=(0, None))],
    "probabilities-returned": [Wiring(output="probabilities")],
}


class TorchTransformer:
    """What `nn.Transformer` with embeddings and an output layer gives; `wiring` says with which flaw."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        self.weights = weights
        self.sizes = sizes
        self.encoder = TorchEncoder(part(weights, "encoder"), sizes.num_heads, sizes.norm_first)
        self.decoder = TorchDecoder(part(weights, "decoder"), sizes.num_heads, sizes.norm_first)

    def embed(self, tokens: Tensor, side: int, wiring: Wiring = SOUND) -> Tensor:
        """Ids to vectors; `side` is 0 for the source, 1 for the target."""
        d_model = self.sizes.d_model
        vectors = F.embedding(tokens, self.weights[f"{wiring.tables[side]}_embed.weight"])
        table = self.weights["positions.pe"][:, : tokens.shape[1]] if wiring.positions[side] else 0.0
        if wiring.scale[side] == "after":
            return (vectors + table) * math.sqrt(d_model)
        factor = {
            "root": math.sqrt(d_model),
            "none": 1,
            "d_model": d_model,
            "divided": 1 / math.sqrt(d_model),
        }
        return vectors * factor[wiring.scale[side]] + table

    def encode(self, src: Tensor, src_mask: Tensor | None = None, wiring: Wiring = SOUND) -> Tensor:
        return self.encoder(self.embed(src, 0, wiring), src_mask)

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        wiring: Wiring = SOUND,
    ) -> Tensor:
        hidden = self.decoder(self.embed(tgt, 1, wiring), memory, tgt_mask, memory_mask)
        return self.logits(hidden) if wiring.output == "hidden" else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weights["fc_out.weight"], self.weights["fc_out.bias"])

    def masks(self, src: Tensor, tgt: Tensor, wiring: Wiring = SOUND) -> tuple[Tensor | None, ...]:
        """The masks of the encoder, of the decoder's self-attention and of its cross-attention."""
        src_pad, tgt_pad = (self.sizes.pad_id if other is None else other for other in wiring.pad_ids)
        src_real, tgt_real = (src != src_pad)[:, None, None], (tgt != tgt_pad)[:, None, None]
        square = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool)
        in_source = torch.ones(src.shape[1], src.shape[1], dtype=torch.bool).tril()
        of_encoder = {"src": src_real, "none": None, "tgt": tgt_real, "causal": src_real & in_source}
        of_target = {
            "and": tgt_real & square.tril(),
            "padding": tgt_real,
            "causal": square.tril()[None, None],
            "none": None,
            "or": tgt_real | square.tril(),
            "upper": tgt_real & square.triu(),
            "strictly upper": tgt_real & square.triu(1),
        }
        if wiring.tgt_mask == "src padding":  # fits only where both sides have one length
            of_target["src padding"] = src_real & square.tril()
        of_memory = {"src": src_real, "none": None, "tgt": tgt_real, "target mask": of_target["and"]}
        return of_encoder[wiring.encoder_mask], of_target[wiring.tgt_mask], of_memory[wiring.memory_mask]

    def __call__(self, src: Tensor, tgt: Tensor, wiring: Wiring = SOUND) -> Tensor:
        src_mask, tgt_mask, memory_mask = self.masks(src, tgt, wiring)
        if wiring.memory == "encoder":
            memory = self.encode(src, src_mask, wiring)
        elif wiring.memory == "source":
            memory = self.embed(src, 0, wiring)
        else:
            memory = self.embed(tgt, 1, wiring)
        logits = self.logits(self.decode(tgt, memory, tgt_mask, memory_mask, wiring))
        return logits.softmax(-1) if wiring.output == "probabilities" else logits

    def mistakes(
        self, returned: Any, run: Callable[[Wiring], Tensor], only: Tensor | None = None
    ) -> dict[str, Answer]:
        """What `run` gives under each known mistake."""
        return {
            code: partial(nearest, returned, lambda _, wiring: run(wiring), None, flaws, only)
            for code, flaws in WIRING_FLAWS.items()
        }
