"""The list of a class as a CSV file: which submission is whose."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from grader.errors import UsageError
from grader.gradebook import Learner

COLUMNS = {
    "submission": ("submission", "folder", "repository", "repo", "roster identifier"),
    "name": ("name", "student", "student name", "full name", "learner"),
    "id": ("id", "student id", "sid", "student number", "id number", "matriculation"),
    "login": ("login", "sis login id", "username", "user name", "github username", "github_username"),
    "email": ("email", "email address", "e-mail", "mail"),
    "section": ("section", "sections", "group"),
    "sis_id": ("sis user id", "sis id", "integration id"),
    "first": ("first name", "first", "given name"),
    "last": ("last name", "last", "surname", "family name"),
}
"""What the columns are called in the lists of Canvas, Gradescope, Moodle and GitHub Classroom, and by hand."""

LARGEST = 8 << 20


def read_roster(path: Path) -> list[Learner]:
    """The learners in the order of the file; `submission` is '' where the file has no such column.

    Raises UsageError with the line that is wrong.
    """
    rows = read_rows(path)
    header = [cell.strip().casefold() for cell in rows[0]]
    where = {
        field: header.index(one) for field, known in COLUMNS.items() for one in known[::-1] if one in header
    }
    if not {"submission", "name", "id", "login", "email", "last"} & set(where):
        raise UsageError(
            f"{path}: no column is called submission, name, id, login or email. Its first line must name the columns."
        )
    learners: list[Learner] = []
    for row in rows[1:]:
        cells = {field: row[index].strip() if index < len(row) else "" for field, index in where.items()}
        if not any(cells.values()) or cells.get("name", "").casefold() in (
            "points possible",
            "student, test",
        ):
            continue
        full = " ".join(filter(None, (cells.pop("first", ""), cells.pop("last", ""))))
        cells["name"] = cells.get("name") or full
        learners.append(Learner(**{"submission": "", **cells}))
    if not learners:
        raise UsageError(f"{path} lists nobody. Add a line for each learner.")
    check_doubles(path, learners)
    return learners


def read_rows(path: Path) -> list[list[str]]:
    """The lines of a CSV file, separated by commas, semicolons or tabs as its first line is."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}). Name a CSV file: --roster FILE."
        ) from None
    if len(data) > LARGEST:
        raise UsageError(f"{path} has {len(data):,} bytes; a roster may have {LARGEST:,}.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path} is not UTF-8: byte {error.start} does not fit. Save it as UTF-8."
            ) from None
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator, strict=True) if row]
    except csv.Error as error:
        raise UsageError(f"{path} is not a CSV file: {error}. Save it as CSV again.") from None
    if not rows:
        raise UsageError(f"{path} is empty. Its first line must name the columns.")
    return rows


def check_doubles(path: Path, learners: list[Learner]) -> None:
    """No two learners may be told apart by nothing."""
    for field in ("submission", "id", "login", "email"):
        seen: set[str] = set()
        for learner in learners:
            value = getattr(learner, field).casefold()
            if value and value in seen:
                raise UsageError(f"{path} lists the {field} {value!r} twice. Correct one of the lines.")
            seen.add(value)


def match(names: list[str], roster: list[Learner]) -> tuple[dict[str, Learner], list[Learner]]:
    """Whose each submission is, and the learners who handed in nothing.

    A submission is a learner's when its name is one of theirs in full, or holds their id or login between underscores,
    as in the downloads of Canvas and Moodle. What fits two learners fits none.
    """
    full: dict[str, list[Learner]] = {}
    part: dict[str, list[Learner]] = {}
    for learner in roster:
        keys = {learner.submission, learner.name, learner.id, learner.login, learner.email, learner.sis_id}
        keys |= {learner.email.partition("@")[0]}
        for whole in {plain(key) for key in keys if key}:
            full.setdefault(whole, []).append(learner)
        for key in {plain(key) for key in (learner.id, learner.login, learner.sis_id, learner.name) if key}:
            part.setdefault(key, []).append(learner)
    matched: dict[str, Learner] = {}
    taken: set[int] = set()
    for name in names:
        fitting = full.get(plain(name), [])
        if not fitting:
            parts = {plain(piece) for piece in name.split("_")}
            fitting = [learner for piece in parts for learner in part.get(piece, [])]
        owners = {id(learner): learner for learner in fitting if id(learner) not in taken}
        if len(owners) == 1:
            ((number, owner),) = owners.items()
            taken.add(number)
            matched[name] = with_submission(owner, name)
    return matched, [with_submission(one, expected_name(one)) for one in roster if id(one) not in taken]


def plain(text: str) -> str:
    """A name as it is compared: no case, no white space, no punctuation."""
    return re.sub(r"[\W_]+", "", text.casefold())


def expected_name(learner: Learner) -> str:
    """What the missing submission of a learner is called in the gradebook."""
    return learner.submission or learner.login or learner.id or learner.email or learner.name


def with_submission(learner: Learner, name: str) -> Learner:
    """The learner as the owner of a submission."""
    return Learner(
        name, learner.name, learner.id, learner.login, learner.email, learner.section, learner.sis_id
    )
