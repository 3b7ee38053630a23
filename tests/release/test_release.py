"""A class repository gives nothing away, grades as it should, and is not written otherwise."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from bank import ROOT, STAGES

from grader.course import Course, load_course
from grader.declared import declared_checks
from grader.errors import UsageError
from grader.release.checks import check_names, kept_entries
from grader.release.command import release
from grader.release.contents import class_files
from grader.release.course_file import with_public_points, written
from grader.release.proof import leaks

CHOSEN = STAGES[:2]


@pytest.fixture(scope="module")
def released(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of the first two stages, cut as an instructor cuts it."""
    to = tmp_path_factory.mktemp("release") / "my class"
    assert release(ROOT, course, to, "1-2") == 0
    return to


def test_there_are_no_solutions_and_no_hidden_checks(released: Path) -> None:
    names = {path.relative_to(released).as_posix() for path in released.rglob("*") if path.is_file()}
    assert not [name for name in names if re.match(r"solutions/|tests/|benchmarks/|\.git/|out/", name)]
    assert not [name for name in names if "hidden" in name or name.endswith(".pyc")]
    assert {stage.folder for stage in STAGES[2:]} & {
        name.split("/")[1] for name in names if "/" in name
    } == set()
    everything = b"\n".join((released / name).read_bytes() for name in names)
    for stage in CHOSEN:
        for hidden in check_names(ROOT / "stages" / stage.folder / "checks", hidden=True):
            assert hidden.encode() not in everything


def test_the_points_are_those_of_the_checks_that_are_there(released: Path) -> None:
    course = load_course(released)
    assert [stage.name for stage in course.stages] == ["stage1", "stage2"]
    for stage in course.stages:
        declared = declared_checks(released / "stages" / stage.folder / "checks", stage.name)
        assert declared and not any(check.hidden for check in declared)
        for exercise in stage.exercises:
            assert exercise.points == sum(one.points for one in declared if one.exercise == exercise.name) > 0


def test_its_commands_and_links_work(released: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nox", "--list"], cwd=released, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    listed = set(re.findall(r"^[*-] (\S+)", done.stdout, re.MULTILINE))
    assert {"course", "stage1", "stage2", "demo1", "watch", "hint", "reset"} <= listed
    assert not {"stage3", "tests", "lint", "bench", "release", "batch"} & listed
    readme = (released / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"nox -s (\w+)", readme)) <= listed
    for page in released.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), (page, target)


def test_its_workflows_grade_every_stage(released: Path) -> None:
    github = yaml.safe_load((released / ".github/workflows/grade.yml").read_text(encoding="utf-8"))
    steps = " ".join(str(step.get("run")) for step in github["jobs"]["grade"]["steps"])
    gitlab = yaml.safe_load((released / ".gitlab-ci.yml").read_text(encoding="utf-8"))
    assert gitlab["grade"]["artifacts"]["reports"]["junit"] == "out/results/junit.xml"
    for text in (steps, " ".join(gitlab["grade"]["script"])):
        assert re.findall(r"nox -s (stage\d+)", text) == ["stage1", "stage2"]
    assert github["permissions"] == {"contents": "read"}


