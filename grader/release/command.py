"""What `python -m grader release` does: gather, prove, and only then give the folder its name."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import jinja2

from grader import skeleton
from grader.batch.command import chosen_stages
from grader.course import COURSE_FILE, Course, Stage
from grader.errors import UsageError
from grader.release.autograder import write_autograder
from grader.release.checks import CHECKS
from grader.release.contents import below, class_files
from grader.release.course_file import written
from grader.release.proof import leaks, wrong_grades

EARLIER = re.compile(r"^\s*from \.+(\w+)(?:\.\w+)* import", re.MULTILINE)
TEMPLATES = Path(__file__).with_name("templates")
IN_THE_CLASS = {
    "README.md": "README.md.j2",
    ".github/workflows/grade.yml": "grade.yml.j2",
    ".gitlab-ci.yml": "gitlab-ci.yml.j2",
}
FOR_GRADESCOPE = {"setup.sh": "setup.sh.j2", "run_autograder": "run_autograder.j2"}


def release(root: Path, course: Course, to: Path, stages: str) -> int:
    """Cuts the class repository into a new folder and the autograder beside it. Raises UsageError."""
    chosen = chosen_stages(course, stages)
    refuse_without_what_it_builds_on(root, course, chosen)
    autograder = to.with_name(f"{to.name}-autograder.zip")
    refuse_what_is_there(to, autograder)
    refuse_without_solutions(root)
    files = class_files(root, course, chosen)
    files |= rendered(IN_THE_CLASS, course, chosen)
    if found := leaks(root, chosen, files):
        raise UsageError("Nothing was written: the class would see what it should not.\n" + "\n".join(found))

    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as scratch:
        folder = Path(scratch) / "class"
        lay(folder, files)
        say(
            f"{len(files)} files, {points(folder)}. Grading skeletons and solutions with the class's own grader ..."
        )
        if found := wrong_grades(folder, root / "solutions", chosen):
            raise UsageError(
                "Nothing was written: the class would not grade as it should.\n" + "\n".join(found)
            )
        remove_traces(folder, files)
        write_autograder(
            Path(scratch) / autograder.name,
            graded_course(root, course, chosen, files),
            rendered(FOR_GRADESCOPE, course, chosen),
        )
        folder.replace(to)
        (Path(scratch) / autograder.name).replace(autograder)
    say(
        f"{to}: the class repository. `cd {to} && git init` makes it one; push it where learners can copy it."
    )
    say(f"{autograder}: upload it to Gradescope. It holds the hidden checks: keep it from learners.")
    return 0


def refuse_what_is_there(*paths: Path) -> None:
    """Nothing is written over."""
    for path in paths:
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise UsageError(f"{path} is there already. Name another folder, or move it away.")


def refuse_without_what_it_builds_on(root: Path, course: Course, stages: list[Stage]) -> None:
    """A stage imports from earlier ones: a learner without those could not run it."""
    for stage in stages:
        used = {
            folder
            for path in (root / "stages" / stage.folder).rglob("*.py")
            for folder in EARLIER.findall(path.read_text(encoding="utf-8"))
        }
        lacking = [other.name for other in course.stages if other.folder in used and other not in stages]
        if lacking:
            raise UsageError(
                f"{stage.name} builds on {', '.join(lacking)}, which would not be in the class. Take them along, as in "
                f"--stages 1-{stage.name.removeprefix('stage')}."
            )


def refuse_without_solutions(root: Path) -> None:
    """A class gets the skeletons that the solutions generate, not what somebody has written into them."""
    if not (root / "solutions").is_dir():
        raise UsageError("There is no folder `solutions` here: a class is cut from the whole course.")
    if differences := skeleton.differences(root):
        raise UsageError(
            "The skeletons in `stages` are not those of the solutions:\n"
            + "\n".join(differences)
            + "\nRun `python -m grader skeleton --write`, or cut the release from a fresh clone."
        )


def rendered(templates: Mapping[str, str], course: Course, stages: list[Stage]) -> dict[str, bytes]:
    """Files made from templates, by their paths."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    facts = {"title": course.title, "stages": stages, "deadlines": any(stage.deadline for stage in stages)}
    return {path: environment.get_template(name).render(facts).encode() for path, name in templates.items()}


def graded_course(
    root: Path, course: Course, stages: list[Stage], files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """What the autograder grades with: the class's files, with every check and every point."""
    whole = {name: data for name, data in files.items() if f"/{CHECKS}/" not in name}
    for stage in stages:
        whole |= below(root, root / "stages" / stage.folder / CHECKS)
    whole[COURSE_FILE] = written(course, stages).encode()
    return whole


def lay(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def remove_traces(folder: Path, files: Mapping[str, bytes]) -> None:
    """Takes out what the proof left behind, such as caches."""
    for path in sorted(folder.rglob("*"), reverse=True):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif name not in files:
            path.unlink()


def points(folder: Path) -> str:
    """How many points a class repository gives."""
    from grader.course import load_course

    total = sum(exercise.points for stage in load_course(folder).stages for exercise in stage.exercises)
    return f"{total:g} points"


def say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


__all__ = ["release"]
