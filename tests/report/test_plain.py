"""`--plain`: one fact a line, in words."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from grader.report import plain
from grader.result import Place, StageResult

AS_IT_IS_READ_ALOUD = """\
Stage 1: Attention. 5.5 of 11.5 points.
Exercise padding_mask: done, 2 of 2 points.
Exercise causal_mask: done, 1.5 of 1.5 points.
Exercise scaled_dot_product_attention: not yet, 2 of 6 points.
Exercise SingleHeadAttention: not started, 0 of 2 points.
To mend: scaled_dot_product_attention.
Seen: Your attention weights are exactly softmax(q k transposed): \
the scores were not divided by sqrt(d_k) = 2.83.
Why it matters: The dot product of two random vectors has variance d_k. Without the division the softmax \
saturates and its gradient vanishes.
Where to look: the line that computes the scores
Line to look at: attention.py line 41: scores = query @ key.mT
Values: attention weights at batch 0, head 1, shape 2 x 3 x 5 x 7 (batch, heads, query, key).
Largest difference: 0.312.
Value: query 0, key 0: expected 0.103, yours 0.011.
Value: query 0, key 1: expected 0.412, yours 0.405.
Value: query 0, key 6: expected 0.485, yours 0.584.
Value: query 4, key 0: expected 0.091, yours 0.002.
Printed: scores torch.Size([2, 3, 5, 7])
What must hold: Scores are divided by sqrt(d_k) before the softmax.
Check stage1/scores_are_scaled: 0 of 2 points.
The same shows in: Half precision works too.
Also not yet: The output is NaN on the rows whose mask is False everywhere; it must be finite.
What must hold there: A query that may see nothing gets a finite output.
Next: Divide the scores by the square root of the width of one key.
To grade again: nox -s stage1
For a hint: nox -s hint -- 1
Graded in 1.8 seconds on cpu with seed 42.
"""


def test_a_failure_read_aloud(unscaled: StageResult) -> None:
    assert plain.render(unscaled) == AS_IT_IS_READ_ALOUD


def test_the_reports_own_words_need_no_signs(every_status: StageResult, untouched: StageResult) -> None:
    for result in (every_status, untouched):
        text = plain.render(result)
        assert text.isascii()
        assert not re.search(r"[|#*\[\]<>]|--(?! \d)", text)
        assert all(line.strip() for line in text.rstrip("\n").split("\n")), "no empty lines"


def test_every_status_is_told(every_status: StageResult) -> None:
    text = plain.render(every_status)
    assert "Exercise exercise_timeout: too slow, 0 of 1 points." in text
    assert "exercise_waiting: Finish causal_mask (stage1) first: this exercise uses it." in text
    assert "Our fault: exercise_grader_error." in text
    assert "Line to look at: attention.py line 75: scores = x @ self.w_q(x)" in text
    assert "Called from: attention.py line 71: return self.attend(x)" in text


def test_many_printed_lines_and_frames_are_cut(make_result: Callable[..., StageResult]) -> None:
    frames = [Place("attention.py", line, f"call({line})") for line in range(1, 900)]
    text = plain.render(make_result({"status": "error", "traceback": frames, "output": "x\n" * 500}))
    assert len(text.split("\n")) < 40
    assert "Not shown: 488 further printed lines." in text
    assert "Not shown: 894 earlier lines." in text


def test_a_complete_stage_says_what_comes_next(complete: StageResult) -> None:
    text = plain.render(complete, next_stage="stage2")
    assert "Complete. To see your code at work: nox -s demo1. Then go on with nox -s stage2." in text


def test_it_is_written_in_the_encoding_of_the_stream(unscaled: StageResult) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    unscaled.checks[4].output = "注意力"
    plain.print_report(unscaled, stream)
    assert "Printed: \\u6ce8\\u610f\\u529b" in stream.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
