"""The commands as a person types them: exit codes, one-line refusals, and the same results by every road."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bank import LOUD, ROOT, STAGES, lay_submission

from grader.driver import Engine, Options


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m grader ARGUMENTS`, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "grader", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_full_marks_exit_0_and_the_json_says_the_same(tmp_path: Path) -> None:
    import jsonschema

    file = tmp_path / "new folder" / "result.json"
    done = run("grade", "stage1", "--submission", "solutions", "--json", str(file), "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert "Complete" in done.stdout
    result = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(
        result, json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
    )
    assert result["score"] == result["max_score"] > 0
    assert result["seed"] == 5
    assert result["versions"]["torch"].startswith("2.")


def test_a_mistake_exits_1_and_names_the_line(tmp_path: Path) -> None:
    stage = STAGES[0]
    source = (ROOT / "solutions" / stage.folder / "attention.py").read_text(encoding="utf-8")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "/ math.sqrt(d_k)" in text)
    submission = lay_submission(tmp_path, stage, {"attention.py": source.replace(" / math.sqrt(d_k)", "")})
    done = run("grade", "1", "--submission", str(submission))
    assert done.returncode == 1, done.stderr
    text = " ".join(done.stdout.split())
    assert re.search(r"were not divided by sqrt\(d_k\) = \d\.\d\d", text)
    assert f"attention.py:{line}" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("grade", "stage99"), "stage1"),
        (("grade", "stage1", "--submission", "no/such/folder"), "--submission DIR"),
        (("grade", "stage1", "--device", "tpu"), "cpu, cuda or mps"),
        (("grade", "stage1", "-k", "nothing_like_it"), "matches no check"),
        (("grade", "stage1", "--seed", "x"), "--seed"),
        (("grade", "stage1", "--json", "/dev/null/x.json", "--submission", "solutions"), "--json FILE"),
        (("no-such-command",), "no-such-command"),
        (("reset", "stage99"), "stage1"),
    ],
)
def test_wrong_usage_exits_2_with_what_to_do(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_the_course_reports_and_exits_0() -> None:
    done = run("course", "--submission", "solutions", "--plain")
    assert done.returncode == 0, done.stderr
    for stage in STAGES:
        assert stage.title in done.stdout


def test_debug_isolated_and_spawned_agree(tmp_path: Path, engine: Engine) -> None:
    """The same results with the submission in this process, in forked workers and in a spawned one."""
    from grader.collect import load_check_file
    from grader.driver import Run
    from grader.runner import Runner
    from grader.spawned import SpawnedWorkers

    stage = STAGES[0]
    source = (ROOT / "solutions" / stage.folder / "attention.py").read_text(encoding="utf-8")
    submission = lay_submission(tmp_path, stage, {"attention.py": source.replace(" / math.sqrt(d_k)", "")})

    def verdicts(checks: list) -> list:  # type: ignore[type-arg]
        return [
            (check.id, check.status, check.diagnosis and check.diagnosis.code, check.findings)
            for check in checks
        ]

    forked = verdicts(engine.grade(stage, submission, Options(seed=3)).checks)
    debug = verdicts(engine.grade(stage, submission, Options(seed=3, debug=True)).checks)
    run_ = Run(ROOT, engine.course, stage, submission, Options(seed=3))
    workers = SpawnedWorkers()
    try:
        runner = Runner(run_.job, workers)
        spawned = verdicts(
            [
                runner.run(one, getattr(load_check_file(Path(run_.job.checks) / one.file), one.function))
                for one in run_.declared
            ]
        )
    finally:
        workers.close()
    assert forked == debug == spawned
    assert {status for _, status, _, _ in forked} == {"passed", "failed"}


def test_plain_pytest_gives_the_same_verdicts(tmp_path: Path, engine: Engine) -> None:
    stage = STAGES[0]
    source = (ROOT / "solutions" / stage.folder / "attention.py").read_text(encoding="utf-8")
    submission = lay_submission(tmp_path, stage, {"attention.py": source.replace(" / math.sqrt(d_k)", "")})
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            f"stages/{stage.folder}",
            "--submission",
            str(submission),
            "-q",
            "-rA",
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    result = engine.grade(stage, submission, Options())
    for check in result.checks:
        word = "PASSED" if check.status == "passed" else "FAILED"
        assert re.search(rf"^{word} \S*::{check.id.partition('/')[2]}\b", done.stdout, re.MULTILINE), check.id
    assert "sqrt(d_k)" in done.stdout
    assert "def test_" not in done.stdout, "a check's source was shown"


def test_a_fault_of_a_check_exits_3_and_is_said_to_be_ours(tmp_path: Path) -> None:
    """A course whose check is broken: not the submission's fault."""
    import shutil

    for name in ("grader", "solutions", "stages"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    checks = tmp_path / "stages" / STAGES[0].folder / "checks"
    with (checks / "test_public.py").open("a", encoding="utf-8") as file:
        file.write(
            '\n\n@check("causal_mask", points=1)\ndef test_broken(submission, draw):\n    """It holds."""\n    1 / 0\n'
        )
    done = run("grade", "stage1", "--submission", "solutions", "--plain", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "ZeroDivisionError" in done.stdout
    (tmp_path / "stages" / "course.toml").write_text("title = 3\n", encoding="utf-8")
    done = run("grade", "stage1", cwd=tmp_path)
    assert done.returncode == 2
    assert "course.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interpreter_without_the_packages_is_told_what_to_do() -> None:
    bare = [sys.executable, "-S", "-m", "grader", "course"]  # -S: what pip installed is not there
    done = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and not done.stdout
    assert "lacks " in done.stderr and "constraints.txt" in done.stderr and "Traceback" not in done.stderr


def test_a_gpu_grades_everything_where_there_is_one(
    engine: Engine, record_property: Callable[[str, str], None]
) -> None:
    import torch

    kind = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
    if kind is None:
        record_property(LOUD, "THERE IS NO GPU HERE: NOTHING WAS GRADED ON ONE.")
        return
    for stage in STAGES:
        result = engine.grade(stage, ROOT / "solutions", Options(device=kind))
        assert [(check.id, check.findings) for check in result.checks if check.status != "passed"] == []


def test_the_driver_leaves_torch_to_the_zygote() -> None:
    """Importing torch twice would double the computing time of every run."""
    program = (
        "import sys\nfrom grader.early import ROOT\nfrom grader.course import load_course\n"
        "from grader.driver import Engine, Options\nfrom grader.report import terminal\nimport grader.cli\n"
        "course = load_course(ROOT)\n"
        "with Engine(ROOT, course) as engine:\n"
        "    engine.grade(course.stages[0], ROOT / 'solutions', Options(selection='causal_mask'))\n"
        "print([name for name in ('torch', 'numpy', 'pytest', 'matplotlib') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
