"""The eight cases: what happened, what it might be, what it is, and how to tell."""

from collections.abc import Callable
from dataclasses import dataclass

from . import runs


@dataclass(frozen=True)
class Case:
    """One broken run, and the question about it."""

    title: str
    story: str
    run: Callable[[bool], runs.Run]  # run(True) is the broken one
    answers: tuple[str, ...]
    right: int  # counted from 1, as it is asked
    words: tuple[str, ...]  # an answer in words is right when one of these is in it
    how_to_tell: str
    mend: str


CASES = (
    Case(
        title="It learns a little, then no more",
        story="A colleague wanted it to go faster and changed one number. Data, model and seed are the same.",
        run=runs.case1,
        answers=(
            "The loss counts padding.",
            "The learning rate is ten times too high.",
            "The gradient is clipped to a norm far too small.",
            "The decoder sees the answer.",
            "Warm-up takes too many steps.",
        ),
        right=2,
        words=("learning rate", "lr", "step size", "too large a step", "steps are too large"),
        how_to_tell=(
            "The loss falls for some dozen steps, and then jumps about and hardly falls. It does not stand still: "
            "each step goes too far and lands on the other side. It gets better late, when the schedule has brought "
            "the rate down: that is the best sign of all. A rate too low, or a gradient clipped too short, would give "
            "a smooth curve that falls slowly. (And Adam divides the gradient by its own size, so clipping every "
            "gradient to a smaller norm changes little.) Padding in the loss or a decoder that sees the answer would "
            "make the loss low, not high."
        ),
        mend="peak = 0.1    →    peak = 0.01.   First thing to try with any bad curve: a tenth of the rate.",
    ),
    Case(
        title="The same model as in the paper",
        story="Both models have the norm after the sum, as in the paper of 2017, and three layers. One line of the "
        "training loop is missing in one of them.",
        run=runs.case2,
        answers=(
            "`zero_grad` is missing.",
            "There is no warm-up.",
            "The gradient is not clipped.",
            "The positions are missing.",
        ),
        right=2,
        words=("warm",),
        how_to_tell=(
            "Look at the first fifty steps. The broken run rushes ahead for a few of them, down to about 2.4: "
            "little better than knowing that there are ten letters, which is log 10 = 2.3. There the curve bends, "
            "and creeps from then on; the healthy one comes later and passes it. With post-norm the gradients of "
            "the last layers are large at the start, and Adam's averages hold almost nothing yet, so the first "
            "steps are large and blind, and what they break takes long to mend. Rising slowly to the peak avoids "
            "it; so does pre-norm, in which the stream passes the norms by. If gradients were not clipped, or "
            "added up for want of `zero_grad`, their norm would show peaks or grow, and it does neither. Without "
            "positions the order of the letters could not be known, and the curve would not creep but stop."
        ),
        mend="lr = peak    →    lr = peak * min(1, (step + 1) / warmup),   or norm_first=True.",
    ),
    Case(
        title="Good in the lab, bad in the field",
        story="The very same weights. In the test each word was written by itself; now many are written at once, and "
        "the shorter ones go wrong.",
        run=runs.case3,
        answers=(
            "The position table was not saved.",
            "`eval()` was forgotten.",
            "The decoder sees the answer.",
            "The mask of the padding is lost when the model writes.",
            "The model has learned its training words by heart.",
        ),
        right=4,
        words=("mask", "pad"),
        how_to_tell=(
            "The loss curves are one and the same, so training is not to blame. Words of one length at a time come "
            "out right, and mixed ones do not: what differs is padding. The samples say it too, the longest word is "
            "right. And the map shows it: in the healthy model the columns of <pad> are empty, in the broken one they "
            "take weight. Dropout would spoil words of every length, and differently each time."
        ),
        mend="model.encode(src)    →    model.encode(src, padding_mask(src)),   and decode with it as memory_mask.",
    ),
    Case(
        title="It changes its mind",
        story="The training was fine. But whoever asks the model twice may get two answers, although it always takes "
        "the likeliest letter.",
        run=runs.case4,
        answers=(
            "`eval()` was forgotten.",
            "`torch.no_grad()` was forgotten.",
            "The seed is not set.",
            "The learning rate is too high.",
        ),
        right=1,
        words=("eval", "dropout"),
        how_to_tell=(
            "Taking the likeliest letter leaves nothing to chance. If the same input still gives different outputs, "
            "there is something random inside the model, and that is dropout, which `train()` switches on and "
            "`eval()` off. Without `no_grad` the answers would be the same, only slower and with more memory. A seed "
            "would hide the symptom: always the same answer, and still one that dropout has spoiled."
        ),
        mend="model.eval() before writing and before measuring, and model.train() again before the next epoch.",
    ),
    Case(
        title="Less than half the loss, and nobody is better off",
        story="Words are padded to 14 letters here. After 100 steps the broken run reports a far lower loss.",
        run=runs.case5,
        answers=(
            "The decoder sees the answer.",
            "The learning rate is too high.",
            "Label smoothing is too strong.",
            "The words are too short to learn from.",
            "The loss counts padding.",
        ),
        right=5,
        words=("pad",),
        how_to_tell=(
            "The loss drops steeply at once, long before a single word is right, and yet the letters get no better "
            "chances than in the healthy run. So the mean is over something that is easier than letters. The last "
            "number says what: the model is sure that after <eos> comes <pad>. Nobody should have asked it. Here the "
            "model still learns, a little worse: padding takes most of the gradient. The number is what suffers most, "
            "for it now depends on how a batch was padded. A decoder that sees the answer would give the letters high "
            "chances."
        ),
        mend="F.cross_entropy(logits, targets)    →    F.cross_entropy(logits, targets, ignore_index=pad_id)",
    ),
    Case(
        title="The day after",
        story="Training stopped at the dashed line, the weights were saved, loaded into a new model, and training went "
        "on. `load_state_dict` had nothing to complain about.",
        run=runs.case6,
        answers=(
            "`eval()` was forgotten after loading.",
            "The table of positions is not among what was saved.",
            "The state of the optimiser was not saved.",
            "The vocabulary has another order.",
        ),
        right=2,
        words=("position", "buffer", "table"),
        how_to_tell=(
            "The healthy run lost its optimiser's state too, and hardly shows it: a bump, and no word lost, for "
            "writing needs no optimiser. Here every word is lost by loading alone. There is no dropout in this model. "
            "The map tells the rest: the healthy one goes from the end of the source to its beginning, the broken one "
            "looks anywhere. It no longer knows what stands where. Letters are still letters, as the samples show, so "
            "the vocabulary is fine. The table was a plain tensor attribute, unknown to the state dict, and the new "
            "model drew another one. (Sines can be computed again. Random and learned tables cannot.)"
        ),
        mend='self.pe = table    →    self.register_buffer("pe", table),   or nn.Parameter when it is trained.',
    ),
    Case(
        title="Two outliers",
        story="At the dashed lines the loss of one batch was summed instead of averaged, in both runs: large "
        "training runs meet such outliers now and then. One shrugs them off. In the other two settings of the "
        "optimiser are wrong.",
        run=runs.case7,
        answers=(
            "The loss counts padding, and the rate is too low.",
            "beta1 is 0, and there is no schedule.",
            "The gradient is clipped after the step, and beta2 is too near to 1.",
            "Weight decay is too strong, and warm-up too short.",
        ),
        right=3,
        words=("clip", "beta2", "beta 2", "beta_2"),
        how_to_tell=(
            "The gradients peak in both runs, more than a hundred times as long as usual. What counts is the loss "
            "after it: in the healthy run the next batch is as good as the one before, in the broken one it takes "
            "dozens of steps to come back. So in one of them the peak has reached the weights. Clipping must "
            "stand between `backward` and `step`; after the step it shortens a gradient that nobody uses any "
            "more. That fault does the damage here: with clipping in its place the run is healthy. The second "
            "fault shows only without the first line of defence: Adam divides by a running root mean square, and "
            "with beta2 = 0.9999 an outlier stays in that mean for ten thousand steps, which all become too "
            "small."
        ),
        mend="backward, clip, step, in this order; betas=(0.9, 0.98), as in the paper.",
    ),
    Case(
        title="Too good to be true",
        story="A loss of zero, and every next letter is guessed. Then it was asked to write.",
        run=runs.case8,
        answers=(
            "The model has learned its training words by heart.",
            "The decoder sees the answer.",
            "The decoder never reads its source.",
            "`<eos>` is missing in the data.",
            "The mask of the padding is lost when the model writes.",
        ),
        right=2,
        words=("leak", "causal", "future", "sees the answer", "see the answer", "look ahead", "peek"),
        how_to_tell=(
            "In training the decoder is handed the answer, shifted by one place, and only the causal mask keeps it "
            "from reading the next letter off its input. The map shows it reading there: weight right of the "
            "diagonal, where the healthy one has none. When it writes by itself there is nothing to read, and nothing "
            "was learned. By heart it could not be: the words are fresh in every batch, and those guessed right were "
            "never seen before. `find_leaks(model, src, tgt)` of docs/leaks.md finds this before any training."
        ),
        mend="tgt_mask = padding_mask(tgt)    →    tgt_mask = padding_mask(tgt) & causal_mask(tgt.size(1))",
    ),
)


def is_right(case: Case, answer: str) -> bool:
    """Whether an answer, a number or words, is the right one.

    Raises `ValueError` for a number that is not among the answers, and for words that say nothing.
    """
    answer = answer.strip().lower()
    if answer.isdigit():
        if not 1 <= int(answer) <= len(case.answers):
            raise ValueError(f"answers go from 1 to {len(case.answers)}, and this is {answer}")
        return int(answer) == case.right
    if not any(letter.isalpha() for letter in answer):
        raise ValueError("give the number of an answer, or say it in words")
    return any(word in answer for word in case.words)
