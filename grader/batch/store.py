"""The gradebook on disk, `grades.sqlite`: every finished check is a row, committed before the next result is read.

A check's row is keyed by everything that its result depends on, so a row is right whoever wrote it and whenever. What
counts for a learner is published apart from that: a grade is a list of rows.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from grader.batch.fingerprint import Fingerprint
from grader.errors import UsageError
from grader.gradebook import Entry, Grade, Learner, State
from grader.result import CheckResult, StageResult

FILE = "grades.sqlite"
VERSION = 1

TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

-- what results depend on besides the submission and the checks: versions, device, seed
CREATE TABLE IF NOT EXISTS environments (hash TEXT PRIMARY KEY, parts TEXT NOT NULL);

-- every check that was ever finished; result is the CheckResult as JSON
CREATE TABLE IF NOT EXISTS checks (
    key TEXT PRIMARY KEY,
    submission_hash TEXT NOT NULL, check_hash TEXT NOT NULL, environment TEXT NOT NULL,
    stage TEXT NOT NULL, check_id TEXT NOT NULL, exercise TEXT NOT NULL,
    status TEXT NOT NULL, points REAL NOT NULL, max_points REAL NOT NULL, hidden INTEGER NOT NULL,
    mistake TEXT, seconds REAL NOT NULL, finished REAL NOT NULL, result TEXT NOT NULL
) WITHOUT ROWID;

-- what was handed in, and whose it is
CREATE TABLE IF NOT EXISTS submissions (
    submission TEXT PRIMARY KEY, name TEXT NOT NULL, id TEXT NOT NULL, login TEXT NOT NULL,
    email TEXT NOT NULL, section TEXT NOT NULL, sis_id TEXT NOT NULL
);

-- what counts; result is the StageResult as JSON, without its checks
CREATE TABLE IF NOT EXISTS grades (
    submission TEXT NOT NULL, stage TEXT NOT NULL, position INTEGER NOT NULL, title TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, score REAL, max_score REAL NOT NULL, result TEXT,
    published REAL NOT NULL,
    PRIMARY KEY (submission, stage)
);
CREATE TABLE IF NOT EXISTS grade_checks (
    submission TEXT NOT NULL, stage TEXT NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (submission, stage, position)
) WITHOUT ROWID;

-- the checks that count, for statistics over a class
CREATE VIEW IF NOT EXISTS published_checks AS
SELECT g.submission, g.stage, c.check_id, c.exercise, c.status, c.points, c.max_points, c.hidden, c.mistake, c.seconds
FROM grade_checks g JOIN checks c ON c.key = g.key;
"""

WINS = """NOT EXISTS (
    SELECT 1 FROM main.grades g WHERE g.submission = o.submission AND g.stage = o.stage
    AND g.state = 'graded' AND o.state != 'graded')"""
TAKE_OVER = (
    "INSERT OR IGNORE INTO main.meta SELECT * FROM other.meta WHERE name != 'work'",
    "INSERT OR IGNORE INTO main.environments SELECT * FROM other.environments",
    "INSERT OR REPLACE INTO main.checks SELECT * FROM other.checks o WHERE o.status != 'grader_error' "
    "OR o.key NOT IN (SELECT key FROM main.checks)",
    "INSERT OR REPLACE INTO main.submissions SELECT * FROM other.submissions",
    "DELETE FROM main.grade_checks WHERE (submission, stage) IN "
    f"(SELECT submission, stage FROM other.grades o WHERE {WINS})",
    "INSERT INTO main.grade_checks SELECT c.* FROM other.grade_checks c JOIN other.grades o "
    f"ON o.submission = c.submission AND o.stage = c.stage WHERE {WINS}",
    f"INSERT OR REPLACE INTO main.grades SELECT * FROM other.grades o WHERE {WINS}",
)
"""How another gradebook, attached as `other`, is copied into this one, in this order."""


class Row(msgspec.Struct, frozen=True):
    """A check of a grade, as far as two grades are compared by it."""

    check_id: str
    status: str
    points: float
    submission_hash: str
    check_hash: str
    environment: str


