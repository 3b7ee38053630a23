"""The table over all stages, and the next step in one sentence."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import msgspec
import pytest

from grader.report import course
from grader.report.course import Entry, Ungraded
from grader.report.page import Look, columns
from grader.result import StageResult

TITLE = "The Transformer by hand"

AS_A_LEARNER_READS_IT = """\
The Transformer by hand                   9.5 of 39.5 points

  1  Attention                         4/4  complete
  2  Multi-head attention         5.5/11.5  2 of 4 done
  3  Positional encoding              0/16  not graded
  5  Decoder and the whole model       0/8  not started

  stage3 was not graded: stages/stage3_positional_encoding
    is not there. Put the folder back.

Next: mend scaled_dot_product_attention in
  stages/stage2_multi_head/attention.py:30, then run
  nox -s stage2.
"""


@pytest.fixture
def entries(complete: StageResult, unscaled: StageResult, untouched: StageResult) -> list[Entry]:
    change = msgspec.structs.replace
    return [
        complete,
        change(unscaled, stage="stage2", title="Multi-head attention", folder="stage2_multi_head"),
        Ungraded(
            "stage3",
            "Positional encoding",
            "stages/stage3_positional_encoding is not there. Put the folder back.",
            16,
        ),
        change(untouched, stage="stage5", title="Decoder and the whole model", folder="stage5_decoder"),
    ]


def test_the_table_at_sixty_columns_in_a_log(entries: list[Entry]) -> None:
    assert course.render(TITLE, entries, Look(60)) == AS_A_LEARNER_READS_IT


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("colour", [False, True])
def test_every_line_fits(entries: list[Entry], width: int, colour: bool) -> None:
    text = course.render("手写 Transformer", entries, Look(width, colour, shapes=True))
    assert ("\x1b" in text) == colour
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(columns(line) for line in plain.split("\n")) <= width
    assert "Decoder and the whole model" in plain
    assert "nox -s stage2" in plain


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (
            1,
            (
                "mend scaled_dot_product_attention in stages/stage2_multi_head/attention.py:30, "
                "then run nox -s stage2."
            ),
        ),
        (2, "stages/stage3_positional_encoding is not there. Put the folder back. Then run nox -s stage3."),
        (
            3,
            (
                "read stages/stage5_decoder/README.md, "
                "write padding_mask in stages/stage5_decoder/attention.py:12, then run nox -s stage5."
            ),
        ),
    ],
)
def test_the_next_step_is_one_sentence(entries: list[Entry], first: int, sentence: str) -> None:
    assert course.next_sentence(entries[first:]) == sentence


def test_the_next_exercise_of_a_stage_that_is_begun(untouched: StageResult) -> None:
    untouched.exercises[0].status = "passed"
    assert course.next_sentence([untouched]) == (
        "write causal_mask in stages/stage1_attention/attention.py:12, then run nox -s stage1."
    )


def test_a_fault_of_the_grader_is_not_work_for_the_learner(complete: StageResult) -> None:
    complete.exercises[1].status = "grader_error"
    assert (
        course.next_sentence([complete]) == "run nox -s stage1 again, because the grader itself failed there."
    )


def test_a_finished_course(complete: StageResult) -> None:
    done: Sequence[Entry] = [complete]
    assert "Complete. Every stage is done" in course.render(TITLE, done, Look(80))
    assert "Next" not in course.render(TITLE, done, Look(80))


def test_one_fact_a_line(entries: list[Entry]) -> None:
    out = io.StringIO()
    course.print_course(TITLE, entries, out, plain=True)
    assert out.getvalue() == (
        "The Transformer by hand. 9.5 of 39.5 points.\n"
        "Stage 1: Attention. 4 of 4 points, complete.\n"
        "Stage 2: Multi-head attention. 5.5 of 11.5 points, 2 of 4 done.\n"
        "Stage 3: Positional encoding. Not graded. stages/stage3_positional_encoding is not there. "
        "Put the folder back.\n"
        "Stage 5: Decoder and the whole model. 0 of 8 points, not started.\n"
        "Next: mend scaled_dot_product_attention in stages/stage2_multi_head/attention.py:30, "
        "then run nox -s stage2.\n"
    )


def test_the_table_goes_to_a_stream_in_its_look(entries: list[Entry]) -> None:
    out = io.StringIO()
    course.print_course(TITLE, entries, out)
    assert out.getvalue().startswith(TITLE)
    assert "\x1b" not in out.getvalue()
