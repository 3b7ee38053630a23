"""The report in a terminal reads like a careful answer, at every width, with and without colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from grader.report import terminal
from grader.report.page import Look, columns, look_of
from grader.report.story import WORDS
from grader.result import Diagnosis, Place, StageResult, Status

WIDTHS = [60, 80, 100, 120]
COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")

AS_A_LEARNER_READS_IT = """\
Stage 1: Attention                        5.5 of 11.5 points

  padding_mask                  [####]      2/2  done
  causal_mask                   [####]  1.5/1.5  done
  scaled_dot_product_attention  [#---]      2/6  not yet
  SingleHeadAttention           [----]      0/2  not started

scaled_dot_product_attention

  Your attention weights are exactly softmax(q kᵀ): the
  scores were not divided by sqrt(d_k) = 2.83.

  Why it matters: The dot product of two random vectors has
  variance d_k. Without the division the softmax saturates
  and its gradient vanishes.

  Look at attention.py:41, the line that computes the
  scores:

    41 | scores = query @ key.mT

  attention weights at batch 0, head 1, shape 2 x 3 x 5 x 7
  (batch, heads, query, key):

    expected  key 0  key 1  key 6
    query 0   0.103  0.412  0.485
    query 2   0.350  0.316  0.334
    query 4   0.091  0.120  0.789

    yours     key 0   key 1   key 6
    query 0  0.011*  0.405*  0.584*
    query 2  0.350   0.316   0.334
    query 4  0.002*  0.017*  0.981*

  The largest difference is 0.312. A star marks the values
  that differ.

  It printed:
    | scores torch.Size([2, 3, 5, 7])

  What must hold: Scores are divided by sqrt(d_k) before the
  softmax.
  Check stage1/scores_are_scaled, 0 of 2 points.

  1 further check shows the same:
    - Half precision works too.

  Also not yet:
  - The output is NaN on the rows whose mask is False
    everywhere; it must be finite.
    - A query that may see nothing gets a finite output.

Next: Divide the scores by the square root of the width of
  one key.
Grade again: nox -s stage1. Stuck? nox -s hint -- 1
Graded in 1.8 s on cpu, seed 42.
"""


def test_a_failure_at_sixty_columns_in_a_log(unscaled: StageResult) -> None:
    assert terminal.render(unscaled, Look(60)) == AS_A_LEARNER_READS_IT


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("name", ["unscaled", "every_status", "untouched", "complete"])
def test_every_line_fits_and_no_word_is_cut(
    name: str, width: int, colour: bool, shapes: bool, request: pytest.FixtureRequest
) -> None:
    result: StageResult = request.getfixturevalue(name)
    text = COLOUR_CODE.sub("", terminal.render(result, Look(width, colour, shapes)))
    assert max(columns(line) for line in text.split("\n")) <= width
    words = set(re.findall(r"\w+", text))
    for sentence in sentences(result):
        assert set(re.findall(r"\w+", sentence)) <= words
    if not shapes:
        assert not re.search("[━─✓✗·│┃]", text)


def sentences(result: StageResult) -> list[str]:
    told = [
        check.title for check in result.checks if check.status not in ("passed", "todo", "waiting", "missing")
    ]
    told += [finding for check in result.checks for finding in check.findings]
    told += [check.diagnosis.seen + check.diagnosis.why for check in result.checks if check.diagnosis]
    return told + [exercise.name for exercise in result.exercises]


def test_without_colour_there_is_no_control_code(unscaled: StageResult) -> None:
    assert "\x1b" not in terminal.render(unscaled, Look(80, colour=False, shapes=True))
    assert "\x1b" in terminal.render(unscaled, Look(80, colour=True, shapes=True))


def test_values_stand_side_by_side_where_they_fit(unscaled: StageResult) -> None:
    text = terminal.render(unscaled, Look(80))
    assert re.search(r"expected  key 0 .* yours     key 0", text)


def test_a_wide_excerpt_loses_columns_rather_than_breaking(unscaled: StageResult) -> None:
    detail = unscaled.checks[4].detail
    assert detail is not None
    detail.expected[:] = [["-1.03e-05"] * 5 + ["0.1234"]] * 3
    detail.actual[:] = [["-1.03e-05"] * 5 + ["0.9999"]] * 3
    detail.columns[:] = [2, 3, 4, 5, 6, 7]
    text = terminal.render(unscaled, Look(60))
    assert max(map(len, text.split("\n"))) <= 60
    assert "key 7" in text, "the column that differs stays"
    assert "key 2" not in text


def test_every_status_has_a_word_and_a_calm_one_has_no_section(every_status: StageResult) -> None:
    text = terminal.render(every_status, Look(80))
    for status in get_args(Status):
        assert re.search(rf"exercise_{status} .*{WORDS[status]}", text)
    headings = re.findall(r"^exercise_(\w+)$", text, re.MULTILINE)
    assert set(headings) == set(get_args(Status)) - {"passed", "todo", "waiting", "missing"}
    assert "exercise_waiting: Finish causal_mask (stage1) first" in text
    assert "This is our fault and costs you nothing." in text


def test_a_raised_error_shows_the_learners_own_lines(every_status: StageResult) -> None:
    text = terminal.render(every_status, Look(80))
    said = "exercise_error raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    assert text.index(said) < text.index("attention.py:71") < text.index("attention.py:75")
    assert "| scores = x @ self.w_q(x)" in text


def test_an_untouched_stage_is_calm(untouched: StageResult) -> None:
    text = terminal.render(untouched, Look(80, colour=True, shapes=True))
    assert "\x1b[31m" not in text
    assert "\x1b[1;31m" not in text
    assert "✗" not in text
    assert "Write padding_mask in attention.py:12." in text
    assert "The lesson: stages/stage1_attention/README.md" in text
    assert len(text.split("\n")) < 13


def test_a_complete_stage_says_what_comes_next(complete: StageResult) -> None:
    text = terminal.render(complete, Look(80), next_stage="stage2")
    assert "Complete. Next: nox -s demo1 shows your code at work, nox -s stage2 goes on." in text
    assert "goes on" not in terminal.render(complete, Look(80))


def test_only_the_first_problem_is_told_while_someone_works_on_it(every_status: StageResult) -> None:
    text = terminal.render(every_status, Look(80), details="first")
    assert re.findall(r"^exercise_(\w+)$", text, re.MULTILINE) == ["failed"]
    assert "After that: exercise_error, exercise_timeout" in text


def test_exercises_with_the_same_trouble_share_a_section(every_status: StageResult) -> None:
    trouble = "attention.py, line 12, is not Python yet: '(' was never closed."
    for check in every_status.checks:
        check.status, check.findings, check.error, check.traceback = "rejected", [trouble], "", []
    text = terminal.render(every_status, Look(80))
    assert text.count("was never closed") == 1
    assert "15 checks of 15 exercises cannot run before that." in text
    assert "What must hold" not in text


def test_a_general_mistake_is_told_by_the_finding_that_knows_the_values(
    make_result: Callable[..., StageResult],
) -> None:
    general = Diagnosis(
        "general/wrong-dtype", "n", "The mask has another dtype than expected.", "why", "the end"
    )
    result = make_result({"diagnosis": general, "findings": ["The mask has dtype float32, expected bool."]})
    text = terminal.render(result, Look(80))
    assert "  The mask has dtype float32, expected bool.\n\n  Why it matters: why" in text
    assert "another dtype" not in text
    error = make_result({"diagnosis": general, "findings": ["f() takes 1 argument."], "status": "error"})
    assert "  The mask has another dtype than expected.\n  f() takes 1 argument." in terminal.render(
        error, Look(80)
    )


def test_an_error_in_an_earlier_stage_names_its_folder(make_result: Callable[..., StageResult]) -> None:
    frames = [
        Place("stage2_multi_head/multi_head.py", 7, "attend(x)"),
        Place("stage1_attention/attention.py", 9, "x / 0"),
    ]
    text = terminal.render(
        make_result({"status": "error", "traceback": frames}, folder="stage2_multi_head"), Look(80)
    )
    assert "  multi_head.py:7\n" in text
    assert "  stage1_attention/attention.py:9\n" in text


def test_general_mistakes_of_different_values_are_told_apart(make_result: Callable[..., StageResult]) -> None:
    def wrong_shape(what: str) -> dict[str, Any]:
        return {
            "diagnosis": Diagnosis(
                "general/wrong-shape", "n", f"{what} has another shape.", "why", "the views"
            )
        }

    result = make_result(wrong_shape("The output"), wrong_shape("The output"), wrong_shape("The mask"))
    text = terminal.render(result, Look(80))
    assert "1 further check shows the same:" in text
    assert "Also not yet:\n  - The mask has another shape." in text


def test_code_and_commands_are_not_broken_over_lines(make_result: Callable[..., StageResult]) -> None:
    result = make_result(
        {"next_step": "Put the training code under `if __name__ == '__main__':` at the end."}
    )
    text = terminal.render(result, Look(48))
    assert "`if __name__ == '__main__':`" in text
    assert "nox -s hint -- 1" in text


def test_somebody_elses_submission_gets_no_commands_for_ones_own(unscaled: StageResult) -> None:
    assert "nox -s stage1" not in terminal.render(
        msgspec.structs.replace(unscaled, submission="class/ada"), Look(80)
    )


def test_a_selection_is_said_not_to_be_a_grade(make_result: Callable[..., StageResult]) -> None:
    text = terminal.render(make_result({}, status="passed", selection="mask"), Look(80))
    assert "Only the checks that match -k mask were run: the points are not a grade." in text


def test_a_table_of_names_in_a_finding_keeps_its_lines(make_result: Callable[..., StageResult]) -> None:
    finding = "The weights do not fit.\nexpected w_q.weight (8, 8): not there\nfound    q.weight (8, 8)"
    text = terminal.render(make_result({"findings": [finding]}), Look(80))
    assert (
        "  The weights do not fit.\n    | expected w_q.weight (8, 8): not there\n    | found    q.weight"
        in text
    )


def test_a_flood_of_lines_and_frames_is_cut_and_counted(make_result: Callable[..., StageResult]) -> None:
    check: dict[str, Any] = {
        "status": "error",
        "error": "RecursionError: maximum recursion depth exceeded",
        "traceback": [Place("attention.py", 7, "return again(x)")] * 900,
        "output": "line\n" * 500,
    }
    text = terminal.render(make_result(check), Look(80))
    assert "(895 earlier lines left out)" in text
    assert "(488 further lines not shown)" in text


def test_a_long_source_line_keeps_its_number_once(make_result: Callable[..., StageResult]) -> None:
    place = Place("attention.py", 106, "weights = softmax(scores) " * 4)
    text = terminal.render(make_result({"status": "error", "traceback": [place]}), Look(60))
    assert text.count("106 | ") == 1
    assert re.search(r"\n        \| \w", text)


def test_wide_characters_are_measured_as_two_columns(make_result: Callable[..., StageResult]) -> None:
    result = make_result(
        {"title": "注意力权重的每一行之和为一。" * 8, "output": "输出" * 80, "findings": ["张量" * 70]},
        title="注意力",
    )
    result.exercises[0].name = result.checks[0].exercise = "缩放点积注意力"
    for width in WIDTHS:
        text = terminal.render(result, Look(width, shapes=True))
        assert max(columns(line) for line in text.split("\n")) <= width
        assert "输出" * 80 in re.sub(r"[\s|]", "", text)


def test_an_encoding_without_the_signs_gets_words(unscaled: StageResult) -> None:
    text = terminal.render(unscaled, Look(80, encoding="ascii"))
    assert text.isascii()
    assert "softmax(q k^T)" in text


def test_a_diagnosis_without_a_line_still_says_where_to_look(make_result: Callable[..., StageResult]) -> None:
    diagnosis = Diagnosis(
        "c", "n", "All layers are one object.", "They share weights.", "how the layers are built"
    )
    text = terminal.render(make_result({"diagnosis": diagnosis}), Look(80))
    assert "Look at how the layers are built." in text


class Screen(io.StringIO):
    """A stream that says whether it is a terminal, and its encoding."""

    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environ", "colour", "shapes"),
    [
        (True, {}, True, True),
        (True, {"NO_COLOR": "1"}, False, True),
        (True, {"TERM": "dumb"}, False, False),
        (False, {}, False, False),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_the_look_suits_the_stream(
    terminal: bool, environ: dict[str, str], colour: bool, shapes: bool
) -> None:
    look = look_of(Screen(terminal), environ)
    assert (look.colour, look.shapes) == (colour, shapes)


def test_a_pipe_gets_the_report_without_control_codes(
    unscaled: StageResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    pipe = Screen(terminal=False)
    terminal.print_report(unscaled, pipe)
    assert "\x1b" not in pipe.getvalue()
    assert pipe.getvalue().startswith("Stage 1: Attention")
