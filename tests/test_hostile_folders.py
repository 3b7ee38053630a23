"""What lies in a submission's folder cannot lead out of it, take the place of a library, or stop a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.course import Course
from grader.driver import Engine, Options
from grader.errors import UsageError
from grader.outline import outline
from grader.report.json import to_json
from grader.scratch import remove
from grader.shortcuts import uses
from grader.sources import MOST_FILES, read_source, take

STAGE = STAGES[0]
SELECTION = "causal_mask or padding_mask"
HARMFUL = "raise SystemExit('hostile_was_here')\n"


def graded(engine: Engine, submission: Path) -> float:
    """The share of points of a submission's two masks."""
    result = engine.grade(STAGE, submission, Options(selection=SELECTION))
    to_json(result)
    return result.score / result.max_score


def test_a_link_in_place_of_the_stage_leads_nowhere(engine: Engine, tmp_path: Path) -> None:
    """Without this, a link to the solutions would be worth full marks."""
    (tmp_path / STAGE.folder).symlink_to(ROOT / "solutions" / STAGE.folder)
    with pytest.raises(UsageError, match="is a link"):
        graded(engine, tmp_path)


def test_a_link_in_place_of_the_stages_leads_nowhere(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "stages").symlink_to(ROOT / "solutions")
    with pytest.raises(UsageError, match="is a link"):
        graded(engine, tmp_path)


def test_the_submission_itself_may_be_reached_by_a_link(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lay_submission(tmp_path / "real", STAGE))
    assert graded(engine, tmp_path / "link") == 1


def test_links_pipes_and_devices_beside_the_file_are_left_out(engine: Engine, tmp_path: Path) -> None:
    folder = lay_submission(tmp_path, STAGE) / STAGE.folder
    (folder / "solution.py").symlink_to(ROOT / "solutions" / STAGE.folder / "attention.py")
    (folder / "zero.py").symlink_to("/dev/zero")
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "pipe.py")
    (folder / "folder.py").mkdir()
    result = engine.grade(STAGE, tmp_path, Options(selection=SELECTION))
    assert result.score == result.max_score
    assert len(result.notes) == 5
    assert all("link" in note or "ordinary file" in note for note in result.notes)


def test_a_pipe_in_place_of_the_file_does_not_block(engine: Engine, tmp_path: Path) -> None:
    path = lay_submission(tmp_path, STAGE) / STAGE.folder / "attention.py"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="ordinary file"):
        graded(engine, tmp_path)


