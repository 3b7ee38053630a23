"""Reads the stage folders out of a zip or tar file that a stranger packed. Nothing is unpacked by its own names."""

from __future__ import annotations

import io
import lzma
import os
import posixpath
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from grader.report.visible import one_line
from grader.sources import LARGEST_FILE

LARGEST_ARCHIVE = 100 << 20
"""Bytes of the archive itself."""

LARGEST_CONTENT = 200 << 20
"""Bytes of everything in it; a folder with a trained model still fits."""

LARGEST_TAKEN = 16 << 20
"""Bytes of all modules that are taken."""

MOST_MEMBERS = 5000
LONGEST_NAME = 400
DEEPEST = 5
"""Folders and file of the deepest path that is looked at: top/stages/stage1_attention/attention.py, and one more."""

HIGHEST_RATIO = 200
"""Bytes in it for each byte of the archive, from a megabyte on: text packs ten times, what packs better is a trap."""

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
JUNK = {
    "__macosx", ".git", ".hg", ".svn", ".nox", ".tox", ".venv", "venv", "env", "node_modules", "__pycache__",
    ".ipynb_checkpoints", ".idea", ".vscode", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ds_store",
}  # fmt: skip
DRIVE = re.compile(r"^[A-Za-z]:")


class NotTaken(Exception):
    """An archive that is refused; the text says why and what to do."""


class Member:
    """A file of an archive: its path, its size as stated, and what it is."""

    def __init__(self, path: str, size: int, kind: str) -> None:
        self.path = path
        self.size = size
        self.kind = kind
        """'file', 'folder', or what it is instead, as 'a link'."""


def is_archive(path: Path) -> bool:
    """Whether a name is that of an archive which can be read here."""
    return path.name.lower().endswith(ENDINGS)


def bare_name(path: Path) -> str:
    """The name of an archive without its ending."""
    ending = next(one for one in sorted(ENDINGS, key=len, reverse=True) if path.name.lower().endswith(one))
    return path.name[: -len(ending)]


def read_archive(path: Path, folders: Iterable[str]) -> dict[str, bytes]:
    """The Python modules of the named folders: bytes by path, as 'stage1_attention/attention.py'.

    The folders may lie at the top, in `stages`, or one folder deeper as in a downloaded repository. Raises NotTaken
    for an archive that is damaged, too large, or holds anything that an honest one does not.
    """
    try:
        with open_regular(path) as file:
            read = read_zip if zipfile.is_zipfile(file) else read_tar
            file.seek(0)
            return read(file, path.name, set(folders))
    except NotTaken:
        raise
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        UnicodeError,
    ) as error:
        raise NotTaken(f"{path.name} is damaged ({one_line(str(error))[:120]}). Pack it again.") from None
    except NotImplementedError as error:
        raise NotTaken(f"{path.name} cannot be read ({error}). Pack it as an ordinary zip file.") from None
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        raise NotTaken(f"{path.name} cannot be read ({one_line(str(error))[:120]}). Pack it again.") from None


def open_regular(path: Path) -> IO[bytes]:
    """Opens an ordinary file that is not too large; follows no link and waits for no pipe."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if path.is_symlink():
            raise NotTaken(f"{path.name} is a link. Put the file itself there.") from None
        raise NotTaken(f"{path.name} cannot be read ({error.strerror}). Check its permissions.") from None
    state = os.fstat(descriptor)
    file = open(descriptor, "rb")
    if not stat.S_ISREG(state.st_mode):
        file.close()
        raise NotTaken(f"{path.name} is not an ordinary file. Put a zip or tar file there.")
    if state.st_size > LARGEST_ARCHIVE:
        file.close()
        raise NotTaken(
            f"{path.name} has {state.st_size:,} bytes; an archive may have {LARGEST_ARCHIVE:,}. "
            "Pack the stage folders alone."
        )
    return file


def read_zip(file: IO[bytes], shown: str, folders: set[str]) -> dict[str, bytes]:
    """The wanted modules of a zip file; the others are not even unpacked."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        members = [Member(info.filename, info.file_size, zip_kind(info)) for info in infos]
        check_members(members, shown, sum(info.compress_size for info in infos))
        wanted = wanted_members((member.path for member in members), folders, shown)
        taken: dict[str, bytes] = {}
        for info, member in zip(infos, members):
            if member.path not in wanted or member.kind != "file":
                continue
            if info.flag_bits & 1:
                raise NotTaken(f"{shown} is locked with a password. Pack it without one.")
            with archive.open(info) as source:
                take(taken, wanted[member.path], source, shown)
        return taken


def zip_kind(info: zipfile.ZipInfo) -> str:
    """What a member of a zip file is, as far as it says so."""
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a device or pipe"
    return "folder" if info.is_dir() else "file"


def read_tar(file: IO[bytes], shown: str, folders: set[str]) -> dict[str, bytes]:
    """The wanted modules of a tar file, which is read from front to back."""
    packed = os.fstat(file.fileno()).st_size
    plain = Counting(opened(file, shown), shown, packed)
    members: list[Member] = []
    taken: dict[str, bytes] = {}
    with tarfile.open(fileobj=plain, mode="r|") as archive:
        for info in archive:
            members.append(Member(info.name, info.size, tar_kind(info)))
            if len(members) > MOST_MEMBERS:
                break
            if members[-1].kind == "file" and wanted_members([info.name], folders, shown):
                source = archive.extractfile(info)
                assert source is not None
                take(taken, info.name, source, shown)
    check_members(members, shown, 0)
    wanted = wanted_members((member.path for member in members if member.kind == "file"), folders, shown)
    return {wanted[path]: data for path, data in taken.items() if path in wanted}


