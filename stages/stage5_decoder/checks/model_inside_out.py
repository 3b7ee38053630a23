"""Holds the whole model against PyTorch, and when it is wrong, its parts first, from the inside out."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.checks import expect, fail, mistake
from grader.submission import Raising

from .inside_out import BATCH, SAME_LEN, SRC_LEN, TGT_LEN, loaded, same, stack_is_right
from .oracles import TorchEncoder, Weights, part
from .whole_model import Sizes, TorchTransformer
from .wrong_layers import Answer

LOGITS, HIDDEN = "batch target vocab", "batch position feature"


class Model(NamedTuple):
    """A Transformer of the submission, the weights it was given, and PyTorch's answer to them."""

    submission: Any
    draw: Any
    sizes: Sizes
    handle: Any
    weights: Weights
    oracle: TorchTransformer

    def parts_are_right(self) -> None:
        """A lone decoder, then the encoder inside the model (whose own checks are those of stage 4)."""
        stack_is_right(self.submission, self.draw, self.sizes.norm_first)
        x = self.draw.normal(BATCH, SRC_LEN, self.sizes.d_model, dtype=self.draw.exact)
        mask = self.draw.mask(BATCH, 1, 1, SRC_LEN)
        oracle = TorchEncoder(part(self.weights, "encoder"), self.sizes.num_heads, self.sizes.norm_first)
        found = expect(self.handle.encoder(x, mask), "the encoder inside the model").tensor(tuple(x.shape))
        if not same(found, oracle(x, mask)):
            fail(
                "The encoder inside the model differs from nn.TransformerEncoder with the same weights.",
                next_step="Run the checks of stage 4, then compare the settings that you hand to Encoder.",
            )

    def embeds_right(self) -> None:
        """Without masks, encode and decode give what the embeddings and PyTorch's layers give."""
        oracle = self.oracle
        low = min(self.sizes.src_vocab, self.sizes.tgt_vocab)  # ids that both vocabularies have
        src, tgt = (self.draw.tokens([length] * BATCH, low) for length in (SRC_LEN, SAME_LEN))
        memory = oracle.encode(src)
        found = self.handle.encode(src)
        mistakes = oracle.mistakes(found, lambda wiring: oracle.encode(src, wiring=wiring))
        self.equals(found, "the memory", memory, mistakes)
        found = self.handle.decode(tgt, memory)
        mistakes = oracle.mistakes(found, lambda wiring: oracle.decode(tgt, memory, wiring=wiring))
        self.equals(found, "the hidden states", oracle.decode(tgt, memory), mistakes)

    def reads_the_source(self) -> None:
        """Other source tokens, and other weights in the encoder, give other logits."""
        src, tgt = self.batch()
        other = src.clone()
        other[:, 0] = another(src[:, 0], self.sizes.src_vocab)
        before, moved = self.logits(src, tgt), self.logits(other, tgt)
        others = self.sizes.weights(self.draw)
        encoder = {name: value for name, value in others.items() if name.startswith("encoder.")}
        self.handle.load_state_dict(self.weights | encoder)
        relearned = self.logits(src, tgt)
        self.handle.load_state_dict(self.weights)
        if same(before, moved) or same(before, relearned):
            stack_is_right(self.submission, self.draw, self.sizes.norm_first)
            mistake("encoder-bypassed")

    def batch(self) -> tuple[Tensor, Tensor]:
        """Source and target ids; one target ends in padding, the other begins with it.

        Were both alike, masks joined by OR would look like no causal mask, or like no mask at all.
        """
        sizes = self.sizes
        src = self.draw.tokens([SRC_LEN, SRC_LEN - 2], sizes.src_vocab, sizes.pad_id)
        tgt = self.draw.tokens([TGT_LEN - 1, TGT_LEN], sizes.tgt_vocab, sizes.pad_id)
        tgt[1, 0] = sizes.pad_id
        return src, tgt

    def padded_on_the_left(self) -> tuple[Tensor, Tensor]:
        """Source and target ids of one length; other rows are padded on one side than on the other."""
        src, tgt = (
            self.draw.tokens(lengths, vocab, self.sizes.pad_id, side="left")
            for lengths, vocab in (
                ([SAME_LEN - 3, SAME_LEN], self.sizes.src_vocab),
                ([SAME_LEN, SAME_LEN - 2], self.sizes.tgt_vocab),
            )
        )
        return src, tgt

    def logits(self, src: Tensor, tgt: Tensor) -> Tensor:
        """What the model gives: a checked tensor."""
        shape = (*tgt.shape, self.sizes.tgt_vocab)
        return expect(self.run(src, tgt), "the logits", dims=LOGITS).tensor(shape)

    def run(self, src: Tensor, tgt: Tensor) -> Any:
        """What the model returns. A mask of the wrong side raises, but not where both sides have one length: there
        its values tell which it is."""
        try:
            return self.handle(src, tgt)
        except Raising:
            if src.shape[1] != tgt.shape[1]:
                self._run_with_one_length()
            raise

    def _run_with_one_length(self) -> None:
        src, tgt = self.padded_on_the_left()
        try:
            returned = self.handle(src, tgt)
        except Raising:
            return
        self.logits_equal(returned, src, tgt)

    def equals(
        self,
        returned: Any,
        what: str,
        expected: Tensor,
        mistakes: dict[str, Answer],
        only: Tensor | None = None,
    ) -> None:
        """The value is as expected; when it is not, the parts are looked at before the mistakes are tried."""
        look = expect(returned, what, dims=LOGITS if only is not None else HIDDEN)
        value = look.value()
        counts = torch.ones(expected.shape, dtype=torch.bool) if only is None else only.expand(expected.shape)
        if not isinstance(value, Tensor) or value.shape != expected.shape:
            self.parts_are_right()
        elif not same(value[counts], expected[counts]):
            self.parts_are_right()
        look.equals(expected, mistakes=mistakes, facts={"pad_id": self.sizes.pad_id}, only=only)

    def logits_equal(self, returned: Any, src: Tensor, tgt: Tensor) -> None:
        """The logits at real target tokens are right. So are log-probabilities: the loss is the same."""
        oracle, expected = self.oracle, self.oracle(src, tgt)
        real = (tgt != self.sizes.pad_id)[..., None]
        mistakes = oracle.mistakes(returned, lambda wiring: oracle(src, tgt, wiring), real)
        value = expect(returned, "the logits").value()
        if isinstance(value, Tensor) and value.shape == expected.shape:
            if bool(value.logsumexp(-1).abs().lt(1e-5).all()):
                expected, mistakes = expected.log_softmax(-1), {}
        self.equals(returned, "the logits", expected, mistakes, real)


def make_model(submission: Any, draw: Any, sizes: Sizes, dropout: float = 0.0) -> Model:
    """A Transformer with random weights, in eval mode."""
    options = sizes._asdict() | {"dropout": dropout}
    handle = submission.Transformer(options.pop("src_vocab"), options.pop("tgt_vocab"), **options)
    shapes = handle.shapes()
    for side in ("encoder", "decoder"):
        if (f"{side}.norm.weight" in shapes) != sizes.norm_first:
            stack_is_right(submission, draw, sizes.norm_first)
            mistake("norm-first-not-handed-on", side=side, norm_first=sizes.norm_first)
    weights = sizes.weights(draw)
    loaded(handle, weights, draw.exact)
    return Model(submission, draw, sizes, handle, weights, TorchTransformer(weights, sizes))


def another(tokens: Tensor, vocab: int) -> Tensor:
    """Other ordinary tokens, none as before."""
    return 4 + (tokens - 3) % (vocab - 4)
