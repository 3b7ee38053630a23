"""Decoding: a trained model writes, greedily, by beam search or by sampling; BLEU says how well."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from sacrebleu.metrics import BLEU
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask, padding_mask

SOS_ID, EOS_ID = 1, 2  # `<sos>` and `<eos>` in every vocabulary of this course


def greedy_decode(
    model: nn.Module, src: Int[Tensor, "batch src_len"], max_len: int
) -> Int[Tensor, "batch length"]:
    """Write a translation of each source, always taking the token with the largest logit.

    `model` is a `Transformer` of stage 5, or has its `encode`, `decode`, `fc_out` and `pad_id`. The result
    is int64 ids, one row for each source. A row begins with `<sos>` (id 1) and grows by one token at a time,
    until it has written `<eos>` (id 2) or is `max_len` ids long, `<sos>` included. A row that has finished
    waits for the others: `<pad>` follows its `<eos>`, nothing else. It is over when all rows have finished.

    - **The encoder runs once.** Only the decoder has new tokens to read at each step.
    - **The same masks as in training**: no padding of the source, no later position and no padding of the
      target may be attended. `decode` hides nothing by itself.
    - **Any token may be chosen**, `<unk>` and `<pad>` too. Only `<eos>` finishes a row.
    - **Eval mode**, and no graph for gradients. Afterwards the model is in the mode, training or eval, that
      it was in before.

    Raises `ValueError` where `max_len` is below 1.
    """
    raise NotImplementedError


def beam_search(
    model: nn.Module,
    src: Int[Tensor, "batch src_len"],
    max_len: int,
    beam: int = 4,
    length_penalty: float = 0.6,
) -> Int[Tensor, "batch length"]:
    """Write a translation of each source, keeping the `beam` best beginnings instead of one.

    All that `greedy_decode` says holds here too; with `beam=1` the result is the same.

    - **A step.** Every hypothesis that has not finished is continued with every token of the vocabulary.
      A finished one stays as it is, with `<pad>` after its `<eos>` and an unchanged sum. Of all these, for
      each source by itself, the `beam` with the largest sum of log-probabilities stay, and the sums are
      not divided by anything yet. In the beginning there is one hypothesis, `<sos>`, not `beam` equal ones.
    - **The end.** The search ends when all hypotheses have finished, or at `max_len`. Then the best score
      wins: the sum of the log-probabilities divided by `((5 + n) / 6) ** length_penalty`. `n` counts the
      tokens written, `<eos>` included, `<sos>` and what follows `<eos>` not. Without this division short
      translations win too often: every further token makes the sum smaller.

    The beam may be wider than the vocabulary. Raises `ValueError` where `max_len` or `beam` is below 1.

    Source: "Google's Neural Machine Translation System" (Wu et al., 2016), section 7, equation 14;
    "Attention Is All You Need", section 6.1, for `beam=4` and the 0.6.
    """
    raise NotImplementedError


def sample(
    model: nn.Module,
    src: Int[Tensor, "batch src_len"],
    max_len: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch length"]:
    """Write a translation of each source, drawing every token from the model's distribution.

    All that `greedy_decode` says holds here too, but for the choice: the next token is drawn at random, with
    the probabilities softmax(logits / temperature). A temperature below 1 makes the likely tokens still
    likelier; above 1 the choice is freer.

    All random numbers come from `generator`, so that two generators with the same seed give the same result;
    None means PyTorch's own. `torch.multinomial` draws.

    Raises `ValueError` where `max_len` is below 1 or `temperature` not above 0.
    """
    raise NotImplementedError


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Compare translations with one reference each: `(score, signature)`.

    The strings are sentences as people write them, without special tokens; hypothesis i belongs to
    reference i. The score, from 0 to 100, is that of the whole corpus, not the mean over sentences. The
    signature is the text that sacrebleu's `get_signature()` turns into: it says how the score was made, and
    belongs beside every BLEU score, since scores with different signatures cannot be compared.

    Use `sacrebleu.metrics.BLEU` as it is, with all its defaults. Its `corpus_score` takes a list of lists of
    references: one inner list for each *set* of references, as long as the corpus.

    Raises `ValueError`, naming both numbers, where there are not as many references as hypotheses (sacrebleu
    would leave out the rest), and where there are none at all.

    Source: "BLEU: a Method for Automatic Evaluation of Machine Translation" (Papineni et al., 2002); "A Call
    for Clarity in Reporting BLEU Scores" (Post, 2018).
    """
    raise NotImplementedError
