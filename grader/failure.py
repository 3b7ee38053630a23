"""How a check ends when it does not pass."""

from __future__ import annotations

from typing import Any

from grader.result import Comparison, Status
from grader.wire import Frame, Raised


class CheckFailed(Exception):
    """The submission did not do what the check asks for."""

    def __init__(
        self,
        finding: str = "",
        *,
        status: Status = "failed",
        mistake: str | None = None,
        facts: dict[str, Any] | None = None,
        findings: list[str] | None = None,
        detail: Comparison | None = None,
        raised: Raised | None = None,
        where: Frame | None = None,
        next_step: str = "",
    ) -> None:
        super().__init__(finding or mistake or status)
        self.status: Status = status
        self.mistake = mistake
        self.facts = facts or {}
        self.findings = ([finding] if finding else []) + (findings or [])
        self.detail = detail
        self.raised = raised
        self.where = where
        self.next_step = next_step


class CheckFault(Exception):
    """A check is written wrongly: ours, never charged to the submission."""
