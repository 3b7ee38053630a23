"""Removes a scratch folder, whatever a submission left in it: folders deeper than any path, or that nobody may open."""

from __future__ import annotations

import math
import os
import time

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def remove(folder: str, seconds: float = math.inf) -> bool:
    """Removes a folder and all that is in it; says whether it was done in that time, but for what cannot be removed.

    Follows no link. Holds one folder open at a time and never calls itself: depth costs neither descriptors nor stack.
    """
    above, name = os.path.split(os.path.abspath(folder))
    try:
        here = os.open(above, FOLDER)
    except OSError:
        return True
    deadline = time.monotonic() + seconds
    path: list[str] = []
    inner = [[name]]
    """The folders that are still to be removed, at each depth."""
    while time.monotonic() < deadline:
        if inner[-1]:
            name = inner[-1].pop()
            try:
                below = entered(here, name)
            except OSError:
                continue
            os.close(here)
            here = below
            path.append(name)
            inner.append(emptied(here, deadline))
            continue
        inner.pop()
        if not path:
            break
        below, here = here, os.open("..", FOLDER, dir_fd=here)
        os.close(below)
        try:
            os.rmdir(path.pop(), dir_fd=here)
        except OSError:
            pass
    os.close(here)
    return not path and not any(inner)


def entered(above: int, name: str) -> int:
    """A descriptor of a folder, which is made ours first; raises OSError for anything else."""
    try:
        below = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        return os.open(name, FOLDER, dir_fd=above)
    os.fchmod(below, 0o700)
    return below


def emptied(folder: int, deadline: float) -> list[str]:
    """Removes the files and links of a folder; gives the names of the folders in it."""
    inner = []
    for name in os.listdir(folder):
        if time.monotonic() > deadline:
            break
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # a folder, as a rule; anything else is refused where it is entered
            inner.append(name)
    return inner
