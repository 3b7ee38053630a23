"""`python -m grader`: the zygote starts importing torch before anything else is loaded here."""

import sys

LACKING = """\
{python} lacks {name}, which the grader needs.
Use the environment that nox made:   .nox/environment/bin/python -m grader ...
Or install what is needed into yours: {python} -m pip install -c constraints.txt -e ."""


def main() -> int:
    """Runs a command; gives its exit code."""
    try:
        from grader.early import start_early

        start_early(sys.argv[1:])
        from grader.cli import run
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "grader":
            raise
        print(LACKING.format(python=sys.executable, name=error.name), file=sys.stderr)
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
