"""From how a check ended to what the learner reads: status, diagnosis, place, next step."""

from __future__ import annotations

import difflib
import re

import msgspec

from grader.declared import Declared
from grader.failure import CheckFailed
from grader.job import Job
from grader.mistakes import Catalogue, diagnosis
from grader.outline import Outline
from grader.result import CheckResult, Place, Status
from grader.shortcuts import Use, uses
from grader.submission import Raising
from grader.wire import Frame, Raised

NEXT_STEPS: dict[Status, str] = {
    "timeout": 'Look for a loop that does not end, and put training code under `if __name__ == "__main__":`.',
    "memory": "Look for a tensor that grows with every step, or one made far too large.",
    "output": "Take out prints inside loops.",
    "crashed": "Run the stage with --debug to see where it ends.",
    "tampered": "Take out whatever writes to the grader's channel.",
}


LONGEST_FINDING, MOST_FINDINGS = 2000, 40
"""A submission has a say in what findings quote; a report stays readable all the same."""


class Verdicts:
    """Knows the submission's outlines and the mistakes; turns failures into results."""

    def __init__(self, job: Job, outlines: dict[str, Outline], known: Catalogue) -> None:
        self._job = job
        self._outlines = outlines
        self._known = known
        self._uses: dict[str, list[Use]] = {}

    def passed(self, declared: Declared) -> CheckResult:
        """A check that found what it asked for."""
        return self._result(declared, "passed", points=declared.points)

    def fault(self, declared: Declared, reason: str) -> CheckResult:
        """A fault of the grader or of a check: never charged to the submission."""
        return self._result(
            declared,
            "grader_error",
            findings=[f"The grader failed here: {reason}"],
            next_step="This is not your mistake. Please report it.",
        )

    def without_running(self, declared: Declared) -> CheckResult | None:
        """The result of a check whose exercise is not there or not begun; None when it is to be run."""
        path = self._job.exercises[declared.exercise]
        shown = path.rpartition("/")[2]
        outline = self._outlines.get(path)
        if outline is None:
            return self._result(
                declared,
                "missing",
                findings=[f"{shown} is not there; {declared.exercise} is expected in it."],
                next_step=f"Put {shown} into the folder {self._job.folder}.",
            )
        if outline.problem:
            place = Place(path, outline.problem_line, outline.text(outline.problem_line))
            return self._result(
                declared,
                "error",
                error=outline.problem,
                traceback=[place],
                findings=[
                    f"{shown} cannot be read by Python. {outline.problem}, line {outline.problem_line}."
                ],
                next_step=f"Mend {shown}:{outline.problem_line}; the checks of this file can run then.",
            )
        definition = outline.definitions.get(declared.exercise)
        if definition is not None and definition.stub:
            return self._todo(declared, path)
        found = self._shortcuts(declared.exercise)
        return (
            self._forbidden(declared, found[0].name, self._place_at(found[0].file, found[0].line))
            if found
            else None
        )

    def _shortcuts(self, exercise: str) -> list[Use]:
        if exercise not in self._uses:
            own = {
                path: text
                for path, text in self._job.sources.items()
                if path.startswith(self._job.folder + "/")
            }
            path = self._job.exercises[exercise]
            self._uses[exercise] = uses(own, path, exercise, self._job.forbidden.get(exercise, []))
        return self._uses[exercise]

    def failed(self, declared: Declared, failure: CheckFailed) -> CheckResult:
        """The result of a check that did not pass."""
        if failure.raised is not None:
            return self._raised(declared, failure, failure.raised)
        return self._from_failure(declared, failure)

    def _from_failure(self, declared: Declared, failure: CheckFailed) -> CheckResult:
        path = self._job.exercises[declared.exercise]
        found = None
        if failure.mistake is not None:
            facts = {"exercise": declared.exercise, **failure.facts}
            found = diagnosis(self._known, failure.mistake, facts, declared.exercise, self._outlines, path)
        trace = [self._place(failure.where)] if failure.where and failure.where.file in self._outlines else []
        return self._result(
            declared,
            failure.status,
            diagnosis=found,
            findings=failure.findings,
            detail=failure.detail,
            traceback=trace,
            next_step=failure.next_step or NEXT_STEPS.get(failure.status, ""),
        )

    # What the submission raised ---------------------------------------------------------------------------------

    def _raised(self, declared: Declared, failure: CheckFailed, raised: Raised) -> CheckResult:
        known = [frame for frame in raised.frames if frame.file in self._outlines]
        raised = msgspec.structs.replace(raised, frames=known)
        trace = [self._place(frame) for frame in known]
        text = f"{raised.type}: {raised.message}" if raised.message else raised.type
        if raised.type == "ForbiddenShortcut":
            return self._forbidden(declared, raised.message.partition(" ")[0], trace[-1] if trace else None)
        if raised.phase == "import":
            return self._not_imported(declared, raised, trace, text)
        if raised.phase == "name":
            return self._missing_name(declared, raised)
        if raised.phase == "attribute":
            return self._missing_attribute(declared, raised)
        if raised.type == "NotImplementedError" and raised.frames:
            path, exercise = self._exercise_at(raised.frames[-1])
            if exercise == declared.exercise and path == self._job.exercises[declared.exercise]:
                return self._todo(declared, path, trace[-1])
            if exercise:
                return self._waiting(declared, exercise, path)
        if isinstance(failure, Raising) and self._is_wrong_call(raised):
            facts = {"call": failure.call, "signature": raised.signature, "exercise": declared.exercise}
            wrong = CheckFailed(
                f"{raised.message}.",
                status="error",
                mistake="general/wrong-signature",
                facts=facts,
                next_step="Give it the signature of the skeleton again.",
            )
            result = self._from_failure(declared, wrong)
            result.error = text
            return result
        status: Status = (
            "memory" if ran_out_of_memory(raised) else "denied" if was_denied(raised) else "error"
        )
        findings = list(failure.findings) if failure.status == "failed" else []
        if failure.status == "failed":
            status = "failed"
        if not findings:
            findings.append(f"It raised {text[:300]}" + ("" if text.endswith((".", "!", "?")) else "."))
        mine = [place for place in trace if place.file.startswith(self._job.folder + "/")]
        if trace and mine and trace[-1] is not mine[-1]:
            findings.append(
                f"It was raised in {trace[-1].file}:{trace[-1].line}, called from {short(mine[-1])}."
            )
        elif trace and not mine:
            findings.append(f"It was raised in {trace[-1].file}:{trace[-1].line}, an earlier stage.")
        found = None
        if failure.mistake is not None:
            path = self._job.exercises[declared.exercise]
            found = diagnosis(
                self._known, failure.mistake, failure.facts, declared.exercise, self._outlines, path
            )
        place = trace[-1] if trace else None
        return self._result(
            declared,
            status,
            diagnosis=found,
            findings=findings,
            traceback=trace,
            error=text,
            next_step=failure.next_step
            or error_advice(raised)
            or (f"Look at {short(place)}." if place else NEXT_STEPS["crashed"]),
        )

    def _is_wrong_call(self, raised: Raised) -> bool:
        """A TypeError that Python raised at the call itself, before any line of the submission ran."""
        return (
            raised.type == "TypeError"
            and not raised.frames
            and bool(re.search(r"argument|takes|missing|unexpected|multiple values", raised.message))
        )

    def _not_imported(self, declared: Declared, raised: Raised, trace: list[Place], text: str) -> CheckResult:
        path = self._job.exercises[declared.exercise]
        broken = raised.frames[-1].file if raised.frames else path
        shown = broken if not broken.startswith(self._job.folder + "/") else broken.rpartition("/")[2]
        wanted = re.search(r"cannot import name '(\w+)' from 'submission\.(\w+)\.(\w+)'", raised.message)
        if wanted and f"{wanted[2]}/{wanted[3]}.py" != path:
            source = f"{wanted[2]}/{wanted[3]}.py"
            if self._job.exercises.get(wanted[1]) == source:
                return self._waiting(declared, wanted[1], source)
            if self._job.earlier == "reference" and wanted[2] != self._job.folder:
                return self._result(
                    declared,
                    "error",
                    error=text,
                    traceback=trace,
                    findings=[
                        f"It imports {wanted[1]!r} from {source}; there, only the names of the contract exist "
                        "(the reference stands in for the earlier stages)."
                    ],
                    next_step=f"Put {wanted[1]} into a further module beside the file that uses it.",
                )
        where = f"{shown}:{trace[-1].line}" if trace else shown
        if broken != path:
            return self._result(
                declared,
                "waiting",
                error=text,
                traceback=trace,
                findings=[f"{shown} does not import: {text}. {declared.exercise} needs it."],
                next_step=f"Mend {where} first.",
            )
        return self._result(
            declared,
            "error",
            error=text,
            traceback=trace,
            findings=[f"{shown} does not import. {text}."],
            next_step=f"Mend {where}; the checks of this file can run then.",
        )

    def _missing_name(self, declared: Declared, raised: Raised) -> CheckResult:
        name = raised.message
        path = self._job.exercises.get(name, self._job.exercises[declared.exercise])
        shown = path.rpartition("/")[2]
        near = difflib.get_close_matches(name, raised.names, 1)
        hint = f" There is {near[0]!r}: is it that?" if near else ""
        return self._result(
            declared,
            "missing",
            findings=[f"{shown} has no {name}.{hint}"],
            next_step=f"Define {name} in {shown}, with the name and signature of the skeleton.",
        )

    def _missing_attribute(self, declared: Declared, raised: Raised) -> CheckResult:
        has = ", ".join(raised.names[:20]) or "nothing public"
        failure = CheckFailed(
            f"{raised.message}; it has: {has}.",
            mistake="general/missing-attribute",
            facts={"message": raised.message},
            next_step="Give it the attribute names that the docstring lists.",
        )
        return self._from_failure(declared, failure)

    def _todo(self, declared: Declared, path: str, place: Place | None = None) -> CheckResult:
        definition = self._outlines[path].definitions.get(declared.exercise)
        line = place.line if place else definition.line if definition else 1
        shown = path.rpartition("/")[2]
        return self._result(
            declared,
            "todo",
            findings=[f"{declared.exercise} is not written yet."],
            next_step=f"Write {declared.exercise} in {shown}:{line}.",
        )

    def _waiting(self, declared: Declared, exercise: str, path: str) -> CheckResult:
        shown = path if not path.startswith(self._job.folder + "/") else path.rpartition("/")[2]
        return self._result(
            declared,
            "waiting",
            findings=[f"{declared.exercise} needs {exercise}, which is not written yet."],
            next_step=f"Write {exercise} in {shown} first.",
        )

    def _forbidden(self, declared: Declared, name: str, place: Place | None) -> CheckResult:
        where = f" ({short(place)})" if place else ""
        return self._result(
            declared,
            "forbidden",
            findings=[f"It uses {name}{where}, which is ready-made; this exercise is about writing it."],
            traceback=[place] if place else [],
            next_step=f"Write {declared.exercise} from nn.Linear, softmax and tensor operations.",
        )

    # Small things -----------------------------------------------------------------------------------------------

    def _exercise_at(self, frame: Frame) -> tuple[str, str]:
        """The file and, if the line belongs to an exercise, its name."""
        outline = self._outlines.get(frame.file)
        name = outline.at(frame.line) if outline else ""
        return frame.file, name if self._job.exercises.get(name) == frame.file else ""

    def _place(self, frame: Frame) -> Place:
        return self._place_at(frame.file, frame.line)

    def _place_at(self, file: str, line: int) -> Place:
        outline = self._outlines.get(file)
        return Place(file, line, outline.text(line) if outline else "")

    def _result(
        self,
        declared: Declared,
        status: Status,
        points: float = 0.0,
        findings: list[str] | None = None,
        **more: object,
    ) -> CheckResult:
        cut = [
            one if len(one) <= LONGEST_FINDING else f"{one[:LONGEST_FINDING]} ..." for one in findings or []
        ]
        return CheckResult(
            declared.id,
            declared.exercise,
            declared.title,
            status,
            points,
            declared.points,
            declared.hidden,
            findings=cut[:MOST_FINDINGS],
            **more,  # type: ignore[arg-type]
        )


