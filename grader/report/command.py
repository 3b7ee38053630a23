"""What `python -m grader report` does: makes a report of a class or of one submission, and puts it where it belongs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from grader.errors import UsageError
from grader.gradebook import Book, Entry, opened
from grader.report import canvas, csv, feedback, github, gradescope, jsonl, junit
from grader.report.kinds import Hidden, Kind
from grader.report.story import count
from grader.report.visible import in_encoding, without_commands
from grader.report.withheld import for_learner

UNSAFE = re.compile(r"[^\w.@+-]+|^[.-]")
LONGEST_NAME = 80
FAULT = (
    "The grader failed at {name}: no {what} was written, so that nobody takes it for a grade. Grade it again."
)


def write_report(kind: Kind, sources: list[Path], to: Path | None, hidden: Hidden) -> int:
    """Makes a report; gives the exit code, 3 where a fault of ours left something out."""
    with opened(sources) as book:
        if kind is Kind.gradescope:
            return each(book, to, hidden, "results.json", gradescope.render, skip_faults=True)
        if kind is Kind.feedback:
            return each(book, to, hidden, "feedback.md", feedback.render, skip_faults=False)
        if kind is Kind.github:
            return for_github(only_entry(book), to, hidden)
        if kind is Kind.html:
            return class_page(book, to, hidden)
        entries = (
            (for_learner(entry, hidden) for entry in book.entries) if kind is Kind.junit else book.entries
        )
        pieces = {
            Kind.junit: lambda: junit.render(entries),
            Kind.csv: lambda: csv.render(entries, list(book.stages)),
            Kind.canvas: lambda: canvas.render(entries, book.stages),
            Kind.jsonl: lambda: jsonl.render(entries),
        }[kind]()
        write(pieces, to)
    return 0


def each(
    book: Book, to: Path | None, hidden: Hidden, what: str, render: Callable[[Entry], str], skip_faults: bool
) -> int:
    """A file for each submission of a class, in a folder; for one submission the file itself."""
    code = 0
    used: set[str] = set()
    if book.is_class and to is None:
        raise UsageError("Name the folder to write: --to FOLDER.")
    written = 0
    for entry in book.entries:
        if skip_faults and entry.state == "grader error":
            print(FAULT.format(name=entry.learner.submission, what=what), file=sys.stderr)
            code = 3
            continue
        text = render(for_learner(entry, hidden))
        if not book.is_class or to is None:
            write([text], to)
            continue
        name = file_name(entry.learner.submission, used)
        write([text], to / name / what if what == "results.json" else to / f"{name}.md")
        written += 1
    if book.is_class:
        print(f"{count(written, 'file')} in {to}.")
    return code


def for_github(entry: Entry, to: Path | None, hidden: Hidden) -> int:
    """Prints the annotations; the summary goes to a file, in a workflow to the one that GitHub names."""
    shown = for_learner(entry, hidden)
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    if to is not None:
        write([github.summary(shown)], to)
    elif named:
        with open(named, "a", encoding="utf-8") as file:
            file.write(github.summary(shown))
    print(github.workflow_commands(shown), end="")
    return 3 if entry.state == "grader error" else 0


def class_page(book: Book, to: Path | None, hidden: Hidden) -> int:
    """One page for the whole class. It is never printed: a log would change it, and it is full of names."""
    from grader.report.html import page

    if to is None:
        raise UsageError("Name the file to write: --to class.html.")
    write(page.render(book, hidden), to)
    print(f"{to}: open it in a browser. It is for you, not for learners: it has everybody's points.")
    return 0


def only_entry(book: Book) -> Entry:
    """The entry of a book that has just one."""
    entries = list(zip(book.entries, range(2)))
    if len(entries) != 1:
        raise UsageError("A report for GitHub is of one submission. Name what `grade --json` wrote for it.")
    return entries[0][0]


def file_name(submission: str, used: set[str]) -> str:
    """A file name for a submission: no separators, nothing hidden, no two alike."""
    plain = UNSAFE.sub("_", submission)[:LONGEST_NAME] or "_"
    name, number = plain, 1
    while name.casefold() in used:
        number += 1
        name = f"{plain}-{number}"
    used.add(name.casefold())
    return name


def write(pieces: Iterable[str], to: Path | None) -> None:
    """Writes text to a file, whole or not at all, or to standard output."""
    if to is None:
        encoding = sys.stdout.encoding or "ascii"
        for piece in pieces:
            sys.stdout.write(in_encoding(without_commands(piece), encoding))
        return
    with whole_file(to) as file:
        for piece in pieces:
            file.write(piece)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A file to write that takes its name only when it is complete; raises UsageError when it cannot be written."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, "w", encoding="utf-8", newline="") as file:
                yield file
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}). Name another: --to PATH.") from None
