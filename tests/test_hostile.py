"""No submission buys a point, costs another's, or leaves anything behind.

Each folder of tests/hostile holds a stage 1 whose `causal_mask`, or the file itself, is up to something; `padding_mask`
is the honest neighbour. verdict.toml says what it does and what each exercise may come to.
"""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from bank import ROOT, STAGES

from grader.course import Course
from grader.driver import Engine, Options
from grader.errors import UsageError
from grader.report import plain, terminal
from grader.report.json import to_json
from grader.result import StageResult, Status

STAGE = STAGES[0]
QUICK = 0.5
"""Seconds for a check, where the case names no other."""

SELECTION = "causal_mask or padding_mask"
FOLDERS = sorted(path.parent for path in (ROOT / "tests" / "hostile").glob("*/verdict.toml"))
TRACE = "hostile_was_here"
"""What submissions call the files that they try to leave."""


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hostile submission does, and what may become of it."""

    does: str
    causal_mask: list[Status] = []
    padding_mask: list[Status] = []
    refused: str = ""
    """A word of the refusal, where it is not graded at all."""
    says: str = ""
    """What the report of causal_mask holds."""
    says_not: str = ""
    seconds: float = QUICK
    seed: int = 0


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files of everything that is graded here; its name marks the processes, too."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def engine(course: Course, temporary: Path) -> Iterator[Engine]:
    """An engine whose environment holds a secret, and whose temporary files are under watch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setenv("HOSTILE_SECRET", "HOSTILE_SECRET")
        with Engine(ROOT, course) as warm:
            yield warm
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []


def processes_of(temporary: Path) -> list[int]:
    """The processes that were started with this folder for temporary files: zygote, judges, workers, their children."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(temporary):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def left_over(temporary: Path) -> list[str]:
    """What is there besides one zygote and its empty folder; a large folder may be removed for a minute longer."""
    deadline = time.monotonic() + 60
    while True:
        processes, files = processes_of(temporary)[1:], [*temporary.glob("*/*")]
        found = [*map(str, processes), *map(str, files)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def graded(engine: Engine, folder: Path, submission: Path, verdict: Verdict) -> StageResult:
    target = submission / STAGE.folder
    target.mkdir(parents=True)
    shutil.copy(folder / "attention.py", target / "attention.py")
    stage = msgspec.structs.replace(STAGE, seconds_per_check=verdict.seconds)
    return engine.grade(stage, submission, Options(selection=SELECTION, seed=verdict.seed))


def reports(result: StageResult) -> str:
    """The result as people read it."""
    texts = []
    for view in (plain, terminal):
        stream = io.StringIO()
        view.print_report(result, stream)
        texts.append(stream.getvalue())
    return "\n".join(texts)


def traces(*folders: Path) -> list[Path]:
    """Files that submissions tried to leave."""
    return [path for folder in folders for path in folder.glob(f"*{TRACE}*")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_hostile_submissions_gain_and_harm_nothing(
    engine: Engine, tmp_path: Path, temporary: Path, folder: Path
) -> None:
    verdict = msgspec.toml.decode((folder / "verdict.toml").read_bytes(), type=Verdict)
    solution = (ROOT / "solutions" / STAGE.folder / "attention.py").read_bytes()
    if verdict.refused:
        with pytest.raises(UsageError, match=verdict.refused) as refusal:
            graded(engine, folder, tmp_path, verdict)
        assert len(str(refusal.value)) < 500
        return
    engine.warm_up()
    result = graded(engine, folder, tmp_path, verdict)
    for exercise, wanted in (("causal_mask", verdict.causal_mask), ("padding_mask", verdict.padding_mask)):
        checks = [check for check in result.checks if check.exercise == exercise]
        statuses = {check.status for check in checks}
        assert statuses <= set(wanted), (exercise, [check.findings for check in checks])
        gained = sum(check.points for check in checks)
        assert gained == (sum(check.max_points for check in checks) if wanted == ["passed"] else 0)

    said, written = reports(result), to_json(result).decode()
    assert verdict.says in said
    assert not verdict.says_not or verdict.says_not not in said + written
    assert "\x1b" not in said + written and "\u202e" not in said
    assert not [line for line in said.splitlines() if line.lstrip().startswith(("::", "##["))]
    assert len(said) + len(written) < 200_000

    assert left_over(temporary) == []
    home = Path(os.path.expanduser("~"))
    assert traces(ROOT, ROOT / "stages", Path("/tmp"), home, home.parent, Path.cwd()) == []
    assert (ROOT / "solutions" / STAGE.folder / "attention.py").read_bytes() == solution


def test_the_zoo_is_large_and_the_same_engine_still_gives_full_marks(engine: Engine) -> None:
    assert len(FOLDERS) >= 60
    result = engine.grade(STAGE, ROOT / "solutions", Options())
    assert result.score == result.max_score
