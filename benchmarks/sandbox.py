"""What the sandbox costs: grading stage 1 with it, as a multiple of grading stage 1 without it.

Both are whole processes, timed in turn; the best of several rounds counts. Exits with 1 when the ratio is above its
limit, and says so where this machine offers no sandbox.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.10

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from grader.forked import ZygoteProcess
from grader.zygote import Settings
zygote = ZygoteProcess(Settings(without=frozenset({without!r})))
from grader.course import load_course
from grader.driver import Engine, Options
from grader.early import ROOT
course = load_course(ROOT)
with Engine(ROOT, course, zygote) as engine:
    result = engine.grade(course.stages[0], ROOT / "solutions", Options())
assert result.score == result.max_score
print(result.sandbox)
"""


def seconds(without: list[str]) -> tuple[float, str]:
    """The wall-clock time of one run, and what its report says of the sandbox."""
    program = PROGRAM.format(root=str(ROOT), without=without)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout.strip()


def main() -> int:
    """Measure and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: 5)")
    parser.add_argument("--quick", action="store_true", help="two rounds")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    seconds([])  # the first time fills caches and does not count
    with_it, without_it, said = [], [], ""
    for _ in range(rounds):
        taken, said = seconds([])
        with_it.append(taken)
        without_it.append(seconds(["landlock", "seccomp"])[0])
    ratio = min(with_it) / min(without_it)
    print(f"Sandbox: {said}")
    print(f"Best of {rounds} rounds of grading stage 1, whole process:")
    print(f"  without the sandbox {min(without_it):6.2f} s")
    print(f"  with the sandbox    {min(with_it):6.2f} s   {ratio:.2f} (at most {LIMIT:.2f})")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
