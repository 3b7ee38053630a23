"""The judge: runs the checks of one job with pytest and reports every result as it is known."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from grader.job import CheckDone, Deselected, Fault, Finished, Job, Message, PassedSoFar, Refused
from grader.links import Workers
from grader.result import CheckResult
from grader.sandbox.hold import LOWEST_LANDLOCK, exposed
from grader.wire import encode_header, pack, receive

job_decoder = msgspec.json.Decoder(Job)


def judge(job: Job, workers: Workers, report: Callable[[Message], None]) -> None:
    """Runs a job to its end. Every declared check is reported once, or as deselected."""
    refusal = device_refusal(job.device)
    refusal = refusal or (sandbox_refusal(job, workers) if job.require_sandbox else "")
    if refusal:
        report(Refused(refusal))
        return
    # pytest is imported here, in the judge: workers never have it in memory.
    import pytest

    from grader.collect import CheckPlugin, Grading
    from grader.runner import Runner

    runner = Runner(job, workers)
    left_out: set[str] = set()

    held: list[CheckResult] = []

    def finished(result: CheckResult) -> None:
        if runner.is_held(result):
            held.append(result)
            report(PassedSoFar(result))
        else:
            report(CheckDone(result))

    def deselected(ids: list[str]) -> None:
        left_out.update(ids)
        report(Deselected(ids))

    chosen = [one for one in job.declared if job.only is None or one.id in job.only]
    grading = Grading(runner, chosen, finished)
    checks = Path(job.checks)
    code = pytest.main(
        pytest_arguments(checks, job.selection),
        plugins=[CheckPlugin(checks, grading, deselected)],
    )
    for result in runner.settled(held):
        report(CheckDone(result))
    if code == pytest.ExitCode.USAGE_ERROR:
        report(Refused(f"-k {job.selection!r} is not an expression: use words with and, or, not."))
        return
    for declared in chosen:
        if declared.id not in grading.reported and declared.id not in left_out:
            finished(runner.fault(declared, "the check was not run"))
    report(Finished(versions(), sandbox_text(job, workers)))


NOT_NEEDED = (
    "cacheprovider", "terminal", "logging", "warnings", "doctest", "unittest", "junitxml", "pastebin", "stepwise",
    "setuponly", "setupplan", "faulthandler", "threadexception", "unraisableexception", "legacypath", "recwarn",
    "monkeypatch", "tmpdir", "subtests", "skipping",
)  # fmt: skip
"""Plugins of pytest that checks do not use. Some cost more than all checks: one collects garbage over all of torch."""


def pytest_arguments(checks: Path, selection: str) -> list[str]:
    """Only our items: no configuration, no conftest, no output of pytest's own."""
    arguments = [
        "-c",
        os.devnull,
        "--rootdir",
        str(checks),
        "--noconftest",
        "--assert",
        "plain",
        "--capture",
        "no",
    ]
    for plugin in NOT_NEEDED:
        arguments += ["-p", f"no:{plugin}"]
    if selection:
        arguments += ["-k", selection]
    return [*arguments, str(checks)]


def device_refusal(device: str) -> str:
    """Why a device cannot be used here, and what to do; '' when it can."""
    import torch

    kind = device.partition(":")[0]
    if kind == "cpu":
        return ""
    if kind == "cuda":
        if not torch.cuda.is_available():
            built = "" if torch.version.cuda else " (this torch is built without CUDA)"
            return f"There is no CUDA device here{built}. Use --device cpu, or nox --no-venv with your own CUDA build."
        return ""
    if kind == "mps":
        return "" if torch.backends.mps.is_available() else "There is no MPS device here. Use --device cpu."
    return f"There is no device {device!r}. Use cpu, cuda or mps."


def sandbox_refusal(job: Job, workers: Workers) -> str:
    """Why strangers' code should not be graded here, and what to do; '' when it may be."""
    held = workers.held()
    root = exposed(Path(job.checks))
    if held.landlock >= LOWEST_LANDLOCK and held.seccomp and root is None:
        return ""
    return (
        f"The sandbox does not hold here: {sandbox_text(job, workers)}. Grade inside a container, "
        "or pass --allow-unsandboxed if you trust the submission (docs/security.md)."
    )


def sandbox_text(job: Job, workers: Workers) -> str:
    """What holds, for the report."""
    held = workers.held()
    root = exposed(Path(job.checks))
    if held.landlock and root is not None:
        return (
            f"partial: the course lies in {root}, which Python's libraries need readable; clone it elsewhere"
        )
    return held.describe()


def versions() -> dict[str, str]:
    """What a result depends on."""
    import platform

    import torch

    import grader

    return {
        "grader": grader.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def judge_process(channel: socket.socket, control: socket.socket) -> None:
    """A judge forked from the zygote: takes a job from the driver, reports, ends."""
    from grader.forked import PACKAGE_PARENT, Control, ForkedWorkers

    def report(message: Message) -> None:
        channel.sendall(pack(encode_header(message)))

    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        header, _ = receive(channel)
        job = job_decoder.decode(header)
        sys.path.insert(0, PACKAGE_PARENT)  # the checks import grader
        workers = ForkedWorkers(Control(control))
        judge(job, workers, report)
        workers.close()
    except BaseException as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        report(Fault(f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno})"))
    finally:
        channel.close()
        os._exit(0)
