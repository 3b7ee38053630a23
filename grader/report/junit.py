"""Results as JUnit XML: a suite for each stage of each submission, a case for each check, its points as properties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from grader.gradebook import Entry, Grade
from grader.report.story import seen
from grader.report.terminal import tell
from grader.report.visible import one_line, visible
from grader.result import CheckResult

NOT_BEGUN = ("todo", "waiting", "missing")
ERRORS = ("error", "timeout", "memory", "output", "crashed", "denied", "rejected", "grader_error")


def render(entries: Iterable[Entry]) -> Iterator[str]:
    """The document in pieces, so that a class of any size fits."""
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="course">\n'
    for entry in entries:
        for grade in entry.grades:
            yield _suite(entry, grade)
    yield "</testsuites>\n"


def _suite(entry: Entry, grade: Grade) -> str:
    name = f"{one_line(entry.learner.submission)}.{grade.stage}"
    checks = grade.result.checks if grade.result is not None else []
    cases = [_case(name, check) for check in checks]
    kinds = [_kind(check) for check in checks]
    if grade.result is None:
        kinds = ["error"]
        reason = quoteattr(one_line(grade.reason))
        cases = [
            f'    <testcase classname={quoteattr(name)} name="was graded" time="0">\n'
            f"      <error type={quoteattr(grade.state)} message={reason}/>\n    </testcase>\n"
        ]
    seconds = sum(check.seconds for check in checks)
    points = {} if grade.score is None else {"points": _number(grade.score)}
    properties = _properties(
        {
            "submission": one_line(entry.learner.submission),
            "stage": grade.stage,
            "state": grade.state,
            **points,
            "max_points": _number(grade.max_score),
        },
        4,
    )
    return (
        f'  <testsuite name={quoteattr(name)} tests="{len(kinds)}" failures="{kinds.count("failure")}" '
        f'errors="{kinds.count("error")}" skipped="{kinds.count("skipped")}" time="{seconds:.3f}">\n'
        f"{properties}{''.join(cases)}  </testsuite>\n"
    )


def _case(suite: str, check: CheckResult) -> str:
    properties = {
        "id": check.id,
        "points": _number(check.points),
        "max_points": _number(check.max_points),
        "status": check.status,
        "hidden": str(check.hidden).lower(),
    }
    if check.diagnosis is not None:
        properties["mistake"] = check.diagnosis.code
    return (
        f"    <testcase classname={quoteattr(f'{suite}.{check.exercise}')} name={quoteattr(one_line(check.title))} "
        f'time="{check.seconds:.3f}">\n{_properties(properties, 6)}{_outcome(check)}    </testcase>\n'
    )


def _outcome(check: CheckResult) -> str:
    kind = _kind(check)
    if not kind:
        return ""
    message = quoteattr(seen(check))
    if kind == "skipped":
        return f"      <skipped message={message}/>\n"
    told = escape(visible(tell(check)))
    return f"      <{kind} type={quoteattr(check.status)} message={message}>{told}</{kind}>\n"


def _kind(check: CheckResult) -> str:
    """What a check is called in JUnit's words; '' when it holds."""
    if check.status == "passed":
        return ""
    if check.status in NOT_BEGUN:
        return "skipped"
    return "error" if check.status in ERRORS else "failure"


def _properties(values: dict[str, str], indent: int) -> str:
    space = " " * indent
    lines = [
        f"{space}  <property name={quoteattr(name)} value={quoteattr(visible(value))}/>\n"
        for name, value in values.items()
    ]
    return f"{space}<properties>\n{''.join(lines)}{space}</properties>\n"


def _number(value: float) -> str:
    return f"{round(value, 4):g}"
