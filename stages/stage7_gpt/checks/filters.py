"""What filter_logits should keep, what it keeps under each known mistake, and how a result is compared with both."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.checks import expect, fail


class Filter(NamedTuple):
    """The settings of a filter, and how it goes wrong; it is right without a flaw."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    flaw: str = ""

    def options(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options().items() if value is not None)


FLAWS = {
    "filter-temperature-multiplied": ["temperature multiplied"],
    "filter-order": ["temperature last", "top_p first", "top_p of everything"],
    "top-k-off-by-one": ["one more", "one less"],
    "top-k-drops-ties": ["exactly k"],
    "top-p-drops-the-crossing-token": ["below p"],
    "top-p-not-unsorted": ["not unsorted"],
    "filter-removes-with-zero": ["zero"],
}


def keep(logits: Tensor, case: Filter) -> Tensor:
    """The filtered logits (batch, vocab)."""
    flaw = case.flaw
    hidden = 0.0 if flaw == "zero" else -torch.inf
    whole = logits / case.temperature
    if flaw == "temperature multiplied":
        logits = logits * case.temperature
    elif flaw != "temperature last":
        logits = whole

    def by_k(logits: Tensor) -> Tensor:
        if case.top_k is None:
            return logits
        k = case.top_k + {"one more": 1, "one less": -1}.get(flaw, 0)
        k = max(1, min(k, logits.shape[-1]))
        values, order = logits.topk(k, -1)
        kept = logits >= values[:, -1:]
        if flaw == "exactly k":
            kept = torch.zeros_like(kept).scatter(-1, order, True)
        return logits.where(kept, hidden)

    def by_p(logits: Tensor) -> Tensor:
        if case.top_p is None:
            return logits
        falling, order = logits.sort(dim=-1, descending=True, stable=True)
        chances = falling.softmax(-1)
        if flaw == "top_p of everything":
            chances = whole.softmax(-1).gather(-1, order)
        before = chances.cumsum(-1) - chances
        kept = before < case.top_p
        if flaw == "below p":
            kept = before + chances <= case.top_p
        if flaw != "below p":
            kept[:, 0] = True
        if flaw != "not unsorted":
            kept = torch.zeros_like(kept).scatter(-1, order, kept)
        return logits.where(kept, hidden)

    logits = by_k(by_p(logits)) if flaw == "top_p first" else by_p(by_k(logits))
    return logits / case.temperature if flaw == "temperature last" else logits


def expect_filtered(submission: Any, logits: Tensor, case: Filter) -> Tensor:
    """The filter keeps what it should; its softmax is the distribution to draw from."""
    returned = submission.filter_logits(logits, **case.options())
    found = expect(returned, "the filtered logits", dims="batch vocab").tensor(
        tuple(logits.shape), dtype=logits.dtype, finite=False
    )
    facts = {"case": str(case)}
    expected = keep(logits, case)
    expect(found.softmax(-1), "the softmax of the filtered logits", dims="batch vocab").equals(
        expected.softmax(-1),
        mistakes={
            code: [lambda flaw=flaw: keep(logits, case._replace(flaw=flaw)).softmax(-1) for flaw in flaws]
            for code, flaws in FLAWS.items()
        },
        facts=facts,
    )
    if not bool((found.isneginf() == expected.isneginf()).all()):
        finite = found[expected.isneginf() & ~found.isneginf()]
        if len(finite):
            fail(
                f"What filter_logits leaves out has the logit {float(finite[0]):.3g}, expected minus infinity "
                f"({case}).",
                "Fill with -torch.inf.",
            )
        fail(f"filter_logits leaves out tokens that should stay ({case}).")
    return found


def spread_logits(draw: Any, batch: int = 3, vocab: int = 11, case: Filter | None = None) -> Tensor:
    """Random logits, all of them different, in which no sum of probabilities comes close to top_p."""
    while True:
        logits = draw.normal(batch, vocab, scale=2.0, shift=-1.0)
        gaps = logits.sort(-1).values.diff(dim=-1)
        if float(gaps.min()) < 1e-3:
            continue
        if case is None or case.top_p is None:
            return logits
        kept = keep(logits, case._replace(top_p=None)).sort(-1, descending=True).values
        if float((kept.softmax(-1).cumsum(-1) - case.top_p).abs().min()) > 1e-3:
            return logits


def expect_inputs_kept(submission: Any, logits: Tensor, case: Filter) -> None:
    """The logits are not modified by a filter that does what it should."""
    _, (after,) = submission.inputs_after(submission.filter_logits, logits, **case.options())
    if not torch.equal(expect(after, "the logits after the call").tensor(finite=False), logits):
        fail(
            f"The logits are other ones after filter_logits ({case}) than before.",
            "Assign to new tensors: no /=, no logits[...] = ..., no method that ends in an underscore.",
        )
    expect_filtered(submission, logits, case)
