"""What learners are told of hidden checks: everything, their titles, or only points."""

from __future__ import annotations

import msgspec

from grader.driver import WORST_FIRST
from grader.gradebook import Entry, Grade
from grader.report.kinds import Hidden
from grader.report.story import count
from grader.result import CheckResult, StageResult, Status


def for_learner(entry: Entry, hidden: Hidden) -> Entry:
    """The entry as the learner may see it. Scores stay as they are."""
    return Entry(entry.learner, [_grade(grade, hidden) for grade in entry.grades])


def _grade(grade: Grade, hidden: Hidden) -> Grade:
    if grade.result is None or hidden is Hidden.full:
        return grade
    return msgspec.structs.replace(grade, result=withheld(grade.result, hidden))


def withheld(result: StageResult, hidden: Hidden) -> StageResult:
    """The result without what is not told."""
    checks: list[CheckResult] = []
    if hidden is Hidden.titles:
        checks = [only_title(check) if check.hidden else check for check in result.checks]
    else:
        for exercise in dict.fromkeys(check.exercise for check in result.checks):
            mine = [check for check in result.checks if check.exercise == exercise]
            kept = [check for check in mine if check.hidden]
            checks += [check for check in mine if not check.hidden] + (
                [together(result.stage, kept)] if kept else []
            )
    return msgspec.structs.replace(result, checks=checks)


def only_title(check: CheckResult) -> CheckResult:
    """A check without anything that was seen."""
    return CheckResult(
        check.id,
        check.exercise,
        check.title,
        check.status,
        check.points,
        check.max_points,
        True,
        seconds=check.seconds,
    )


def together(stage: str, checks: list[CheckResult]) -> CheckResult:
    """The hidden checks of an exercise as one, which holds when all of them do."""
    statuses = {check.status for check in checks}
    status: Status = next((one for one in WORST_FIRST if one in statuses), "passed")
    held = sum(check.status == "passed" for check in checks)
    exercise = checks[0].exercise
    return CheckResult(
        f"{stage}/{exercise}/hidden",
        exercise,
        f"{count(len(checks), 'hidden check')} of {exercise}: {held} {'holds' if held == 1 else 'hold'}.",
        status,
        sum(check.points for check in checks),
        sum(check.max_points for check in checks),
        True,
        seconds=sum(check.seconds for check in checks),
    )