def opened(file: IO[bytes], shown: str) -> IO[bytes]:
    """The tar file itself, whatever it is packed with."""
    import bz2
    import gzip

    head = file.read(6)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(file)
    if b"ustar" not in file.read(512):
        raise NotTaken(f"{shown} is neither a zip nor a tar file. Pack it as a zip file.")
    file.seek(0)
    return file


def tar_kind(info: tarfile.TarInfo) -> str:
    """What a member of a tar file is."""
    if info.issym() or info.islnk():
        return "a link"
    if info.isdir():
        return "folder"
    return "file" if info.isreg() and not info.issparse() else "a device, pipe or sparse file"


class Counting(io.RawIOBase):
    """A stream that ends with NotTaken when more comes out than an honest archive holds."""

    def __init__(self, source: IO[bytes], shown: str, packed: int) -> None:
        self._source = source
        self._shown = shown
        self._packed = packed
        self._count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size if 0 <= size <= 1 << 20 else 1 << 20)
        self._count += len(data)
        check_size(self._count, self._packed, self._shown)
        return data


def check_size(content: int, packed: int, shown: str) -> None:
    """Refuses what unpacks to more than it should."""
    if content > LARGEST_CONTENT:
        raise NotTaken(
            f"{shown} holds more than {LARGEST_CONTENT:,} bytes. Pack the stage folders alone, without models and data."
        )
    if content > 1 << 20 and packed and content > HIGHEST_RATIO * packed:
        raise NotTaken(
            f"{shown} unpacks to {content // packed} times its size. Pack the stage folders alone."
        )


def check_members(members: list[Member], shown: str, packed: int) -> None:
    """Refuses an archive for a member that an honest one does not have."""
    if len(members) > MOST_MEMBERS:
        raise NotTaken(f"{shown} holds more than {MOST_MEMBERS:,} files. Pack the stage folders alone.")
    check_size(sum(member.size for member in members), packed, shown)
    seen: dict[str, str] = {}
    for member in members:
        name = one_line(member.path)[:80]
        if reason := unsafe(member.path):
            raise NotTaken(f"{shown} holds {name!r}, {reason}. Pack the stage folders again.")
        if is_junk(member.path):
            continue
        if member.kind not in ("file", "folder"):
            raise NotTaken(f"{shown} holds {name!r}, which is {member.kind}. Pack the files themselves.")
        plain = member.path.rstrip("/")
        folded = unicodedata.normalize("NFC", plain).casefold()
        other = seen.setdefault(folded, plain)
        if other != plain:
            raise NotTaken(
                f"{shown} holds {one_line(other)[:80]!r} and {name!r}, which differ in case alone. Rename one."
            )
        if member.kind == "file" and folded + "\0" in seen:
            raise NotTaken(f"{shown} holds {name!r} twice. Pack it again.")
        if member.kind == "file":
            seen[folded + "\0"] = plain


def unsafe(path: str) -> str:
    """Why a path of an archive is not one to follow, or ''."""
    if not path or path.startswith(("/", "\\")) or DRIVE.match(path):
        return "a path of its own from the root of a disk"
    if "\\" in path:
        return "a path with backslashes"
    if ".." in path.split("/"):
        return "a path that leaves its folder"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "a name with control characters"
    if len(path) > LONGEST_NAME:
        return "a very long name"
    return ""


def is_junk(path: str) -> bool:
    """Whether a path is what tools leave behind: it is not looked at."""
    parts = path.split("/")
    return any(part.casefold() in JUNK or part.startswith("._") for part in parts)


def wanted_members(paths: Iterable[str], folders: set[str], shown: str) -> dict[str, str]:
    """Of the paths those of modules in the stage folders, and what each is called from there.

    Where several folders hold stage folders, `stages` counts, else the outermost; raises NotTaken when that leaves two.
    """
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        parts = posixpath.normpath(path).split("/")
        if is_junk(path) or len(parts) < 2 or not parts[-1].endswith(".py") or parts[-2] not in folders:
            continue
        if len(parts) <= DEEPEST:
            found.setdefault("/".join(parts[:-2]), {})[path] = "/".join(parts[-2:])
    bases = sorted(
        found, key=lambda base: (posixpath.basename(base) != "stages", base.count("/") + bool(base))
    )
    if not bases:
        return {}
    rank = [(posixpath.basename(base) != "stages", base.count("/") + bool(base)) for base in bases[:2]]
    if len(bases) > 1 and rank[0] == rank[1]:
        raise NotTaken(
            f"{shown} holds the stage folders twice, in {one_line(bases[0])[:80]!r} and {one_line(bases[1])[:80]!r}. "
            "Leave one of them."
        )
    return found[bases[0]]


def take(taken: dict[str, bytes], name: str, source: IO[bytes], shown: str) -> None:
    """Reads a module, and never more of it than a module may have."""
    data = source.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise NotTaken(f"{shown}: {one_line(name)} has more than {LARGEST_FILE:,} bytes. Make it smaller.")
    taken[name] = data
    if sum(map(len, taken.values())) > LARGEST_TAKEN:
        raise NotTaken(f"{shown} holds more than {LARGEST_TAKEN:,} bytes of modules. Make it smaller.")


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    """Writes what was read below an empty folder; the names were checked when they were chosen."""
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
