"""The commands of `python -m grader`; each nox session is a thin call of one of them."""

from __future__ import annotations

import os
import secrets
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from grader import early
from grader.course import Course, load_course
from grader.driver import Engine, GraderFailed, Options, exit_code
from grader.errors import UsageError
from grader.one_command import OneCommand
from grader.report.kinds import Hidden, Kind
from grader.result import StageResult

ROOT = early.ROOT

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


batch_app = typer.Typer(cls=OneCommand, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    batch_app, name="batch", help="Grade the submissions of a class: batch SUBMISSIONS --out GRADES."
)


class Earlier(str, Enum):
    """Whose earlier stages are used."""

    own = "own"
    reference = "reference"


Submission = Annotated[Path | None, typer.Option(help="Folder that holds the stage folders.", metavar="DIR")]
Device = Annotated[str, typer.Option(help="cpu, cuda or mps.")]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the numbers that the checks draw: 0, but drawn anew in CI.")
]
EarlierOption = Annotated[
    Earlier, typer.Option(help="Earlier stages: the submission's own, or the reference.")
]
Sandbox = Annotated[
    bool | None,
    typer.Option(
        "--require-sandbox/--allow-unsandboxed",
        help="Refuse where the sandbox does not hold (default in CI).",
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="One fact a line, for screen readers.")]


@app.command()
def grade(
    stage: str,
    submission: Submission = None,
    device: Device = "cpu",
    seed: Seed = None,
    json: Annotated[Path | None, typer.Option(help="Write the result to this file.", metavar="FILE")] = None,
    earlier: EarlierOption = Earlier.own,
    debug: Annotated[
        bool, typer.Option("--debug", help="Run in this process: breakpoints and prints work.")
    ] = False,
    select: Annotated[
        str, typer.Option("-k", help="Only the checks that match, as with pytest.", metavar="EXPR")
    ] = "",
    plain: Plain = False,
    sandbox: Sandbox = None,
) -> int:
    """Grade a stage; exit 0 when everything passed."""
    course = load_course(ROOT)
    chosen = course.stage(stage)
    options = Options(
        device, drawn(seed), earlier.value, select, debug, sandbox is True if debug else required(sandbox)
    )
    with engine(course) as grading:
        result = grading.grade(chosen, submission or ROOT / "stages", options, progress(plain))
    if json is not None:
        write_json(json, result)
    show(result, plain, next_stage=following(course, chosen.name))
    return exit_code([result])


@app.command(name="course")
def course_table(
    submission: Submission = None,
    device: Device = "cpu",
    seed: Seed = None,
    earlier: EarlierOption = Earlier.own,
    plain: Plain = False,
    sandbox: Sandbox = None,
) -> int:
    """Grade every stage and show how far the course is; reports, so it exits 0."""
    from grader.report.course import Ungraded, print_course

    course = load_course(ROOT)
    options = Options(device, drawn(seed), earlier.value, require_sandbox=required(sandbox))
    entries: list[StageResult | Ungraded] = []
    with engine(course) as grading:
        for stage in course.stages:
            try:
                entries.append(grading.grade(stage, submission or ROOT / "stages", options, progress(plain)))
            except UsageError as error:
                entries.append(Ungraded(stage.name, stage.title, str(error)))
    if entries and all(isinstance(entry, Ungraded) for entry in entries):
        raise UsageError(entries[0].reason)  # type: ignore[union-attr]
    print_course(course.title, entries, sys.stdout, plain)
    graded = [entry for entry in entries if isinstance(entry, StageResult)]
    return 3 if exit_code(graded) == 3 else 0


@app.command()
def watch(
    stage: Annotated[str | None, typer.Argument(help="Begin with this stage.")] = None,
    submission: Submission = None,
    device: Device = "cpu",
) -> int:
    """Grade again on every save, and move on to the next exercise."""
    from grader.watch import watch as watch_files

    course = load_course(ROOT)
    folder = submission or ROOT / "stages"
    with engine(course) as grading:

        def regrade(name: str) -> StageResult:
            return grading.grade(course.stage(name), folder, Options(device), progress(False))

        watch_files(ROOT, regrade, stage, folder)
    return 0


