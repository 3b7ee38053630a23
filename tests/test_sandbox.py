"""`doctor` and the report tell the truth about the sandbox, with every part of it switched off one at a time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bank import ROOT, STAGES

from grader import cli
from grader.course import Course
from grader.doctor import ADVICE, sandbox_lines
from grader.driver import Engine, Options
from grader.errors import UsageError
from grader.forked import ZygoteProcess
from grader.sandbox import landlock, seccomp
from grader.sandbox.hold import Held, exposed, readable_paths
from grader.sandbox.probes import Findings, probe
from grader.zygote import Settings

STAGE = STAGES[0]
SECRET = ROOT / "stages" / "course.toml"

FILES = {"read a file of the course", "list the root folder", "write outside the scratch folder"}
"""What Landlock alone refuses."""

PROCESSES = {"start a process", "make memory that has no file", "change a file's mode", "send a UDP packet"}
"""What seccomp alone refuses."""


def tried(without: str = "") -> Findings:
    """Every probe, with a part left out."""
    return probe(SECRET, frozenset({without} - {""}))


def offered() -> set[str]:
    """The parts that this machine has."""
    return {name for name, there in (("landlock", landlock.abi()), ("seccomp", seccomp.available())) if there}


def possible(found: Findings) -> set[str]:
    return {one.what for one in found.probes if not one.refused}


def test_doctor_tries_everything_and_names_what_was_refused() -> None:
    found = tried()
    lines = "\n".join(sandbox_lines(ROOT, found))
    assert len(found.probes) == 13
    for one in found.probes:
        assert f"{'refused ' if one.refused else 'POSSIBLE'}  {one.what}" in lines
    if offered() == {"landlock", "seccomp"} and found.held.landlock >= 6:
        assert possible(found) == set()
        assert found.held.level == "full"
        assert "full (Landlock ABI" in lines and ADVICE not in lines


@pytest.mark.parametrize(
    ("without", "open_now", "still_refused"), [("landlock", FILES, PROCESSES), ("seccomp", PROCESSES, FILES)]
)
def test_doctor_tells_the_truth_without_a_part(
    without: str, open_now: set[str], still_refused: set[str]
) -> None:
    found = tried(without)
    lines = sandbox_lines(ROOT, found)
    assert open_now <= possible(found)
    if offered() >= {"landlock", "seccomp"} - {without}:
        assert not still_refused & possible(found)
        assert found.held.level == "partial"
        assert lines[0].startswith("  partial (")
    assert lines[-1] == ADVICE
    assert all(any("POSSIBLE" in line and what in line for line in lines) for what in open_now)


def test_doctor_tells_the_truth_with_nothing() -> None:
    found = probe(SECRET, frozenset({"landlock", "seccomp"}))
    assert found.held.level == "none"
    assert sandbox_lines(ROOT, found)[0].startswith("  none: only time, memory and output are limited")
    assert possible(found) >= FILES | PROCESSES


@pytest.mark.parametrize("without", ["landlock", "seccomp"])
def test_the_report_says_what_held_and_a_required_sandbox_refuses(course: Course, without: str) -> None:
    with Engine(ROOT, course, ZygoteProcess(Settings(without=frozenset({without})))) as engine:
        result = engine.grade(STAGE, ROOT / "solutions", Options(selection="causal_mask"))
        assert result.score == result.max_score
        assert (
            result.sandbox.startswith(("partial", "none"))
            and without not in result.sandbox.split(":")[0].lower()
        )
        with pytest.raises(UsageError, match="--allow-unsandboxed") as refusal:
            engine.grade(STAGE, ROOT / "solutions", Options(selection="causal_mask", require_sandbox=True))
        assert result.sandbox in str(refusal.value)


def test_the_report_says_that_everything_held(engine: Engine) -> None:
    result = engine.grade(STAGE, ROOT / "solutions", Options(selection="causal_mask"))
    expected = "full (Landlock ABI" if offered() == {"landlock", "seccomp"} else ("partial", "none")
    assert result.sandbox.startswith(expected)


@pytest.mark.parametrize(
    ("words", "variable", "code"),
    [
        ((), "", 0),
        (("--require-sandbox",), "", 2),
        ((), "true", 2),
        (("--allow-unsandboxed",), "true", 0),
    ],
)
def test_the_flags_and_continuous_integration(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    variable: str,
    code: int,
) -> None:
    monkeypatch.setenv("CI", variable)
    weak = ZygoteProcess(Settings(without=frozenset({"seccomp"})))
    monkeypatch.setattr(cli.early, "_started", [weak])
    arguments = ["grade", "stage1", "--submission", str(ROOT / "solutions"), "-k", "causal_mask", *words]
    assert cli.run(arguments) == code
    shown = capsys.readouterr()
    if code == 2:
        assert "The sandbox does not hold here" in shown.err and shown.err.count("\n") == 1


def test_debug_does_not_pass_for_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    arguments = ["grade", "stage1", "--submission", str(ROOT / "solutions"), "--debug", "--require-sandbox"]
    assert cli.run(arguments) == 2
    assert "--debug" in capsys.readouterr().err


def test_a_run_in_continuous_integration_draws_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert cli.drawn(None) == 0 and cli.drawn(7) == 7
    monkeypatch.setenv("CI", "1")
    assert cli.drawn(7) == 7
    assert len({cli.drawn(None) for _ in range(4)}) > 1


def test_a_course_in_a_readable_place_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert exposed(ROOT / "stages") is None
    assert str(ROOT) not in readable_paths()
    readable_paths.cache_clear()
    try:
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        assert exposed(tmp_path / "stages") == str(tmp_path.resolve())
    finally:
        readable_paths.cache_clear()


@pytest.mark.parametrize(
    ("held", "level", "words"),
    [
        (Held(7, True, False), "full", "files, network, processes and memory are restricted"),
        (Held(3, True, False, "x"), "partial", "x"),
        (Held(7, True, True), "partial", "device files stay reachable for the GPU"),
        (Held(0, False, False, "no Landlock"), "none", "no Landlock"),
    ],
)
def test_levels(held: Held, level: str, words: str) -> None:
    assert held.level == level
    assert held.describe().startswith(level) and words in held.describe()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_a_program_the_kernel_can_take(machine: str) -> None:
    for sockets in (False, True):
        code = seccomp.program(machine, 1234, sockets).code
        assert len(code) < 4096
        for place, (operation, if_true, if_false, _) in enumerate(code):
            if operation & 0x07 == 0x05:
                assert place + 1 + max(if_true, if_false) < len(code)
    column = 0 if machine == "x86_64" else 1
    calls = [*seccomp.CALLS.values(), *seccomp.SOCKET_CALLS.values()]
    numbers = [numbers[column] for numbers in calls]
    there = [number for number in numbers if number is not None]
    assert len(there) == len(set(there))