def test_files_that_stand_in_for_libraries_and_for_the_grader_are_not_met(
    engine: Engine, tmp_path: Path
) -> None:
    folder = lay_submission(tmp_path, STAGE) / STAGE.folder
    names = (
        "torch",
        "random",
        "math",
        "grader",
        "pytest",
        "conftest",
        "sitecustomize",
        "usercustomize",
        "setup",
    )
    for place in (tmp_path, folder):
        for name in names:
            (place / f"{name}.py").write_text(HARMFUL)
        for name in ("pytest.ini", "tox.ini", "pyproject.toml", "setup.cfg"):
            (place / name).write_text("[pytest]\naddopts = -p hostile --co\n")
        (place / "hostile.pth").write_text("import hostile_was_here\n")
    for package in ("grader", "torch", "safetensors"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text(HARMFUL)
    (folder / "checks").mkdir()
    (folder / "checks" / "test_public.py").write_text(HARMFUL)
    (folder / "__init__.py").write_text(HARMFUL)
    assert graded(engine, tmp_path) == 1


def test_thousands_of_files_and_large_ones_are_cut_with_a_note(engine: Engine, tmp_path: Path) -> None:
    folder = lay_submission(tmp_path, STAGE) / STAGE.folder
    for number in range(2000):
        (folder / f"module_{number}.py").write_text("x = 1\n")
    for number in range(8):
        (folder / f"large_{number}.py").write_text(f"x = '''{chr(1) * 1_000_000}'''\n")
    result = engine.grade(STAGE, tmp_path, Options(selection=SELECTION))
    assert result.score == result.max_score
    assert any(f"{MOST_FILES} were taken" in note for note in result.notes)
    assert any("was not taken" in note for note in result.notes)


def test_names_that_clash_or_are_no_text(engine: Engine, course: Course, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \xff"))
    odd.mkdir()
    folder = lay_submission(odd, STAGE) / STAGE.folder
    (folder / "ATTENTION.py").write_text(HARMFUL)
    for name in (b"caf\xe9.py", b"a\nb.py", b"\x1b[2J.py", "ﬁle.py".encode()):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(HARMFUL)
    assert graded(engine, odd) == 1
    taken = take(ROOT, course, STAGE, odd, "own")
    assert all(name.isprintable() for name in taken.sources)


def test_a_huge_sparse_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "attention.py"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Exception, match="bytes"):
        read_source(path, "attention.py")


NESTED = 20_000

BOMBS = {
    "parentheses": "x = " + "(" * NESTED + ")" * NESTED,
    "brackets never closed": "x = " + "[" * NESTED,
    "mixed brackets": "x = " + "[{(" * 300,
    "attributes": "x = torch" + ".a" * 100_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "additions": "x = " + "1 + " * 100_000 + "1",
    "strings": "x = " + "'a' + " * 100_000 + "'a'",
    "calls": "x = torch" + "()" * 100_000,
    "indices": "x = torch" + "[0]" * 100_000,
    "lambdas": "x = " + "lambda: " * NESTED + "1",
    "comparisons": "x = " + "1 < " * 100_000 + "1",
    "conditions": "x = " + "1 if 1 else " * NESTED + "1",
    "f-strings": "x = " + "f'{" * 50 + "1" + "}'" * 50,
    "blocks": "".join(" " * depth + "if 1:\n" for depth in range(99)) + " " * 99 + "pass",
    "elifs": "if 1: pass\n" + "elif 1: pass\n" * NESTED,
    "decorators": "@torch\n" * NESTED + "def f(): pass",
    "digits": "x = " + "9" * 100_000,
    "names": "\n".join(f"n{number} = torch" for number in range(NESTED)),
    "renamings": "import torch\n" + "\n".join(f"n{number} = torch" + ".a" * 300 for number in range(500)),
    "surrogates": "x = '\ud800'",
}


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_readers_of_code_come_to_an_end(source: str) -> None:
    text = f"import torch\n\ndef f(x):\n    return torch.nn.functional.relu(x)\n\n{source}\n"
    read = outline(text)
    assert read.problem or "f" in read.definitions
    assert uses({"stage/file.py": text}, "stage/file.py", "f", ["torch.nn.MultiheadAttention"]) == []


def test_a_course_command_run_inside_a_submission_uses_the_graders_own_files(tmp_path: Path) -> None:
    """The worker starts isolated: neither the current folder nor PYTHONPATH reaches an import path."""
    from grader.forked import ZygoteProcess, environment

    (tmp_path / "torch.py").write_text(HARMFUL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setenv("PYTHONPATH", str(tmp_path))
        patch.setenv("PYTEST_ADDOPTS", "-p hostile")
        assert not {name for name in environment() if name.startswith("PYT")} - {"PYTHONDONTWRITEBYTECODE"}
        zygote = ZygoteProcess()
        try:
            zygote.ready()
        finally:
            zygote.close()


def test_removing_says_done_where_time_runs_out_at_the_very_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each moment: either the folder is gone, or it is said to be there."""
    for moments in range(40):
        folder = tmp_path / "scratch"
        (folder / "inner").mkdir(parents=True, exist_ok=True)
        (folder / "inner" / "file").write_text("")
        clock = iter([0.0] * moments + [9.0] * 1000)
        monkeypatch.setattr("grader.scratch.time.monotonic", lambda clock=clock: next(clock))
        assert remove(str(folder), 1.0) is not folder.exists()
    assert not folder.exists()


def test_an_engine_whose_zygote_was_killed_starts_another(course: Course) -> None:
    with Engine(ROOT, course) as engine:
        zygote = engine.zygote()
        zygote.ready()
        zygote._process.kill()
        zygote._process.wait()
        assert graded(engine, ROOT / "solutions") == 1
