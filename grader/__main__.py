"""`python -m grader`: the zygote starts importing torch before anything else is loaded here."""

import sys


def main() -> int:
    """Runs a command; gives its exit code."""
    from grader.early import start_early

    start_early(sys.argv[1:])
    from grader.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
