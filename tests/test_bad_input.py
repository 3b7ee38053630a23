"""Bad input gets a verdict and a plain reason, never a pass and never a traceback of the engine."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.course import Course
from grader.driver import Engine, Options
from grader.errors import UsageError
from grader.result import CheckResult, StageResult

STAGE = STAGES[0]
SOLUTION = (ROOT / "solutions" / STAGE.folder / "attention.py").read_text(encoding="utf-8")
CAUSAL = "    everything = torch.ones(1, 1, length, length, dtype=torch.bool, device=device)\n"
CAUSAL_RETURN = "    return everything.tril()  # keeps the diagonal: a position sees itself\n"


FORGERY = """
import os, struct


def _forge():
    for fd in range(3, 9):
        try:
            os.write(fd, struct.pack(">IQ", 9, 0) + b'{"id": 1}')
        except OSError:
            pass
"""


def edited(find: str, replace: str) -> str:
    """The solution of stage 1 with one edit."""
    assert SOLUTION.count(find) == 1
    return SOLUTION.replace(find, replace)


def grade(engine: Engine, folder: Path, source: str | bytes | None, selection: str = "") -> StageResult:
    """Stage 1 graded with this text as attention.py."""
    submission = lay_submission(folder, STAGE)
    path = submission / STAGE.folder / "attention.py"
    if source is None:
        path.unlink()
    elif isinstance(source, bytes):
        path.write_bytes(source)
    else:
        path.write_text(source, encoding="utf-8")
    return engine.grade(STAGE, submission, Options(selection=selection))


def of(result: StageResult, exercise: str) -> list[CheckResult]:
    return [check for check in result.checks if check.exercise == exercise]


def everything_said(check: CheckResult) -> str:
    parts = [*check.findings, check.error, check.next_step, check.output]
    return " ".join(parts + ([check.diagnosis.seen] if check.diagnosis else []))


def in_causal_mask(line: str) -> str:
    """The solution with a line of mischief at the beginning of causal_mask."""
    return edited(CAUSAL, f"    {line}\n{CAUSAL}")


@pytest.mark.parametrize(
    ("mischief", "status", "words"),
    [
        ("import sys; sys.exit(0)", "error", "sys.exit"),
        ("import os; os._exit(0)", "crashed", "exit code 0"),
        ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
        ("print('x' * 100_000_000)", "output", "printed more than"),
        ("return causal_mask(length)", "error", "RecursionError"),
        ("raise ValueError('broken \\x1b[31m' + 'y' * 10_000_000)", "error", "broken"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
        ("assert False", "error", "AssertionError"),
    ],
)
def test_one_exercise_misbehaves(
    engine: Engine, tmp_path: Path, mischief: str, status: str, words: str
) -> None:
    result = grade(engine, tmp_path, in_causal_mask(mischief), "causal_mask or padding_mask")
    assert {check.status for check in of(result, "causal_mask")} == {status}
    assert all(words in everything_said(check) for check in of(result, "causal_mask"))
    assert {check.status for check in of(result, "padding_mask")} == {"passed"}
    assert all(len(everything_said(check)) < 20_000 for check in result.checks)


def test_an_endless_loop_is_stopped_and_located(course: Course, engine: Engine, tmp_path: Path) -> None:
    import msgspec

    quick = msgspec.structs.replace(STAGE, seconds_per_check=0.5)
    submission = lay_submission(tmp_path, STAGE, {"attention.py": in_causal_mask("while True: pass")})
    result = engine.grade(quick, submission, Options(selection="causal_mask"))
    mine = of(result, "causal_mask")
    assert {check.status for check in mine} == {"timeout"}
    line = next(n for n, text in enumerate(SOLUTION.splitlines(), 1) if text.strip() == CAUSAL.strip())
    assert [(place.file, place.line) for place in mine[0].traceback] == [
        (f"{STAGE.folder}/attention.py", line)
    ]
    assert "causal_mask" in mine[0].findings[0]


def test_an_import_that_never_ends_is_waited_for_once(course: Course, engine: Engine, tmp_path: Path) -> None:
    import msgspec

    quick = msgspec.structs.replace(STAGE, seconds_per_check=0.5)
    submission = lay_submission(tmp_path, STAGE, {"attention.py": f"{SOLUTION}\nwhile True: pass\n"})
    result = engine.grade(quick, submission, Options())
    assert {check.status for check in result.checks} == {"timeout"}
    line = len(SOLUTION.splitlines()) + 2
    assert {check.traceback[-1].line for check in result.checks} == {line}
    assert len([check for check in result.checks if check.seconds >= 0.5]) == 1


@pytest.mark.parametrize(
    ("returned", "status", "words"),
    [
        ("return None", "failed", "None"),
        ("return everything.tril(), 1", "failed", "tuple"),
        ("return everything.tril().numpy()", "failed", "NumPy"),
        ("return everything.tril()[0]", "failed", "shape"),
        ("return everything.tril().float()", "failed", "dtype"),
        ("return everything.tril().float() / 0.0", "failed", "dtype"),
        ("return 'a mask'", "failed", "mask"),
        ("return object()", "failed", "object"),
        ("return everything.tril().to_sparse()", "failed", "sparse"),
        ("return everything.to('meta')", "failed", "meta"),
    ],
)
def test_what_comes_back_is_named(
    engine: Engine, tmp_path: Path, returned: str, status: str, words: str
) -> None:
    result = grade(engine, tmp_path, edited(CAUSAL_RETURN, f"    {returned}\n"), "causal_mask")
    mine = [check for check in of(result, "causal_mask") if check.status != "passed"]
    assert {check.status for check in mine} <= {status, "error"}
    assert any(words.lower() in everything_said(check).lower() for check in mine)
    assert (
        sum(check.points for check in of(result, "causal_mask"))
        <= sum(check.max_points for check in mine) / 2
    )


def test_nan_is_named(engine: Engine, tmp_path: Path) -> None:
    source = edited("    d_k = query.size(-1)\n", "    d_k = query.size(-1) * 0\n")
    result = grade(engine, tmp_path, source, "scaled_dot_product_attention")
    assert any("NaN" in everything_said(check) for check in result.checks)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (SOLUTION + "def broken(:\n", len(SOLUTION.splitlines()) + 1, "SyntaxError"),
        ("import no_such_package\n" + SOLUTION, 1, "no_such_package"),
        ("raise RuntimeError('at import')\n" + SOLUTION, 1, "at import"),
        ("import sys\nsys.exit(3)\n" + SOLUTION, 2, "SystemExit"),
    ],
)
def test_a_file_that_does_not_import(
    engine: Engine, tmp_path: Path, source: str, line: int, words: str
) -> None:
    result = grade(engine, tmp_path, source)
    assert result.score == 0
    assert {check.status for check in result.checks} == {"error"}
    check = result.checks[0]
    assert words in everything_said(check)
    assert check.traceback[-1].line == line
    assert f"attention.py:{line}" in check.next_step


def test_a_missing_file(engine: Engine, tmp_path: Path) -> None:
    result = grade(engine, tmp_path, None)
    assert {check.status for check in result.checks} == {"missing"}
    assert "attention.py" in result.checks[0].findings[0]


def test_a_missing_name_and_a_near_one(engine: Engine, tmp_path: Path) -> None:
    source = SOLUTION.replace("def causal_mask(", "def casual_mask(")
    result = grade(engine, tmp_path, source)
    mine = of(result, "causal_mask")
    assert {check.status for check in mine} == {"missing"}
    assert "casual_mask" in mine[0].findings[0]
    assert {check.status for check in of(result, "padding_mask")} == {"passed"}


def test_a_wrong_signature(engine: Engine, tmp_path: Path) -> None:
    source = edited(
        "def causal_mask(length: int, device: torch.device | str | None = None)", "def causal_mask()"
    )
    result = grade(engine, tmp_path, source, "causal_mask")
    mine = of(result, "causal_mask")
    assert {check.status for check in mine} == {"error"}
    assert "causal_mask()" in everything_said(mine[0])
    assert mine[0].diagnosis is not None and mine[0].diagnosis.code == "general/wrong-signature"


@pytest.mark.parametrize("instead", ["None", "object()", "torch.zeros(2)", "3", "(1, 2)"])
def test_a_layer_that_is_none_is_the_submissions_own_mistake(
    engine: Engine, tmp_path: Path, instead: str
) -> None:
    source = SOLUTION + f"\n\ndef SingleHeadAttention(d_model, d_k):\n    return {instead}\n"
    result = grade(engine, tmp_path, source, "SingleHeadAttention")
    assert {check.status for check in result.checks} == {"failed"}
    assert result.score == 0
    assert all("nn.Module" in everything_said(check) for check in result.checks)


def test_what_was_printed_is_shown_with_a_failure(engine: Engine, tmp_path: Path) -> None:
    source = in_causal_mask("print('looking for 中文'); return None")
    result = grade(engine, tmp_path, source, "causal_mask")
    assert "looking for 中文" in of(result, "causal_mask")[0].output


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + SOLUTION.encode(),
        SOLUTION.replace("\n", "\r\n").encode(),
        SOLUTION.replace("\n", "\r").encode(),
        ("# -*- coding: latin-1 -*-\n# é\n" + SOLUTION.replace("ᵀ", "T")).encode("latin-1"),
    ],
    ids=["bom", "crlf", "cr", "latin-1"],
)
def test_unusual_bytes_are_graded_like_any_other(engine: Engine, tmp_path: Path, data: bytes) -> None:
    result = grade(engine, tmp_path, data)
    assert result.score == result.max_score


def test_a_path_with_spaces_and_chinese_characters(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "my homework 作业"
    folder.mkdir()
    result = grade(engine, folder, SOLUTION)
    assert result.score == result.max_score


def test_a_submission_that_holds_a_stages_folder(engine: Engine, tmp_path: Path) -> None:
    lay_submission(tmp_path / "stages", STAGE)
    result = engine.grade(STAGE, tmp_path, Options())
    assert result.score == result.max_score


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"  \n\n", "empty"),
        ("def f(): pass\n".encode("utf-16"), "UTF-16"),
        (b"def f():\n    return 1\n\0", "NUL"),
        (b"# caf\xe9\n", "byte 5"),
        (b"# -*- coding: rot13 -*-\n", "rot13"),
        (b"#" * (1 << 21), "bytes"),
    ],
)
def test_an_unreadable_file_is_refused_with_what_to_do(
    engine: Engine, tmp_path: Path, data: bytes, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refusal:
        grade(engine, tmp_path, data)
    assert "\n" not in str(refusal.value)


def test_links_and_folders_in_place_of_files_are_refused(engine: Engine, tmp_path: Path) -> None:
    submission = lay_submission(tmp_path, STAGE)
    path = submission / STAGE.folder / "attention.py"
    path.rename(path.with_name("elsewhere.txt"))
    path.symlink_to(path.with_name("elsewhere.txt"))
    with pytest.raises(UsageError, match="link"):
        engine.grade(STAGE, submission, Options())
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="ordinary file"):
        engine.grade(STAGE, submission, Options())


@pytest.mark.parametrize("kind", ["absent", "file", "empty"])
def test_a_submission_that_is_none(engine: Engine, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "submission"
    if kind == "file":
        target.write_text("x")
    elif kind == "empty":
        target.mkdir()
    with pytest.raises(UsageError, match="--submission DIR"):
        engine.grade(STAGE, target, Options())


def test_an_expression_that_matches_nothing_or_is_none(engine: Engine) -> None:
    with pytest.raises(UsageError, match="matches no check"):
        engine.grade(STAGE, ROOT / "solutions", Options(selection="nothing_like_it"))
    with pytest.raises(UsageError, match="not an expression"):
        engine.grade(STAGE, ROOT / "solutions", Options(selection="and and ("))


def test_a_device_that_is_not_there(engine: Engine) -> None:
    import torch

    absent = "mps" if not torch.backends.mps.is_available() else "cuda"
    with pytest.raises(UsageError, match="--device cpu"):
        engine.grade(STAGE, ROOT / "solutions", Options(device=absent))
    with pytest.raises(UsageError, match="Use cpu, cuda or mps"):
        engine.grade(STAGE, ROOT / "solutions", Options(device="tpu"))


def test_nothing_goes_from_one_check_to_the_next(engine: Engine, tmp_path: Path) -> None:
    """A submission that is right the first times it is called only: each check imports it anew."""
    source = edited(CAUSAL, "    global calls\n    calls += 1\n" + CAUSAL) + "\ncalls = 0\n"
    source = source.replace(CAUSAL_RETURN, "    return everything.tril() if calls < 9 else everything\n")
    result = grade(engine, tmp_path, source, "causal_mask")
    assert result.score == result.max_score


LEFT_BEHIND = {
    "a variable": "import os\nassert 'SEEN' not in os.environ\nos.environ['SEEN'] = 'yes'\n",
    "a changed library": "assert not hasattr(torch, 'seen')\ntorch.seen = True\n",
    "an end": "import os\nif hasattr(torch, 'seen'):\n    os._exit(3)\ntorch.seen = True\n",
    "an endless loop": "while hasattr(torch, 'seen'):\n    pass\ntorch.seen = True\n",
    "much output": "if hasattr(torch, 'seen'):\n    print('x' * (17 << 20))\ntorch.seen = True\n",
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_a_check_leaves_in_its_process_costs_the_next_one_nothing(
    engine: Engine, tmp_path: Path, what: str
) -> None:
    """It is right in a fresh process, and wrong in one where it ran before."""
    result = grade(engine, tmp_path, SOLUTION + LEFT_BEHIND[what], "causal_mask")
    assert len(of(result, "causal_mask")) > 1
    assert result.score == result.max_score


def test_what_fails_after_a_check_that_passed_is_told_as_if_it_were_alone(
    engine: Engine, tmp_path: Path
) -> None:
    """What it prints and raises in the process that was used before is not what the learner reads."""
    source = edited(
        CAUSAL, "    print(where)\n    if length > 3:\n        raise RuntimeError(where)\n" + CAUSAL
    )
    source += "\nwhere = 'a used process' if hasattr(torch, 'seen') else 'a fresh one'\ntorch.seen = True\n"
    result = grade(engine, tmp_path, source, "padding_mask or causal_mask")
    assert {check.status for check in of(result, "padding_mask")} == {"passed"}
    failed = [check for check in of(result, "causal_mask") if check.status != "passed"]
    assert failed
    assert {check.error for check in failed} == {"RuntimeError: a fresh one"}
    assert all("a used process" not in check.output and "a fresh one" in check.output for check in failed)


def test_global_state_is_set_anew(engine: Engine, tmp_path: Path) -> None:
    source = SOLUTION + "\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
    result = grade(engine, tmp_path, source, "causal_mask or padding_mask")
    assert result.score == result.max_score


def test_replies_that_no_worker_sends_are_tampering(engine: Engine, tmp_path: Path) -> None:
    source = in_causal_mask("_forge()") + FORGERY
    result = grade(engine, tmp_path, source, "causal_mask or padding_mask")
    assert {check.status for check in of(result, "causal_mask")} == {"tampered"}
    assert {check.status for check in of(result, "padding_mask")} == {"passed"}
