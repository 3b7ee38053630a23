"""The zip file that Gradescope builds its image from: the grader with all checks, and no solutions."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

EXECUTABLE = ("setup.sh", "run_autograder")
MOMENT = (1980, 1, 1, 0, 0, 0)
"""The same time for every file: the same course gives the same zip."""


def write_autograder(path: Path, course: Mapping[str, bytes], scripts: Mapping[str, bytes]) -> None:
    """Writes the zip: the scripts at its top, the course beside them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**scripts, **{f"course/{name}": data for name, data in course.items()}}.items():
            entry = zipfile.ZipInfo(name, MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if name in EXECUTABLE else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data)
