"""A group of commands whose first one need not be named: `batch SUBMISSIONS` is `batch grade SUBMISSIONS`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class OneCommand(TyperGroup):
    """Takes what is no command of the group as arguments of its first command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        commands = self.list_commands(ctx)
        if args and args[0] not in commands and args[0] not in ("--help", "-h"):
            args = [commands[0], *args]
        return super().parse_args(ctx, args)