def test_the_steps_of_its_workflows_give_their_reports(released: Path, tmp_path: Path) -> None:
    """As on a runner, but for the installation: skeletons are graded, and what is not done is no failed step."""
    for stage in ("stage1", "stage2"):
        result = tmp_path / f"{stage}.json"
        assert run(released, "grade", stage, "--plain", "--json", str(result)).returncode == 1
        assert json.loads(result.read_bytes())["score"] == 0
    results = sorted(map(str, tmp_path.glob("*.json")))
    told = run(released, "report", "github", *results)
    assert told.returncode == 0, told.stderr
    assert run(released, "report", "junit", *results, "--to", str(tmp_path / "junit.xml")).returncode == 0
    assert (tmp_path / "junit.xml").stat().st_size > 1000


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "grader", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="Gradescope's machines run Linux")
def test_the_autograder_grades_a_submission(released: Path, tmp_path: Path) -> None:
    archive = released.with_name(f"{released.name}-autograder.zip")
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
        file.extractall(tmp_path / "source")
    assert not [name for name in names if "solutions" in name]
    assert "course/stages/stage1_attention/checks/test_hidden.py" in names
    shutil.copytree(ROOT / "solutions", tmp_path / "submission")
    environment = {**os.environ, "AUTOGRADER": str(tmp_path), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(tmp_path / "source" / "run_autograder")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results" / "results.json").read_bytes())
    assert results["score"] == sum(exercise.points for stage in CHOSEN for exercise in stage.exercises)


@pytest.mark.parametrize(
    ("stages", "words"), [("3-1", "backwards"), ("99", "stage1, stage2"), ("one", "stage1, stage2")]
)
def test_stages_that_are_not_there_are_refused(
    course: Course, tmp_path: Path, stages: str, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        release(ROOT, course, tmp_path / "class", stages)
    assert stages in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_stage_without_what_it_builds_on_is_refused(course: Course, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stage2 builds on stage1.*--stages 1-2"):
        release(ROOT, course, tmp_path / "class", "2")


def test_nothing_is_written_over(course: Course, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        release(ROOT, course, tmp_path, "1")
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("notes.txt", "def {hidden}(submission): ...", "names the hidden check"),
        ("grader/cache.json", '{{"id": "{hidden}"}}', "names the hidden check"),
        ("data/mine.py", "# my own\n{solution}", "has lines of"),
        ("docs/notes.md", "How I did it:\n\n```python\n{solution}\n```\n", "has lines of"),
        ("stages/stage1_attention/__pycache__/attention.cpython-311.pyc", "x", "compiled"),
        ("solutions/stage1_attention/attention.py", "x = 1", "under solutions"),
    ],
)
def test_what_gives_something_away_is_found(course: Course, name: str, text: str, words: str) -> None:
    solution = (ROOT / "solutions" / CHOSEN[0].folder / "attention.py").read_text(encoding="utf-8")
    hidden = sorted(check_names(ROOT / "stages" / CHOSEN[0].folder / "checks", hidden=True))[0]
    files = class_files(ROOT, course, CHOSEN)
    assert leaks(ROOT, CHOSEN, files) == []
    # Other spacing and other comments do not hide it.
    disguised = solution.replace("    # ", "    # here: ").replace(" = ", "  =  ")
    files[name] = text.format(hidden=hidden, solution=disguised).encode()
    assert [found for found in leaks(ROOT, CHOSEN, files) if words in found and found.startswith(name)]


def test_no_stage_gives_anything_away(course: Course) -> None:
    """Without grading: that is done each time a class is cut."""
    assert leaks(ROOT, STAGES, class_files(ROOT, course, STAGES)) == []


def test_every_stage_has_public_checks_for_every_exercise() -> None:
    for stage in STAGES:
        public = with_public_points(stage, ROOT / "stages" / stage.folder / "checks")
        assert [exercise.name for exercise in public.exercises if not exercise.points] == []


def test_a_course_file_survives_being_written(course: Course, tmp_path: Path) -> None:
    text = written(course, course.stages) + '\n[[stage]]\nname = "last"\nfolder = "last"\ntitle = "Last"\n'
    text += (
        'deadline = 2026-12-24T18:00:00+01:00\n[[stage.exercise]]\nname = "f"\nfile = "f.py"\npoints = 0.5\n'
    )
    for stage in [*course.stages]:
        (tmp_path / "stages" / stage.folder).mkdir(parents=True)
    (tmp_path / "stages" / "last").mkdir()
    (tmp_path / "stages" / "course.toml").write_text(text, encoding="utf-8")
    again = load_course(tmp_path)
    assert again.stages[:-1] == course.stages
    assert again.forbidden == course.forbidden
    last = again.stages[-1]
    assert last.deadline is not None and last.deadline.isoformat() == "2026-12-24T18:00:00+01:00"
    (tmp_path / "stages" / "course.toml").write_text(written(again, again.stages), encoding="utf-8")
    assert load_course(tmp_path) == again


def test_only_the_mistakes_that_can_be_named_are_kept() -> None:
    text = '# All of them.\n\n[one]\nseen = "1"\n\n[one-more]\nseen = "2"\n\n[two]\nseen = "3"\n'
    assert kept_entries(text, 'mistake("one"); mistake("two")') == (
        '# All of them.\n\n[one]\nseen = "1"\n\n[two]\nseen = "3"\n'
    )
