"""What the documents say can be done, can be done: commands, links, and the message that the README shows."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from bank import ROOT, STAGES, lay_submission

from grader.cli import app

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "stages").glob("*/README.md")),
    *sorted((ROOT / "stages").glob("*/gym/README.md")),
    ROOT / "data" / "README.md",
]
EXTERNAL = ("git clone ", "cd ", "docker ", "python -m pip install ")
COMMANDS = {"grade", "demo", "course", "watch", "hint", "reset", "batch", "report"}
QUICK = {"nox -l", "python -m grader schema"}
PLAIN = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(path: Path, *languages: str) -> list[str]:
    return [
        text for language, text in FENCE.findall(path.read_text(encoding="utf-8")) if language in languages
    ]


def commands_of(path: Path) -> list[str]:
    """The commands in a document's console blocks, one by one, without comments and environment variables."""
    shell = [block.replace("\\\n", " ") for block in blocks(path, "console", "bash", "sh")]
    lines = [line for block in shell for line in block.splitlines()]
    lines += [
        line
        for block in blocks(path, "")
        for line in block.splitlines()
        if re.match(r"nox |python -m ", line)
    ]
    parts = [part.strip() for line in lines for part in re.sub(r"(^|\s)#.*", "", line).split("&&")]
    return [re.sub(r"^([A-Z_]+=\S* )+", "", part) for part in parts if part]


def all_commands() -> list[str]:
    return sorted({command for path in DOCUMENTS for command in commands_of(path)})


@pytest.fixture(scope="module")
def sessions() -> set[str]:
    """The nox sessions there are."""
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "--list"],
        cwd=ROOT,
        env=PLAIN,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^[*-] (\S+)", listed.stdout, re.MULTILINE))


def options_of(command: str) -> set[str]:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert command in known, f"python -m grader has no command {command!r}"
    inner = getattr(known[command], "commands", {}).values()  # of a group, such as batch
    parameters = [parameter for each in (known[command], *inner) for parameter in each.params]
    return {option for parameter in parameters for option in [*parameter.opts, *parameter.secondary_opts]}


def check_options(command: str, words: list[str]) -> None:
    unknown = {word for word in words if word.startswith("-")} - options_of(command)
    assert not unknown, f"{command} has no option {unknown}"


def grader_command(session: str) -> str:
    return re.sub(r"^stage\d+$", "grade", re.sub(r"^demo\d+$", "demo", session))


@pytest.mark.parametrize("command", all_commands())
def test_every_command_shown_is_known(command: str, sessions: set[str]) -> None:
    if command.startswith(EXTERNAL) or command in QUICK:
        return
    words, _, passed_on = (list(part) for part in partition(command.split(), "--"))
    if words[0] == "nox":
        named = words[words.index("-s") + 1 :]
        assert set(words[1 : words.index("-s")]) <= {"--no-venv"}
        assert named
        assert set(named) <= sessions
        if grader_command(named[0]) in COMMANDS:
            check_options(grader_command(named[0]), passed_on)
    elif words[:3] == ["python", "-m", "grader"]:
        check_options(words[3], words[4:])
    elif words[0] == "pytest":
        assert (ROOT / words[1]).exists()
    elif words[:2] == ["python", "-m"]:
        own = (ROOT / words[2].replace(".", "/")).with_suffix(".py").exists()
        assert own or importlib.util.find_spec(words[2])
    else:
        pytest.fail(f"`{command}` is not a command that this test knows")


def partition(words: list[str], separator: str) -> tuple[list[str], list[str], list[str]]:
    position = words.index(separator) if separator in words else len(words)
    return words[:position], words[position : position + 1], words[position + 1 :]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_sessions_named_in_the_text_exist(path: Path, sessions: set[str]) -> None:
    named = re.findall(r"nox (?:--no-venv )?-s ([a-z]+\d*)\b", path.read_text(encoding="utf-8"))
    assert set(named) <= sessions


@pytest.mark.parametrize("command", sorted(QUICK))
def test_quick_commands_run(command: str) -> None:
    words = command.removeprefix("python ").removeprefix("-m ").split()
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=PLAIN,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = [target for target in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_readme_begins_with_the_two_commands() -> None:
    first, second = commands_of(ROOT / "README.md")[:2], commands_of(ROOT / "README.md")[2]
    assert first == ["python -m pip install nox", "nox -s course"]
    assert second == "nox -s tests"


def test_the_readme_lists_every_stage() -> None:
    listed = re.findall(
        r"^\| (\d+) \|.*\[(.+?)\]\(stages/(\w+)/README.md\) \|$", read("README.md"), re.MULTILINE
    )
    assert listed == [(stage.name.removeprefix("stage"), stage.title, stage.folder) for stage in STAGES]


def test_the_readme_shows_a_true_message(tmp_path: Path) -> None:
    source = read("solutions/stage1_attention/attention.py")
    assert source.count(" / math.sqrt(d_k)") == 1
    submission = lay_submission(
        tmp_path, STAGES[0], {"attention.py": source.replace(" / math.sqrt(d_k)", "")}
    )
    done = subprocess.run(
        [sys.executable, "-m", "grader", "grade", "stage1", "--submission", str(submission)],
        cwd=ROOT,
        env=PLAIN,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    (shown,) = (block for block in blocks(ROOT / "README.md", "text") if "sqrt(d_k)" in block)
    assert shown.strip() in done.stdout


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
