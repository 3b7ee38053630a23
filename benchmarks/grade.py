"""How long a verdict on stage 1 takes, as a multiple of `python -c "import torch"`.

Every command is a whole process, timed in turn with the others; the best of several rounds counts, so that
a busy machine does not decide. Exits with 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOLUTIONS = ["--submission", "solutions"]
IN_SHARED_ENVIRONMENT = Path(sys.prefix).is_relative_to(ROOT / ".nox")
NOX = [sys.executable, "-m", "nox", *([] if IN_SHARED_ENVIRONMENT else ["--no-venv"])]

IMPORT = "import torch"
COMMANDS = {
    IMPORT: [sys.executable, "-c", "import torch"],
    "python -m grader grade stage1": [sys.executable, "-m", "grader", "grade", "stage1", *SOLUTIONS],
    "nox -s stage1": [*NOX, "-s", "stage1", "--", *SOLUTIONS],
}
LIMITS = {"python -m grader grade stage1": 1.6, "nox -s stage1": 2.0}


def seconds(command: list[str]) -> float:
    """The wall-clock time of a process; raises `CalledProcessError` when it does not succeed."""
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print one line a command, and say whether every ratio is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each command is timed (default: 5)")
    parser.add_argument("--quick", action="store_true", help="two rounds")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds

    try:
        for command in COMMANDS.values():  # the first time fills caches and does not count
            seconds(command)
        timings = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, command in COMMANDS.items():
                timings[name].append(seconds(command))
    except subprocess.CalledProcessError as error:
        print(
            f"{' '.join(error.cmd)} ended with {error.returncode}:\n{error.stdout.decode(errors='replace')}"
        )
        print(error.stderr.decode(errors="replace"))
        return 1

    best = {name: min(times) for name, times in timings.items()}
    print(f"Best of {rounds} rounds, and as a multiple of `{IMPORT}`:")
    within = True
    for name, time_taken in best.items():
        line = f"  {name:<32} {time_taken:6.2f} s"
        if name in LIMITS:
            ratio = time_taken / best[IMPORT]
            line += f"   {ratio:.2f} (at most {LIMITS[name]})"
            if ratio > LIMITS[name]:
                within = False
                line += "  ABOVE ITS LIMIT"
        print(line)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
