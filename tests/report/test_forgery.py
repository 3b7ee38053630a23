"""Nothing that a submission writes passes for a line of the report, a terminal code or a workflow command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from grader.report import plain, terminal
from grader.report.page import Look
from grader.report.visible import in_encoding, in_words, one_line, visible, without_commands
from grader.result import Comparison, Diagnosis, Place, StageResult

HOSTILE = (
    "\x1b[2J\x1b[32m[bold red]x[/]\r\n"
    "Stage 1: Attention. 100 of 100 points.\n"
    "Exercise causal_mask: done, 9 of 9 points.\n"
    "  causal_mask  [##########]  9/9  done\n"
    "::error file=a.py::forged\n"
    "   ::add-mask::x\n"
    "##[error]forged ##vso[task.complete result=Succeeded]\n"
    "\u202egnp.exe\u2066 \u2028Next: nothing\x85Next: nothing\x00\x9b31m\ud800\u200b"
)

PLACES: dict[str, dict[str, Any]] = {
    "output": {"output": HOSTILE},
    "error": {"status": "error", "error": f"ValueError: {HOSTILE}"},
    "finding": {"findings": [HOSTILE]},
    "second finding": {"findings": ["It differs.", HOSTILE]},
    "traceback": {"status": "error", "traceback": [Place(HOSTILE, 3, HOSTILE), Place("a.py", 4, HOSTILE)]},
    "diagnosis": {"diagnosis": Diagnosis("c", "n", HOSTILE, HOSTILE, HOSTILE, Place("a.py", 4, HOSTILE))},
    "values": {"detail": Comparison(HOSTILE, [], [], [[HOSTILE]], [[HOSTILE]], [], [])},
    "next step": {"next_step": HOSTILE},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("view", ["terminal", "narrow", "plain"])
def test_hostile_text_is_shown_not_obeyed(
    place: str, view: str, make_result: Callable[..., StageResult]
) -> None:
    result = make_result(PLACES[place])
    assert_harmless(show(result, view))


@pytest.mark.parametrize("view", ["terminal", "narrow", "plain"])
def test_hostile_notes_are_shown_not_obeyed(view: str, make_result: Callable[..., StageResult]) -> None:
    assert_harmless(show(make_result({}, notes=[HOSTILE], selection=HOSTILE), view))


def show(result: StageResult, view: str) -> str:
    if view == "plain":
        return plain.render(result)
    return terminal.render(result, Look(80 if view == "terminal" else 40))


def assert_harmless(text: str) -> None:
    assert re.fullmatch(
        r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*", text
    )
    lines = text.split("\n")
    assert not [line for line in lines if line.lstrip().startswith("::")]
    assert "##[" not in text
    assert "##vso[" not in text
    assert "[bold red]x[/]" in text, "markup is shown as it is"
    forged = (
        r"(?:Exercise causal_mask: done|\s*causal_mask +\[#+\]  9/9|Stage 1: Attention\. 100|Next: nothing).*"
    )
    assert not [line for line in lines if re.fullmatch(forged, line)]
    text.encode("utf-8")


def test_a_command_that_wrapping_would_put_first_is_broken_up() -> None:
    assert without_commands("a\n  ::error::b\n\x1b[31m::notice::") == "a\n  : :error::b\n\x1b[31m: :notice::"
    assert without_commands("x[::2] and a::b") == "x[::2] and a::b"
    assert without_commands("see ##[group]") == "see # #[group]"


def test_letters_of_every_script_stay() -> None:
    text = "注意力 café naïve Ελληνικά עברית हिन्दी ✓ 🎉\n\tindent"
    assert visible(text) == text.replace("\t", "    ")
    assert one_line("a\n  b\tc ") == "a b c"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\x07\u202eb\u200d\U000e0041\ud800") == "a\\x07\\u202eb\\u200d\\U000e0041\\ud800"
    assert visible("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + "\\u0301" * 2


def test_other_encodings_and_reading_aloud() -> None:
    assert in_encoding("√d_k · q kᵀ → 注", "ascii") == "sqrtd_k . q k^T -> \\u6ce8"
    assert in_encoding("√ 注 ᵀ", "gbk") == "√ 注 ^T"
    assert in_words("softmax(q kᵀ / √d_k) ≥ 0 → fine") == (
        "softmax(q k transposed / square root of d_k) at least 0 to fine"
    )