@app.command()
def hint(stage: str, submission: Submission = None) -> int:
    """Show the next hint for the first exercise that is not done."""
    from grader.hint import next_hint

    course = load_course(ROOT)
    with engine(course) as grading:
        result = grading.grade(course.stage(stage), submission or ROOT / "stages", Options())
    print(next_hint(ROOT, result))
    return 0


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def demo(
    context: typer.Context,
    stage: str,
    solutions: Annotated[bool, typer.Option("--solutions", help="Use the reference solutions.")] = False,
) -> int:
    """Run a stage's demo on your own code."""
    from grader.demo import run_demo

    return run_demo(ROOT, load_course(ROOT).stage(stage), solutions, context.args)


@app.command()
def reset(stage: str, exercise: Annotated[str | None, typer.Argument()] = None) -> int:
    """Put the skeleton of a stage or of one exercise back; a copy of yours is kept."""
    from grader.reset import reset as put_back

    print(put_back(ROOT, load_course(ROOT).stage(stage), exercise))
    return 0


@app.command()
def skeleton(write: Annotated[bool, typer.Option("--write", help="Write the skeletons.")] = False) -> int:
    """Compare the skeletons with what the solutions generate, or write them."""
    from grader import skeleton as skeletons

    if write:
        skeletons.write(ROOT)
        return 0
    differences = skeletons.differences(ROOT)
    for line in differences:
        print(line)
    if differences:
        print("Run `python -m grader skeleton --write` and commit what it writes.")
    return 1 if differences else 0


@app.command()
def doctor() -> int:
    """Show what this machine offers: packages, devices, and a sandbox that is tried."""
    from grader.doctor import examine

    print("\n".join(examine(ROOT)))
    return 0


@batch_app.command(name="grade")
def batch(
    submissions: Annotated[Path, typer.Argument(help="Folder of folders, zip or tar files.")],
    out: Annotated[Path, typer.Option(help="Folder of the gradebook; what is in it is not graded again.")],
    roster: Annotated[Path | None, typer.Option(help="The class as a CSV file.", metavar="FILE")] = None,
    jobs: Annotated[int, typer.Option("-j", min=0, help="Stages at a time; 0: one for each processor.")] = 0,
    stages: Annotated[str, typer.Option(help="Only these, such as 1-4 or 1,3.")] = "",
    diff: Annotated[
        bool, typer.Option("--diff", help="Show whose score would change; publish nothing.")
    ] = False,
    shard: Annotated[
        str, typer.Option(help="Only every N-th submission, from the K-th.", metavar="K/N")
    ] = "",
    scheduler: Annotated[
        str, typer.Option(help="Grade on the Dask cluster of this scheduler.", metavar="tcp://HOST:PORT")
    ] = "",
    device: Device = "cpu",
    seed: Annotated[int | None, typer.Option(help="Drawn once for a gradebook unless it is given.")] = None,
    earlier: EarlierOption = Earlier.reference,
    sandbox: Annotated[
        bool,
        typer.Option("--require-sandbox/--allow-unsandboxed", help="Refuse where the sandbox does not hold."),
    ] = True,
) -> int:
    """Grade every submission of a folder, and go on where an earlier run stopped."""
    from grader.batch.command import Wishes, grade_batch

    wishes = Wishes(
        submissions, out, roster, jobs, stages, device, seed, earlier.value, sandbox, diff, shard, scheduler
    )
    return grade_batch(ROOT, load_course(ROOT), wishes)


@batch_app.command()
def merge(
    gradebooks: Annotated[list[Path], typer.Argument(help="The GRADES folders of the shards.")],
    out: Annotated[Path, typer.Option(help="Folder of the gradebook that takes them all.")],
) -> int:
    """Put the gradebooks of shards together."""
    from grader.batch.command import merge_batches

    return merge_batches(gradebooks, out)


