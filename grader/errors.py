"""What ends a command early: every text is one line that says what is wrong and what to do."""

from __future__ import annotations


class UsageError(Exception):
    """What was typed or handed in cannot be graded. Commands print the text and exit with 2."""


class GraderFailed(Exception):
    """The grader failed: exit 3, never charged to the submission."""
