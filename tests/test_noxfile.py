"""The nox sessions: made from the course file, and the grader's exit codes become nox's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from bank import ROOT

NOX = [sys.executable, "-m", "nox", "--no-venv"]
NOX_WITHOUT_TORCH = [
    sys.executable,
    "-c",
    "import sys; sys.modules['torch'] = None; from nox.__main__ import main; sys.exit(main())",
    "--no-venv",
]


def run(
    command: list[str], cwd: Path = ROOT, path: str = os.environ["PATH"]
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path}
    environment.pop("FORCE_COLOR", None)
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The noxfile and the course file, elsewhere."""
    for name in ("noxfile.py", "pyproject.toml", "constraints.txt", "stages/course.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def listed(clone: Path) -> list[str]:
    done = run([sys.executable, "-m", "nox", "--list"], clone)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^[*-] (\S+) -> \S", done.stdout, re.MULTILINE)


def test_a_new_stage_has_its_sessions_at_once(clone: Path) -> None:
    course = clone / "stages" / "course.toml"
    course.write_text(course.read_text() + '\n[[stage]]\nname = "stage99"\ntitle = "More"\n')
    names = listed(clone)
    assert names[:2] == ["course", "stage1"]
    assert {"stage99", "demo99"} <= set(names)


def test_a_broken_course_file_leaves_the_session_that_explains_it(clone: Path) -> None:
    (clone / "stages" / "course.toml").write_text("title = = 3")
    assert listed(clone)[:3] == ["course", "watch", "hint"]


def test_wrong_usage_ends_with_the_exit_code_of_the_grader() -> None:
    done = run([*NOX, "-s", "stage1", "--", "--device", "abacus"])
    assert done.returncode == 2
    assert "abacus" in done.stderr + done.stdout


def test_arguments_are_handed_on_and_success_is_0() -> None:
    done = run([*NOX, "-s", "stage1", "--", "--submission", "solutions", "-k", "causal_mask", "--plain"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_does_not_pass_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "stage1_attention").mkdir()
    (tmp_path / "stage1_attention" / "attention.py").write_text("def causal_mask(length):\n    return None\n")
    done = run([*NOX, "-s", "stage1", "--", "--submission", str(tmp_path), "-k", "causal_mask"])
    assert done.returncode == 1, done.stdout + done.stderr


def test_an_interpreter_without_torch_is_told_what_to_install(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin")
    done = run([*NOX_WITHOUT_TORCH, "-s", "stage1"], path=f"{bare}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "lacks" in done.stderr
    assert re.search(r"-m pip install .*\btorch\b", done.stderr)
    assert str(bare) in done.stderr
    assert "Traceback" not in done.stderr