@batch_app.command(name="similar")
def similar(
    submissions: Annotated[Path, typer.Argument(help="Folder of folders, zip or tar files.")],
    stages: Annotated[str, typer.Option(help="Only these, such as 1-4 or 1,3.")] = "",
    least: Annotated[
        float, typer.Option(min=0, max=1, help="List pairs from this share of own code on.")
    ] = 0.5,
    most: Annotated[int, typer.Option(min=0, help="List so many pairs.")] = 20,
    to: Annotated[Path | None, typer.Option(help="Write all pairs as CSV.", metavar="FILE")] = None,
) -> int:
    """List submissions that are alike beyond what was given: places to look, no verdict."""
    from grader.batch.command import find_similar

    return find_similar(ROOT, load_course(ROOT), submissions, stages, least, most, to)


@app.command()
def release(
    to: Annotated[Path, typer.Argument(metavar="DEST", help="The new folder of the class repository.")],
    stages: Annotated[str, typer.Option(help="Only these, such as 1-4 or 1,3.")] = "",
) -> int:
    """Cut the repository of a class: no solutions, no hidden checks; proves it before it is written."""
    from grader.release.command import release as cut

    return cut(ROOT, load_course(ROOT), to, stages)


@app.command()
def report(
    kind: Annotated[Kind, typer.Argument(help="What to make.")],
    sources: Annotated[list[Path], typer.Argument(help="A GRADES folder, or results of one submission.")],
    to: Annotated[Path | None, typer.Option(help="File or folder to write.", metavar="PATH")] = None,
    hidden: Annotated[Hidden, typer.Option(help="What learners are told of hidden checks.")] = Hidden.titles,
) -> int:
    """Make a report of a class or of one submission."""
    from grader.report.command import write_report

    return write_report(kind, sources, to, hidden)


@app.command()
def schema() -> int:
    """Print the JSON Schema of a result."""
    from grader.report.json import schema_text

    print(schema_text(), end="")
    return 0


def required(choice: bool | None) -> bool:
    """Whether the sandbox must hold: as chosen, else where this runs in continuous integration."""
    return choice if choice is not None else in_ci()


def drawn(seed: int | None) -> int:
    """The seed as chosen, else 0; in continuous integration one that nobody could know the answers of."""
    return seed if seed is not None else secrets.randbits(31) if in_ci() else 0


def in_ci() -> bool:
    """Whether this runs in continuous integration."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def engine(course: Course) -> Engine:
    """An engine with the zygote that was started early."""
    return Engine(ROOT, course, early.started())


def progress(plain: bool):  # type: ignore[no-untyped-def]
    """A line that moves in a terminal; nothing elsewhere."""
    from grader.driver import Silent
    from grader.report.progress import Progress

    return Silent() if plain else Progress(sys.stderr)


def following(course: Course, name: str) -> str:
    """The stage after this one, or ''."""
    names = [stage.name for stage in course.stages]
    after = names.index(name) + 1
    return names[after] if after < len(names) else ""


def show(result: StageResult, plain: bool, next_stage: str) -> None:
    """Prints the report."""
    if plain:
        from grader.report.plain import print_report

        print_report(result, sys.stdout, next_stage)
    else:
        from grader.report import terminal

        terminal.print_report(result, sys.stdout, next_stage=next_stage)


def write_json(path: Path, result: StageResult) -> None:
    """Writes the result, whole or not at all."""
    from grader.report.json import to_json

    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(to_json(result))
        partial.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}). Name another file: --json FILE."
        ) from None


def run(arguments: list[str]) -> int:
    """Runs a command; gives the exit code, after one line on stderr for whatever ended it early."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(arguments, standalone_mode=False)
        return int(code or 0)
    except typer.Exit as leave:
        return leave.exit_code
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except GraderFailed as error:
        print(f"The grader failed, not your submission: {error}. Please report it.", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except Exception as error:
        # typer's usage errors: of click in older releases, of its own copy of click in newer ones
        if callable(message := getattr(error, "format_message", None)):
            print(f"{str(message()).rstrip('.')}. Run `python -m grader --help`.", file=sys.stderr)
            return 2
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        print(
            f"The grader failed, not your submission: {type(error).__name__}: {error} ({place}). Please report it.",
            file=sys.stderr,
        )
        return 3
    finally:
        early.abandon()
