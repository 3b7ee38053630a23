"""What a class has in common, stage by stage: its mistakes by their names, its checks, and the time they took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import mean, median

from grader.gradebook import Grade
from grader.report.story import CALM
from grader.report.visible import one_line
from grader.result import CheckResult, StageResult


@dataclass
class Mistake:
    """A known mistake, and who made it."""

    why: str
    names: Counter[str] = field(default_factory=Counter)
    exercises: Counter[str] = field(default_factory=Counter)
    learners: list[int] = field(default_factory=list)
    """Numbers of the learners, each once, in the order of the class."""

    @property
    def name(self) -> str:
        """Its name; where names carry values, the most frequent one."""
        return self.names.most_common(1)[0][0]

    @property
    def exercise(self) -> str:
        return ", ".join(self.exercises)


@dataclass
class Check:
    """A check over the whole class. Who has not begun the exercise neither passes nor fails."""

    exercise: str
    title: str
    hidden: bool
    passed: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.passed + self.failed

    @property
    def usual_seconds(self) -> float:
        """The median of those who have begun; 0 without any."""
        return median(self.seconds) if self.seconds else 0.0


@dataclass
class Figures:
    """One stage over the whole class. Only what is graded counts."""

    stage: str
    title: str
    max_score: float
    scores: list[float] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    """How long all checks of a learner took together."""
    ungradable: int = 0
    grader_errors: int = 0
    unnamed: list[int] = field(default_factory=list)
    """Learners who fail in an exercise where no known mistake explains anything."""
    mistakes_by_code: dict[str, Mistake] = field(default_factory=dict)
    checks_by_id: dict[str, Check] = field(default_factory=dict)

    def add(self, learner: int, grade: Grade) -> None:
        """Counts a learner's grade in this stage."""
        if grade.state == "ungradable":
            self.ungradable += 1
        elif grade.score is None or grade.result is None:
            self.grader_errors += 1
        else:
            self.scores.append(grade.score)
            self.seconds[learner] = sum(check.seconds for check in grade.result.checks)
            self._add_result(learner, grade.result)

    def _add_result(self, learner: int, result: StageResult) -> None:
        explained: dict[str, bool] = {}
        for check in result.checks:
            self._add_check(check)
            if check.status == "passed" or check.status in CALM:
                continue
            named = check.diagnosis is not None
            explained[check.exercise] = explained.get(check.exercise, False) or named
            self._add_mistake(learner, check)
        if not all(explained.values()):
            self.unnamed.append(learner)

    def _add_check(self, check: CheckResult) -> None:
        known = self.checks_by_id.setdefault(
            check.id, Check(check.exercise, one_line(check.title), check.hidden)
        )
        if check.status in CALM:
            return
        known.passed += check.status == "passed"
        known.failed += check.status != "passed"
        known.seconds.append(check.seconds)

    def _add_mistake(self, learner: int, check: CheckResult) -> None:
        if check.diagnosis is None:
            return
        found = self.mistakes_by_code.setdefault(check.diagnosis.code, Mistake(one_line(check.diagnosis.why)))
        found.names[one_line(check.diagnosis.name)] += 1
        found.exercises[check.exercise] += 1
        if not found.learners or found.learners[-1] != learner:
            found.learners.append(learner)

    @property
    def graded(self) -> int:
        return len(self.scores)

    @property
    def full_marks(self) -> int:
        return sum(score >= self.max_score - 1e-6 for score in self.scores)

    @property
    def mean_score(self) -> float:
        return mean(self.scores) if self.scores else 0.0

    @property
    def median_score(self) -> float:
        return median(self.scores) if self.scores else 0.0

    @property
    def usual_seconds(self) -> float:
        return median(self.seconds.values()) if self.seconds else 0.0

    @property
    def slowest(self) -> int | None:
        """The learner whose checks took longest."""
        return max(self.seconds, key=lambda learner: self.seconds[learner], default=None)

    @property
    def mistakes(self) -> list[Mistake]:
        """The most frequent first."""
        return sorted(self.mistakes_by_code.values(), key=lambda one: (-len(one.learners), one.name))

    @property
    def checks(self) -> list[Check]:
        return list(self.checks_by_id.values())

    @property
    def nobody_fails(self) -> list[Check]:
        return [check for check in self.checks if check.tried and not check.failed]

    @property
    def everybody_fails(self) -> list[Check]:
        return [check for check in self.checks if check.tried and not check.passed]


def percent(part: int, whole: int) -> str:
    """'31 %'. Few are never none, and nearly all are never all."""
    if not whole:
        return "0 %"
    rounded = round(100 * part / whole)
    if part and not rounded:
        return "<1 %"
    return ">99 %" if rounded == 100 and part < whole else f"{rounded} %"


def duration(seconds: float) -> str:
    """'42 ms', '2.5 s', '12 s', '3 min 5 s'."""
    if seconds < 0.995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