def short(place: Place) -> str:
    """'attention.py:41'."""
    return f"{place.file.rpartition('/')[2]}:{place.line}"


def ran_out_of_memory(raised: Raised) -> bool:
    return (
        "MemoryError" in raised.bases
        or "OutOfMemoryError" in raised.bases
        or "not enough memory" in raised.message
        or "can't allocate memory" in raised.message
    )


def was_denied(raised: Raised) -> bool:
    """Whether the sandbox said no. A right solution needs nothing that it refuses."""
    return "PermissionError" in raised.bases or "Operation not permitted" in raised.message


def error_advice(raised: Raised) -> str:
    """The next step for errors that have one cause most of the time."""
    message = raised.message
    if was_denied(raised):
        return (
            "Take it out: while it is graded, code may compute and print, but not start processes (num_workers=0), "
            "open sockets, or touch files outside its scratch folder."
        )
    if raised.type == "SystemExit":
        return "Take out the call of sys.exit() or exit(): it ends the process that computes your answer."
    if "same device" in message or "CUDA" in message:
        return "Make new tensors on the device of the input: `device=x.device`."
    if raised.type == "ModuleNotFoundError":
        return "Use only the packages of the course."
    if "is not contiguous" in message or "view size is not compatible" in message:
        return "Use reshape, or contiguous() before view."
    return ""
