"""The debugging gym: `nox -s gym`, or `python -m stages.stage6_training.gym` on your own layers."""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .cases import CASES, Case, is_right

WIDTH = 100


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="nox -s gym --", description="Eight runs that went wrong. What is wrong with them?"
    )
    parser.add_argument("case", nargs="?", help=f"1 to {len(CASES)}, or memory; nothing lists the cases")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--answer", metavar="ANSWER", help="its number, or your own words")
    group.add_argument("--solution", action="store_true", help="explain the case at once")
    parser.add_argument("--out", type=Path, default=Path("out/gym"), metavar="DIR", help="where pictures go")
    options = parser.parse_args(argv)
    if options.case is None:
        if options.answer is not None or options.solution:
            parser.error("name the case too, for example: 3 --solution")
        return list_cases()
    if options.case == "memory":
        from .memory import show_memory

        return show_memory()
    if not (options.case.isdigit() and 1 <= int(options.case) <= len(CASES)):
        parser.error(f"there is no case {options.case!r}: choose 1 to {len(CASES)}, or memory")
    number = int(options.case)
    case = CASES[number - 1]
    if options.solution:
        return explain(case)
    if options.answer is not None:
        try:
            right = is_right(case, options.answer)
        except ValueError as error:
            parser.error(str(error))
        return judge(number, case, right)
    return show(number, case, options.out)


def list_cases() -> int:
    say("Eight runs that went wrong. Each shows what you would see; you say what it is.")
    print()
    for number, case in enumerate(CASES, 1):
        print(f"  {number}  {case.title}")
    print()
    print("Look at one:               nox -s gym -- 3")
    print("Say what it is:            nox -s gym -- 3 --answer 2    (or in words)")
    print("See why at once:           nox -s gym -- 3 --solution")
    print("What does memory cost?     nox -s gym -- memory")
    return 0


def show(number: int, case: Case, out: Path) -> int:
    """Run a case in both forms, and show all there is to see."""
    from .pictures import draw  # matplotlib is loaded only where something is drawn

    print(f"Case {number}: {case.title}")
    print()
    say(case.story)
    print("\nBoth runs are being trained, which takes some seconds ...\n", flush=True)
    healthy, broken = case.run(False), case.run(True)
    widest = max(len(name) for name in broken.numbers)
    print(f"{'':{widest}}  healthy   broken")
    for name, value in broken.numbers.items():
        print(f"{name:{widest}}  {healthy.numbers[name]:7.2f}  {value:7.2f}")
    print(f"\n{'word':10}  {'healthy':12}  broken")
    for word, text in broken.samples.items():
        print(f"{word:10}  {healthy.samples[word] or '(nothing)':12}  {text or '(nothing)'}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"case{number}.png"
    draw(path, f"Case {number}: {case.title}", healthy, broken)
    print(f"\n{path}: the curves of both runs")
    print("\nWhat is wrong?")
    for choice, answer in enumerate(case.answers, 1):
        print(f"  {choice}  {answer}")
    print(f"\nNext: nox -s gym -- {number} --answer NUMBER, or --solution")
    return 0


def judge(number: int, case: Case, right: bool) -> int:
    if not right:
        say(
            f"That is not it. Look once more: nox -s gym -- {number}. Or see why: nox -s gym -- {number} --solution"
        )
        return 1
    print("That is it.\n")
    explain(case)
    if number < len(CASES):
        print(f"\nNext: nox -s gym -- {number + 1}")
    return 0


def explain(case: Case) -> int:
    print(case.answers[case.right - 1])
    print("\nHow to tell:")
    say(case.how_to_tell)
    print("\nThe mend:")
    say(case.mend)
    return 0


def say(text: str) -> None:
    print(textwrap.fill(text, WIDTH))


if __name__ == "__main__":
    sys.exit(main())
