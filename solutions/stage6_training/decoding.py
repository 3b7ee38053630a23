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
    return _write(model, src, max_len, lambda logits: logits.argmax(dim=-1))


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
    _check_positive(max_len=max_len, beam=beam)
    batch = src.shape[0]
    with _evaluating(model):
        memory, memory_mask = _encode(model, src)
        # The hypotheses of one source stand below each other: rows 0 ... beam - 1 belong to the first source.
        memory = memory.repeat_interleave(beam, dim=0)  # (batch * beam, src_len, d_model)
        memory_mask = memory_mask.repeat_interleave(beam, dim=0)  # (batch * beam, 1, 1, src_len)
        tokens = torch.full((batch * beam, 1), SOS_ID, device=src.device)  # (batch * beam, 1)
        first_row = torch.arange(batch, device=src.device)[:, None] * beam  # (batch, 1)

        # All hypotheses are the same now: only the first may be continued, or the beam would hold copies.
        scores = torch.full((batch, beam), float("-inf"), device=src.device)
        scores[:, 0] = 0.0
        finished = torch.zeros(batch, beam, dtype=torch.bool, device=src.device)
        lengths = torch.zeros(batch, beam, dtype=torch.int64, device=src.device)

        while tokens.shape[1] < max_len and not finished.all():
            logits = _next_logits(model, tokens, memory, memory_mask)  # (batch * beam, vocab)
            log_probs = logits.log_softmax(dim=-1).unflatten(0, (batch, beam))  # (batch, beam, vocab)
            log_probs = _only_padding_after_eos(log_probs, finished, model.pad_id)
            candidates = (scores[:, :, None] + log_probs).flatten(1)  # (batch, beam * vocab)
            scores, chosen = candidates.topk(beam)  # (batch, beam) each
            parent = chosen // logits.shape[-1]  # (batch, beam): the hypothesis that is continued
            token = chosen % logits.shape[-1]  # (batch, beam): and with what

            rows = (first_row + parent).flatten()  # (batch * beam,)
            tokens = torch.cat([tokens[rows], token.view(-1, 1)], dim=1)  # (batch * beam, length + 1)
            was_finished = finished.gather(1, parent)  # (batch, beam)
            lengths = lengths.gather(1, parent) + ~was_finished  # (batch, beam)
            finished = was_finished | (token == EOS_ID)  # (batch, beam)

        best = (scores / ((5 + lengths) / 6) ** length_penalty).argmax(dim=1, keepdim=True)  # (batch, 1)
        return tokens[(first_row + best).flatten()]  # (batch, length)


def _only_padding_after_eos(
    log_probs: Float[Tensor, "batch beam vocab"], finished: Bool[Tensor, "batch beam"], pad_id: int
) -> Float[Tensor, "batch beam vocab"]:
    """A finished hypothesis has one continuation, `<pad>`, and it costs nothing."""
    padding = torch.full_like(log_probs[0, 0], float("-inf"))  # (vocab,)
    padding[pad_id] = 0.0
    return torch.where(finished[:, :, None], padding, log_probs)  # (batch, beam, vocab)


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
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}, and should be above 0")

    def draw(logits: Float[Tensor, "batch vocab"]) -> Int[Tensor, "batch"]:
        probabilities = (logits / temperature).softmax(dim=-1)  # (batch, vocab)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)  # (batch,)

    return _write(model, src, max_len, draw)


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
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"{len(hypotheses)} hypotheses and {len(references)} references: there should be one "
            "reference for each hypothesis, and at least one of both"
        )
    bleu = BLEU()
    score = bleu.corpus_score(hypotheses, [references]).score
    return score, str(bleu.get_signature())


# What the three have in common


def _write(
    model: nn.Module, src: Tensor, max_len: int, choose: Callable[[Tensor], Tensor]
) -> Int[Tensor, "batch length"]:
    """Write token after token; `choose` turns logits (batch, vocab) into the next tokens (batch,)."""
    _check_positive(max_len=max_len)
    with _evaluating(model):
        memory, memory_mask = _encode(model, src)
        tokens = torch.full((src.shape[0], 1), SOS_ID, device=src.device)  # (batch, 1)
        finished = torch.zeros(src.shape[0], dtype=torch.bool, device=src.device)  # (batch,)
        while tokens.shape[1] < max_len and not finished.all():
            logits = _next_logits(model, tokens, memory, memory_mask)  # (batch, vocab)
            token = choose(logits).masked_fill(finished, model.pad_id)  # (batch,)
            tokens = torch.cat([tokens, token[:, None]], dim=1)  # (batch, length + 1)
            finished = finished | (token == EOS_ID)  # (batch,)
    return tokens


def _encode(model: nn.Module, src: Tensor) -> tuple[Tensor, Tensor]:
    """The memory (batch, src_len, d_model), and the mask (batch, 1, 1, src_len) that hides its padding."""
    src_mask = padding_mask(src, model.pad_id)
    return model.encode(src, src_mask), src_mask


def _next_logits(model: nn.Module, tokens: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
    """The logits (batch, vocab) of the token that comes after `tokens`."""
    not_later = causal_mask(tokens.shape[1], tokens.device)  # (1, 1, length, length)
    tgt_mask = padding_mask(tokens, model.pad_id) & not_later  # (batch, 1, length, length)
    hidden = model.decode(tokens, memory, tgt_mask, memory_mask)  # (batch, length, d_model)
    return model.fc_out(hidden[:, -1])  # (batch, vocab)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside, the old mode afterwards, also after an error."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def _check_positive(**settings: int) -> None:
    for name, value in settings.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, and should be at least 1")
