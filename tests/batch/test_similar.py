"""Submissions that are alike: a disguised copy is found, what everybody was given is not, and the list says where."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

import pytest
from bank import ROOT

from grader import cli
from grader.batch import similar
from grader.course import load_course

FOLDER = "stage1_attention"
FILE = f"{FOLDER}/attention.py"

OWN = '''
def visible_share(mask):
    """How many keys each query sees, as a share."""
    counts = mask.to(torch.float64).sum(dim=-1)
    width = mask.size(-1)
    shares = [float(count) / width for count in counts.flatten()]
    if not shares:
        return 0.0
    smallest, largest = min(shares), max(shares)
    return (smallest + largest) / 2 if smallest < largest else largest


def describe(mask, name="mask"):
    rows = []
    for number, row in enumerate(mask.reshape(-1, mask.size(-1))):
        hidden = [index for index, seen in enumerate(row.tolist()) if not seen]
        rows.append(f"{name} row {number}: hides {len(hidden)} of {row.numel()}")
    return "\\n".join(rows)
'''

DISGUISED = """
# Shows what a mask does.


def show(m, title="m"):
    lines = []
    for i, line in enumerate(m.reshape(-1, m.size(-1))):
        gone = [j for j, ok in enumerate(line.tolist()) if not ok]
        lines.append(f"{title} row {i}: hides {len(gone)} of {line.numel()}")
    return "\\n".join(lines)   # one text


def portion(m):
    c = m.to(torch.float64).sum(dim=-1)
    w = m.size(-1)
    p = [float(k) / w for k in c.flatten()]

    if not p:
        return 0.0
    low, high = min(p), max(p)
    return (low + high) / 2 if low < high else high
"""


def hand_in(folder: Path, text: str) -> None:
    (folder / FOLDER).mkdir(parents=True)
    (folder / FILE).write_text(text, encoding="utf-8")


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    """A class with one disguised copy."""
    folder = tmp_path / "class"
    reference = (ROOT / "solutions" / FILE).read_text(encoding="utf-8")
    for name in ("alma", "bert"):  # as the reference has it: nothing is their own
        hand_in(folder / name, reference)
        hand_in(folder / f"{name}-skeleton", (ROOT / "stages" / FILE).read_text(encoding="utf-8"))
    hand_in(folder / "=cmd()", reference + OWN)
    hand_in(folder / "dora" / "stages", DISGUISED + reference)
    hand_in(folder / "nul", "\x00")
    shutil.copytree(ROOT / "tests/variations" / FOLDER / "einsum", folder / "einsum" / FOLDER)
    (folder / "empty").mkdir()
    return folder


def run(*arguments: str | Path) -> int:
    return cli.run(["batch", "similar", *map(str, arguments)])


def test_a_disguised_copy_is_found_and_shown(
    submissions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submissions, "--to", tmp_path / "pairs.csv") == 0
    said = capsys.readouterr().out
    assert said.startswith("7 submissions compared: 1 pair alike")
    assert "no verdict" in said
    assert "Not compared: empty: empty holds no stage folder" in said
    assert f"Not compared: nul: {FILE} is not text" in said

    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text("utf-8-sig").splitlines()))
    (row,) = rows
    assert (row["first"], row["second"], row["file"]) == ("'=cmd()", "dora", FILE)
    assert float(row["share of first"]) > 0.8 and float(row["share of second"]) > 0.8
    theirs = (submissions / "dora" / "stages" / FILE).read_text().splitlines()
    first, last = map(int, row["lines of second"].split("–"))
    passage = "\n".join(theirs[first - 1 : last])
    assert "def " in passage and ("gone" in passage or "flatten" in passage)
    assert last <= len(DISGUISED.splitlines()) + 1


def test_a_link_to_anothers_code_is_not_followed(
    submissions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (submissions / "thief").mkdir()
    (submissions / "thief" / FOLDER).symlink_to(submissions / "=cmd()" / FOLDER)
    assert run(submissions) == 0
    said = capsys.readouterr().out
    assert ": 1 pair alike" in said and "Not compared: thief: " in said and "is a link" in said


def test_only_the_stages_that_are_asked_for_are_compared(
    submissions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submissions, "--stages", "2-3") == 0
    assert "0 pairs" in capsys.readouterr().out


def test_what_many_have_is_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(similar.COMMON_LEAST + 1):
        hand_in(tmp_path / f"learner{number}", f"import torch\n{OWN}\nNUMBER = {number}\n")
    assert run(tmp_path) == 0
    assert ": 0 pairs alike" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "learner0")
    assert run(tmp_path, "--most", "2") == 0
    said = capsys.readouterr().out
    pairs = similar.COMMON_LEAST * (similar.COMMON_LEAST - 1) // 2
    assert f": {pairs} pairs alike" in said and f"{pairs - 2} more are listed with --most {pairs}" in said


def test_code_that_cannot_be_parsed_is_compared_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ada", "bob"):
        hand_in(tmp_path / name, OWN + "\ndef broken(:\n" + "(" * 300 + "\n'''never closed\n\x0c")
    hand_in(tmp_path / "blank", "")
    assert run(tmp_path) == 0
    assert "ada and bob: 100% and 100% of their own code" in capsys.readouterr().out


def test_a_missing_library_is_one_line(
    submissions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "copydetect", None)
    assert run(submissions) == 2
    assert "python -m pip install -c constraints.txt copydetect" in capsys.readouterr().err


def test_the_reference_itself_has_nothing_of_its_own(tmp_path: Path) -> None:
    """In every stage: whoever handed in the reference, or code near to it, is alike with nobody."""
    course = load_course(ROOT)
    for stage in course.stages:
        given = similar.given(ROOT, stage)
        for name in stage.files:
            text = (ROOT / "solutions" / stage.folder / name).read_text(encoding="utf-8")
            print_ = similar.fingerprint(text)
            similar.leave_out([print_], given)
            assert print_.token_coverage == 0
