"""What runs on a worker of a cluster: a stage is graded in the clone that the worker was started in."""

from __future__ import annotations

import threading

import msgspec

from grader.batch.fingerprint import digest, environment_parts
from grader.conversation import MessageStream
from grader.course import load_course
from grader.driver import Engine, Options, in_this_process
from grader.early import ROOT
from grader.errors import GraderFailed
from grader.forked import ZygoteFailed, can_fork
from grader.job import Fault, Job, Message

CHECKS = "checks of the stage"


class Answer(msgspec.Struct, frozen=True):
    """What a worker sends back."""

    messages: list[Message] = []
    differences: dict[str, tuple[str, str]] = {}
    """What is other there, and was not graded for that reason: wanted and found, by what it is."""


class Kept(threading.local):
    """The engine of one thread of a worker: its zygote stays warm from stage to stage."""

    engine: Engine | None = None


kept = Kept()


def grade(job: bytes, wanted: dict[str, str]) -> bytes:
    """An encoded Job's Answer, encoded, where this clone and its packages are the ones that are `wanted`."""
    asked = msgspec.json.decode(job, type=Job)
    found = surroundings(asked)
    differences = {name: (value, found[name]) for name, value in wanted.items() if found.get(name) != value}
    if differences:
        return msgspec.json.encode(Answer(differences=differences))
    checks = ROOT / "stages" / asked.folder / "checks"
    return msgspec.json.encode(Answer(graded(msgspec.structs.replace(asked, checks=str(checks)))))


def surroundings(job: Job) -> dict[str, str]:
    """What a result depends on besides the job, in words: the same wherever it is graded."""
    options = Options(job.device, job.seed, job.earlier, require_sandbox=job.require_sandbox)
    checks = ROOT / "stages" / job.folder / "checks"
    files = sorted(path for path in checks.glob("*") if path.suffix in (".py", ".toml"))
    texts = (part for path in files for part in (path.name, path.read_text("utf-8")))
    return environment_parts(options) | {CHECKS: digest(*texts)[:12]}


def graded(job: Job) -> list[Message]:
    """What a judge reports. One that fails ends with a Fault; what it reported before counts."""
    messages: list[Message] = []
    if kept.engine is None:
        kept.engine = Engine(ROOT, load_course(ROOT))
    try:
        if not can_fork():
            return in_this_process(job, False)
        for message in MessageStream(kept.engine.zygote(job.device), job):
            messages.append(message)
    except (GraderFailed, ZygoteFailed) as error:
        kept.engine.close()
        messages.append(Fault(str(error)))
    return messages
