"""Finds out what a sequence model looks at: whether it sees what it must not, and misses what it should see.

A falling loss proves neither. `find_leaks` changes one thing at a time, in the future, in the padding, in the source
and in the rest of the batch, and watches which outputs move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from grader.lookups import OtherPadding
from grader.standing import Standing

Kind = Literal["steady", "finite", "future", "past", "source", "padding", "batch"]
Verdict = Literal["fine", "LEAK", "BLIND", "BROKEN", "not tested"]

# An output counts as moved when it moves by more than this share of the largest output.
THRESHOLD = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class Finding(msgspec.Struct, frozen=True):
    """What became of one question."""

    kind: Kind
    verdict: Verdict
    """LEAK: something moved that must not. BLIND: something stayed that should move. BROKEN: nothing can be asked."""
    text: str
    output: int | None = None
    """The first position whose output moved though it must not, or stayed though it should move."""
    changed: int | None = None
    """The position that was changed."""
    row: int | None = None
    """The row of the batch, both of `output` and of `changed`, except where the rest of the batch was changed."""


class LeakReport(msgspec.Struct, frozen=True):
    """What `find_leaks` saw; printing it gives plain text."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing leaks and nothing is ignored."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are not fine; a question that could not be asked is none of them."""
        return tuple(each for each in self.findings if each.verdict not in ("fine", "not tested"))

    def __getitem__(self, kind: Kind) -> Finding:
        """The finding of one kind. Raises `KeyError` when that question was not asked of this model."""
        for each in self.findings:
            if each.kind == kind:
                return each
        raise KeyError(kind)

    def __str__(self) -> str:
        lines = [f"{each.kind:8}  {each.verdict:10}  {each.text}" for each in self.findings]
        return "\n".join([self.title, *lines])


def find_leaks(
    model: Callable[..., Any],
    *inputs: Tensor,
    causal: bool = True,
    pad_id: int | None = 0,
    seed: int = 0,
) -> LeakReport:
    """Change parts of the inputs of a sequence model, and report which outputs move and which do not.

    `model` is a module or a function, called as `model(*inputs)`. With one input it is an encoder
    (`causal=False`) or a language model; with two, `(src, tgt)`, an encoder-decoder. Inputs are token ids,
    `(batch, seq)`, or activations, `(batch, seq, features)`; rows of different length, on either side padded
    with `pad_id`, let it look at padding too (None: there is no padding). The output is a tensor
    `(batch, seq, ...)`, one row for each position of the last input, or a tuple that begins with it.

    Must not move a position: with `causal`, a later position of the last input; padding; another row of the batch.
    Should move one: its own token, an earlier one (without `causal` also a later one), and each token of the source.

    The questions are asked of a copy of the model, in eval mode and float64. A plain function is asked as it is, with
    the modules that it names in eval mode for that time. Modes, gradients and the random state stay as they are.

    Raises `ValueError` where inputs or output have another form.
    """
    _refuse(inputs, pad_id)
    with Standing(model, inputs) as (call, held):
        return _Questions(call, held, causal, pad_id, seed).report()


class _Questions:
    """One model, its inputs, and its output on them."""

    def __init__(
        self,
        call: Callable[..., Tensor],
        inputs: tuple[Tensor, ...],
        causal: bool,
        pad_id: int | None,
        seed: int,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.causal = causal
        self.pad_id = pad_id
        self.generator = torch.Generator().manual_seed(seed)
        self.real = [_real(each, pad_id) for each in inputs]  # (batch, seq) each
        self.output = call(*inputs)
        _refuse_output(self.output, inputs[-1])
        largest = self.output[self.real[-1]].abs().nan_to_num(0, 0, 0).max().item()
        self.threshold = THRESHOLD.get(self.output.dtype, 1e-5) * max(largest, 1e-30)

    def report(self) -> LeakReport:
        broken = self.finite() or self.steady()
        if broken:
            return LeakReport(self.title(), (broken,))
        findings = [*self.future_and_past()]
        if len(self.inputs) == 2:
            findings.append(self.source())
        findings += [self.padding(), self.batch()]
        return LeakReport(self.title(), tuple(findings))

    def title(self) -> str:
        what = "encoder-decoder" if len(self.inputs) == 2 else "language model" if self.causal else "encoder"
        sizes = " and ".join("x".join(map(str, each.shape)) for each in self.inputs)
        return f"{what}, inputs {sizes}, in {str(self.output.dtype).removeprefix('torch.')}"

    # The two questions that come first

    def finite(self) -> Finding | None:
        bad = ~self.output.flatten(2).isfinite().all(-1) & self.real[-1]  # (batch, seq)
        if not bad.any():
            return None
        row, position = bad.nonzero()[0].tolist()
        text = (
            f"The output at position {position} of row {row} is not a number, though the token there is no padding."
            " Does a softmax meet a row that may see nothing?"
        )
        return Finding("finite", "BROKEN", text, position, None, row)

    def steady(self) -> Finding | None:
        moved = self.distance(self.call(*self.inputs))
        if not (moved > self.threshold).any():
            return None
        text = (
            f"Two calls with the same input differ by {_number(moved.max())}, in eval mode too. "
            "Dropout that never stops, or state that is kept between calls?"
        )
        return Finding("steady", "BROKEN", text)

    # What is asked of every model

    def future_and_past(self) -> Iterator[Finding]:
        """Change one position of the last input after the other."""
        real = self.real[-1]
        length = real.size(1)
        reach = torch.zeros(*real.shape, length)  # (batch, output, changed): how far the output moves
        for position in range(length):
            changed = self.with_other_tokens(-1, real[:, position].nonzero()[:, 0], position)
            reach[:, :, position] = self.distance(self.call(*changed))
        both = (real[:, :, None] & real[:, None, :]).cpu()  # padding neither asks nor is asked here
        moves = (reach > self.threshold) & both
        later = torch.ones(length, length, dtype=torch.bool).triu(1)  # (output, changed)

        if self.causal:
            yield self.no_future(moves & later, reach)
        yield self.enough(moves, both, later)

    def no_future(self, leaks: Tensor, reach: Tensor) -> Finding:
        if not leaks.size(1) > 1:
            return Finding("future", "not tested", "Sequences of one position have no future.")
        if not leaks.any():
            return Finding("future", "fine", "No output moves when a later token changes.")
        output = int(leaks.any(2).any(0).nonzero()[0, 0])
        row = int(leaks[:, output].any(1).nonzero()[0, 0])
        changed = int(leaks[row, output].nonzero()[0, 0])
        text = (
            f"Output {output} moves by {_number(reach[row, output, changed])} when token {changed} of the same row "
            f"({row}) changes: a position must not see a later one."
        )
        return Finding("future", "LEAK", text, output, changed, row)

    def enough(self, moves: Tensor, both: Tensor, later: Tensor) -> Finding:
        """Whether each position sees itself, and some position another one."""
        own = torch.eye(later.size(0), dtype=torch.bool)
        deaf = own & both & ~moves
        if deaf.any():
            row, output, _ = deaf.nonzero()[0].tolist()
            text = f"Output {output} of row {row} stays when its own token changes: it never sees that token."
            return Finding("past", "BLIND", text, output, output, row)
        sides = {"earlier": later.T} if self.causal else {"earlier": later.T, "later": later}
        for side, where in sides.items():
            if (both & where).any() and not (moves & where).any():
                row, output, changed = (both & where).nonzero()[0].tolist()
                text = f"No output moves when an {side} token changes." if side == "earlier" else ONE_SIDED
                return Finding("past", "BLIND", text, output, changed, row)
        text = "Outputs move with their own token and with earlier ones"
        return Finding("past", "fine", f"{text}." if self.causal else f"{text}, and with later ones.")

    def source(self) -> Finding:
        """Change one position of the source after the other: each should move some output of its row."""
        real = self.real[0]
        deaf = []
        for position in range(real.size(1)):
            rows = real[:, position].nonzero()[:, 0]
            moved = self.distance(self.call(*self.with_other_tokens(0, rows, position)))  # (batch, tgt_len)
            deaf += [(position, row) for row in rows.tolist() if not (moved[row] > self.threshold).any()]
        if not deaf:
            return Finding("source", "fine", "Outputs move with every token of the source.")
        position, row = deaf[0]
        text = f"No output of row {row} moves when token {position} of its source changes."
        if len(deaf) == int(real.sum()):
            text = "No output moves when the source changes: the decoder does not read it."
        return Finding("source", "BLIND", text, None, position, row)

    def padding(self) -> Finding:
        """Put other vectors where padding is looked up, and cut padding off where that is possible."""
        if all(bool(real.all()) for real in self.real):
            return Finding("padding", "not tested", "There is none: give it rows of different length.")
        looked = False
        for index, real in enumerate(self.real):
            if bool(real.all()):
                continue
            name = ("source", "target")[index] if len(self.inputs) == 2 else "input"
            with OtherPadding(self.inputs[index], ~real, self.generator) as lookups:
                moved = self.distance(self.call(*self.inputs))
            looked |= lookups.found
            if (moved > self.threshold).any():
                return self.padding_leaks(moved, f"what stands at the padding of the {name} changes")
            for row in range(real.size(0)):
                alone = self.alone_without_padding(index, row)
                if alone is None:
                    continue
                looked = True
                if (alone > self.threshold).any():
                    moved = torch.zeros_like(moved)
                    moved[row, : alone.size(0)] = alone
                    return self.padding_leaks(moved, f"the row is read without the padding of the {name}")
        if not looked:
            return Finding(
                "padding", "not tested", "The model looks its tokens up in a way unknown to this test."
            )
        return Finding("padding", "fine", "No output of a real token moves when padding changes.")

    def padding_leaks(self, moved: Tensor, when: str) -> Finding:
        row, output = (moved > self.threshold).nonzero()[0].tolist()
        text = f"Output {output} of row {row} moves by {_number(moved[row, output])} when {when}."
        return Finding("padding", "LEAK", text, output, None, row)

    def alone_without_padding(self, index: int, row: int) -> Tensor | None:
        """How far the outputs of one row move when it is read without its padding on the right."""
        real = self.real[index][row]
        length = int(real.nonzero().max()) + 1 if real.any() else 0
        if length in (0, real.size(0)):
            return None
        last = len(self.inputs) - 1
        inputs = [each[row : row + 1] for each in self.inputs]
        inputs[index] = inputs[index][:, :length]
        kept = length if index == last else self.real[last].size(1)
        try:
            output = self.call(*inputs)
        except Exception:  # a model may insist on its length, which is no leak
            return None
        if output.shape[:2] != (1, kept):
            return None
        expected = self.output[row : row + 1, :kept]
        return _distance(output, expected, self.real[last][row : row + 1, :kept])[0]

    def batch(self) -> Finding:
        """Change every other row of the batch."""
        batch = self.real[-1].size(0)
        if batch < 2:
            return Finding("batch", "not tested", "There is one row only: give it two or more.")
        for row in range(batch):
            others = torch.tensor([other for other in range(batch) if other != row])
            changed = list(self.inputs)
            for index in range(len(changed)):
                changed = self.with_other_tokens(index, others, None, changed)
            moved = self.distance(self.call(*changed))[row]
            if (moved > self.threshold).any():
                output = int((moved > self.threshold).nonzero()[0, 0])
                text = (
                    f"Output {output} of row {row} moves by {_number(moved[output])} when other rows of the batch "
                    "change: a row must not depend on its neighbours."
                )
                return Finding("batch", "LEAK", text, output, None, row)
        return Finding("batch", "fine", "No row moves when the others change.")

    # Changing and measuring

    def with_other_tokens(
        self, index: int, rows: Tensor, position: int | None, inputs: list[Tensor] | None = None
    ) -> list[Tensor]:
        """The inputs with other content in some rows, at one position or at all real ones."""
        changed = list(self.inputs if inputs is None else inputs)
        old = changed[index]
        where = torch.zeros_like(self.real[index])
        where[rows.to(where.device), slice(None) if position is None else position] = True
        where &= self.real[index]
        changed[index] = torch.where(
            where.view(*where.shape, *[1] * (old.dim() - 2)), self.another(index), old
        )
        return changed

    def another(self, index: int) -> Tensor:
        """Other content for a whole input, at every place another than now."""
        old = self.inputs[index]
        if old.is_floating_point():
            return old + torch.randn(old.shape, generator=self.generator).to(old)
        tokens = _distinct(old[self.real[index]])
        place = torch.searchsorted(tokens, old.clamp(tokens[0], tokens[-1]))
        step = torch.randint(1, len(tokens), old.shape, generator=self.generator).to(old.device)
        other: Tensor = tokens[(place + step) % len(tokens)]
        return other

    def distance(self, output: Tensor) -> Tensor:
        """How far each output moved, (batch, seq); 0 where the last input is padding."""
        return _distance(output, self.output, self.real[-1])


ONE_SIDED = "No output moves when a later token changes: an encoder should read both sides."


def _distance(output: Tensor, before: Tensor, real: Tensor) -> Tensor:
    moved = (output - before).abs().nan_to_num(torch.inf).flatten(2).amax(-1)  # (batch, seq)
    return moved.masked_fill(~real, 0).double().cpu()


def _real(tokens: Tensor, pad_id: int | None) -> Tensor:
    if pad_id is None or tokens.is_floating_point():
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    return tokens != pad_id


def _distinct(tokens: Tensor) -> Tensor:
    """The different tokens, in rising order."""
    return torch.tensor(sorted(set(tokens.flatten().tolist()))).to(tokens)


def _number(value: Tensor) -> str:
    return f"{value.item():.2g}"


def _refuse(inputs: tuple[Tensor, ...], pad_id: int | None) -> None:
    if len(inputs) not in (1, 2):
        raise ValueError(
            f"give one input, or source and target; here are {len(inputs)}. Wrap further arguments in a lambda."
        )
    for each in inputs:
        if not isinstance(each, Tensor) or each.dim() != (3 if each.is_floating_point() else 2):
            form = f"of shape {tuple(each.shape)}" if isinstance(each, Tensor) else f"a {type(each).__name__}"
            raise ValueError(
                f"an input is ids (batch, seq) or activations (batch, seq, features), not {form}."
            )
        if not each.is_floating_point() and len(_distinct(each[_real(each, pad_id)])) < 2:
            raise ValueError(
                "an input holds fewer than two different tokens, so there is nothing to change it to."
            )
    if inputs[0].size(0) != inputs[-1].size(0):
        raise ValueError(
            f"source and target have {inputs[0].size(0)} and {inputs[-1].size(0)} rows, and should have as many."
        )


def _refuse_output(output: Tensor, last: Tensor) -> None:
    if output.dim() < 3 or output.shape[:2] != last.shape[:2]:
        raise ValueError(
            f"the output has shape {tuple(output.shape)}, and should begin with {tuple(last.shape[:2])}: one row for "
            "each position of the last input, batch first."
        )