class Store:
    """An open gradebook. Only the holder of the lock writes; others may read at the same time."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection

    @classmethod
    @contextmanager
    def writing(cls, folder: Path) -> Iterator[Store]:
        """Opens or makes the gradebook of a folder; raises UsageError when that cannot be."""
        with answering(folder):
            connection = sqlite3.connect(
                f"{(folder / FILE).absolute().as_uri()}", uri=True, isolation_level=None, timeout=30
            )
            connection.execute("PRAGMA journal_mode = WAL")
            # A killed process loses nothing so; a power cut may cost the last rows, which are then graded again.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(TABLES)
        store = cls(folder, connection)
        store._check_version()
        try:
            yield store
        finally:
            connection.close()

    @classmethod
    @contextmanager
    def reading(cls, folder: Path) -> Iterator[Store]:
        """Opens the gradebook of a folder; raises UsageError when there is none."""
        path = folder / FILE
        if not path.is_file():
            raise UsageError(
                f"{folder} holds no {FILE}. Name the folder that `python -m grader batch ... --out` was given."
            )
        with answering(folder):
            # Who may write the folder takes the two files along that a log ahead of the gradebook needs.
            mode = "rw" if os.access(folder, os.W_OK) and os.access(path, os.W_OK) else "ro"
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=30
            )
            connection.execute("PRAGMA query_only = ON")
        store = cls(folder, connection)
        try:
            with answering(folder):
                store._check_version()
                yield store
        finally:
            connection.close()

    def _check_version(self) -> None:
        with answering(self.folder):
            found = self.meta("version")
        if found and found != str(VERSION):
            raise UsageError(
                f"{self.folder / FILE} was written by another release (its version is {found}, this one's {VERSION}). "
                "Choose a new folder: --out GRADES."
            )

    # What holds for the whole gradebook -------------------------------------------------------------------------

    def meta(self, name: str) -> str:
        """A remark of the gradebook, or ''."""
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set_meta(self, name: str, value: str) -> None:
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def metas(self) -> dict[str, str]:
        return dict(self._connection.execute("SELECT name, value FROM meta ORDER BY name"))

    def add_environment(self, hash: str, parts: dict[str, str]) -> None:
        self._write(
            "INSERT OR REPLACE INTO environments VALUES (?, ?)", (hash, msgspec.json.encode(parts).decode())
        )

    def environment(self, hash: str) -> dict[str, str]:
        """What an environment is made of; empty when it is not known."""
        row = self._connection.execute("SELECT parts FROM environments WHERE hash = ?", (hash,)).fetchone()
        return msgspec.json.decode(row[0], type=dict[str, str]) if row else {}

    # Finished checks --------------------------------------------------------------------------------------------

    def add_check(self, key: str, of: Fingerprint, result: CheckResult) -> None:
        """A finished check, on disk when this returns. One that the grader failed at is tried again next time."""
        diagnosis = result.diagnosis.code if result.diagnosis else None
        self._write(
            "INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key, of.submission, of.check, of.environment, result.id.partition("/")[0], result.id,
                result.exercise, result.status, result.points, result.max_points, result.hidden, diagnosis,
                result.seconds, time.time(), as_text(result),
            ),
        )  # fmt: skip

    def known(self, keys: Iterable[str]) -> dict[str, CheckResult]:
        """Of these keys those that are finished, and their results."""
        found = {}
        for key in keys:
            row = self._connection.execute(
                "SELECT result FROM checks WHERE key = ? AND status != 'grader_error'", (key,)
            ).fetchone()
            if row:
                found[key] = msgspec.json.decode(row[0], type=CheckResult)
        return found

    # What counts ------------------------------------------------------------------------------------------------

    def add_learner(self, learner: Learner) -> None:
        """Whose a submission is; what a later roster says replaces it."""
        self._write(
            "INSERT OR REPLACE INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                learner.submission, learner.name, learner.id, learner.login, learner.email,
                learner.section, learner.sis_id,
            ),
        )  # fmt: skip

    def publish(self, submission: str, position: int, grade: Grade, keys: list[str]) -> None:
        """What a stage of a submission now counts; `position` is the stage's in the course."""
        result = None
        if grade.result is not None:
            result = as_text(msgspec.structs.replace(grade.result, checks=[]))
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO grades VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    submission, grade.stage, position, grade.title, grade.state, grade.reason, grade.score,
                    grade.max_score, result, time.time(),
                ),
            )  # fmt: skip
            connection.execute(
                "DELETE FROM grade_checks WHERE submission = ? AND stage = ?", (submission, grade.stage)
            )
            connection.executemany(
                "INSERT INTO grade_checks VALUES (?, ?, ?, ?)",
                [(submission, grade.stage, index, key) for index, key in enumerate(keys)],
            )

    def published(self, submission: str, stage: str) -> tuple[Grade, list[str]] | None:
        """What a stage counts so far, without its checks, and the keys of these."""
        row = self._connection.execute(
            "SELECT title, state, reason, max_score, result FROM grades WHERE submission = ? AND stage = ?",
            (submission, stage),
        ).fetchone()
        if row is None:
            return None
        return grade_of_row((stage, *row)), self.published_keys(submission, stage)

    def published_keys(self, submission: str, stage: str) -> list[str]:
        """The keys of the checks that count for a stage of a submission, in order."""
        rows = self._connection.execute(
            "SELECT key FROM grade_checks WHERE submission = ? AND stage = ? ORDER BY position",
            (submission, stage),
        )
        return [key for (key,) in rows]

    def rows(self, keys: Iterable[str]) -> dict[str, Row]:
        """What is compared of some checks, by the check's id."""
        found = {}
        for key in keys:
            row = self._connection.execute(
                "SELECT check_id, status, points, submission_hash, check_hash, environment FROM checks WHERE key = ?",
                (key,),
            ).fetchone()
            if row:
                found[row[0]] = Row(*row)
        return found

    def submissions(self) -> list[str]:
        """What everything that was handed in is called, in order."""
        return [name for (name,) in self._connection.execute("SELECT submission FROM submissions ORDER BY 1")]

    def stages(self) -> dict[str, tuple[str, float]]:
        """Title and points of the stages that anything counts for, in the order of the course."""
        rows = self._connection.execute(
            "SELECT stage, title, MAX(max_score) FROM grades GROUP BY stage ORDER BY MIN(position)"
        )
        return {stage: (title, max_score) for stage, title, max_score in rows}

    def reasons(self) -> dict[str, list[str]]:
        """Why stages are not graded, each reason once, by submission."""
        found: dict[str, list[str]] = {}
        for name, reason in self._connection.execute(
            "SELECT submission, reason FROM grades WHERE reason != '' ORDER BY submission, position"
        ):
            if reason not in found.setdefault(name, []):
                found[name].append(reason)
        return found

    def entries(self) -> Iterator[Entry]:
        """The class, one submission after the other, by name."""
        for name in self.submissions():
            yield self.entry(name)

    def entry(self, submission: str) -> Entry:
        """One submission with all that counts for it."""
        columns = "submission, name, id, login, email, section, sis_id"
        row = self._connection.execute(
            f"SELECT {columns} FROM submissions WHERE submission = ?", (submission,)
        ).fetchone()
        grades = [
            self._with_checks(submission, grade_of_row(row))
            for row in self._connection.execute(
                "SELECT stage, title, state, reason, max_score, result FROM grades "
                "WHERE submission = ? ORDER BY position",
                (submission,),
            ).fetchall()
        ]
        return Entry(Learner(*row), grades)

    def _with_checks(self, submission: str, grade: Grade) -> Grade:
        if grade.result is not None:
            rows = self._connection.execute(
                "SELECT c.result FROM grade_checks g JOIN checks c ON c.key = g.key "
                "WHERE g.submission = ? AND g.stage = ? ORDER BY g.position",
                (submission, grade.stage),
            )
            grade.result.checks = [msgspec.json.decode(text, type=CheckResult) for (text,) in rows]
        return grade

    def take_over(self, folder: Path) -> None:
        """Copies all of another gradebook into this one; a graded stage is not replaced by one that is not."""
        with answering(folder):
            self._connection.execute("ATTACH ? AS other", (f"{(folder / FILE).absolute().as_uri()}?mode=rw",))
        try:
            with self._transaction() as connection:
                for statement in TAKE_OVER:
                    connection.execute(statement)
        finally:
            self._connection.execute("DETACH other")

    # Writing ----------------------------------------------------------------------------------------------------

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with answering(self.folder):
            self._connection.execute(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with answering(self.folder):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def answering(folder: Path) -> Iterator[None]:
    """Says in one line what hinders the gradebook: a full disk, a damaged file, missing permissions."""
    try:
        yield
    except sqlite3.Error as error:
        raise UsageError(
            f"{folder / FILE} cannot be used ({error}). Make room on the disk or check the file, and run the same "
            "command again: every check that was finished is kept."
        ) from None


def grade_of_row(row: tuple[str, str, State, str, float, str | None]) -> Grade:
    """A grade without its checks."""
    stage, title, state, reason, max_score, text = row
    result = msgspec.json.decode(text, type=StageResult) if text else None
    return Grade(stage, title, state, max_score, reason, result)


def as_text(value: CheckResult | StageResult) -> str:
    """JSON; half characters, which UTF-8 cannot carry, are written as escapes."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        from grader.report.json import without_surrogates

        return msgspec.json.encode(without_surrogates(msgspec.to_builtins(value))).decode()
