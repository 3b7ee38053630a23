"""Archives as strangers pack them: the modules of honest ones are read, anything else is refused with a reason."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.batch.archive import MOST_MEMBERS, NotTaken, bare_name, is_archive, lay_out, read_archive

FOLDERS = ["stage1_double", "stage2_triple"]
CODE = b"def double(x):\n    return 2 * x\n"
MODULE = "stage1_double/double.py"


def zipped(
    path: Path, members: dict[str, bytes], change: Callable[[zipfile.ZipFile], None] | None = None
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        if change is not None:
            change(archive)
    return path


def tarred(path: Path, members: dict[str, bytes], mode: str = "w:gz", *further: tarfile.TarInfo) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in further:
            archive.addfile(info, io.BytesIO(b"\0" * info.size))
    return path


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("prefix", ["", "stages/", "ada-main/", "ada-main/stages/", "./", "ada/./stages/"])
def test_modules_are_found_where_honest_archives_have_them(tmp_path: Path, prefix: str) -> None:
    members = {
        f"{prefix}{MODULE}": CODE,
        f"{prefix}stage1_double/README.md": b"text",
        f"{prefix}stage1_double/checks/test_public.py": b"no",
        f"__MACOSX/{prefix}stage1_double/._double.py": b"\0",
        ".git/HEAD": b"ref",
        f"{prefix}stage1_double/__pycache__/double.cpython-311.pyc": b"\0",
        "notes.txt": b"",
    }
    assert read_archive(zipped(tmp_path / "a.zip", members), FOLDERS) == {MODULE: CODE}
    for mode, name in (("w", "a.tar"), ("w:gz", "a.tgz"), ("w:bz2", "a.tar.bz2"), ("w:xz", "a.tar.xz")):
        assert read_archive(tarred(tmp_path / name, members, mode), FOLDERS) == {MODULE: CODE}


def test_the_learners_folder_counts_beside_a_reference(tmp_path: Path) -> None:
    members = {f"solutions/{MODULE}": b"theirs", f"stages/{MODULE}": CODE}
    assert read_archive(zipped(tmp_path / "a.zip", members), FOLDERS) == {MODULE: CODE}


def test_links_in_environments_are_not_looked_at(tmp_path: Path) -> None:
    path = tarred(
        tmp_path / "a.tar", {MODULE: CODE}, "w", entry(".venv/bin/python", tarfile.SYMTYPE, "/usr/bin/python")
    )
    assert read_archive(path, FOLDERS) == {MODULE: CODE}


def test_what_is_read_is_laid_out_below_its_folder(tmp_path: Path) -> None:
    lay_out({MODULE: CODE, "stage2_triple/triple.py": CODE}, tmp_path)
    assert (tmp_path / MODULE).read_bytes() == CODE


HOSTILE_NAMES = {
    "../stage1_double/double.py": "a path that leaves its folder",
    "stage1_double/../../double.py": "a path that leaves its folder",
    "/etc/cron.d/x": "from the root of a disk",
    "C:/windows/x.py": "from the root of a disk",
    "stage1_double\\..\\x.py": "backslashes",
    "stage1_double/a\nb.py": "control characters",
    "stage1_double/\x1b[2Jx.py": "control characters",
    "x/" * 300 + "a.py": "a very long name",
}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    for path in (
        zipped(tmp_path / "a.zip", {MODULE: CODE, name: b"x"}),
        tarred(tmp_path / "a.tar", {MODULE: CODE, name: b"x"}, "w"),
    ):
        with pytest.raises(NotTaken, match=HOSTILE_NAMES[name]) as refusal:
            read_archive(path, FOLDERS)
        assert str(refusal.value).isprintable() and len(str(refusal.value)) < 300
    assert not list(tmp_path.parent.glob("*.py")) and not (tmp_path / "stage1_double").exists()


KINDS = {
    "symbolic link": (tarfile.SYMTYPE, "a link"),
    "hard link": (tarfile.LNKTYPE, "a link"),
    "pipe": (tarfile.FIFOTYPE, "a device, pipe or sparse file"),
    "device": (tarfile.CHRTYPE, "a device, pipe or sparse file"),
    "disk": (tarfile.BLKTYPE, "a device, pipe or sparse file"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    type_, said = KINDS[kind]
    path = tarred(tmp_path / "a.tar", {}, "w", entry(MODULE, type_, "/etc/passwd"))
    with pytest.raises(NotTaken, match=f"which is {said}"):
        read_archive(path, FOLDERS)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo(MODULE)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zipped(tmp_path / "a.zip", {}, lambda archive: archive.writestr(info, "/etc/passwd"))
    with pytest.raises(NotTaken, match="which is a link"):
        read_archive(path, FOLDERS)


@pytest.mark.parametrize(
    "pair", [("double.py", "Double.py"), ("stra\u00dfe.py", "STRASSE.py"), ("\u00e9.py", "e\u0301.py")]
)
def test_names_that_clash_on_other_systems_are_refused(tmp_path: Path, pair: tuple[str, str]) -> None:
    path = zipped(tmp_path / "a.zip", {f"stage1_double/{name}": CODE for name in pair})
    with pytest.raises(NotTaken, match="differ in case alone"):
        read_archive(path, FOLDERS)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {MODULE: CODE}, lambda archive: archive.writestr(MODULE, b"other"))
    with pytest.raises(NotTaken, match="twice"):
        read_archive(path, FOLDERS)


def test_two_submissions_in_one_archive_are_not_guessed_between(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {f"ada/{MODULE}": CODE, f"bob/{MODULE}": CODE})
    with pytest.raises(NotTaken, match="holds the stage folders twice, in 'ada' and 'bob'"):
        read_archive(path, FOLDERS)


def test_bombs_are_refused(tmp_path: Path) -> None:
    zeros = b"\0" * (8 << 20)
    for path in (
        zipped(tmp_path / "a.zip", {MODULE: CODE, "zeros": zeros}),
        tarred(tmp_path / "a.tgz", {"zeros": zeros, MODULE: CODE}),
    ):
        with pytest.raises(NotTaken, match="unpacks to .* times its size"):
            read_archive(path, FOLDERS)
    with pytest.raises(NotTaken, match="has more than 1,048,576 bytes"):
        read_archive(tarred(tmp_path / "b.tar", {MODULE: b"#" * (1 << 21)}, "w"), FOLDERS)


def test_a_bomb_in_a_header_is_refused(tmp_path: Path) -> None:
    """A comment of a tar header, which is read into memory, unpacks to gigabytes."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    with gzip.open(tmp_path / "a.tgz", "wb", compresslevel=1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            file.write(b"\0" * (1 << 20))
    with pytest.raises(NotTaken, match="times its size|holds more than|damaged|cannot be read"):
        read_archive(tmp_path / "a.tgz", FOLDERS)


def test_ten_thousand_files_are_refused(tmp_path: Path) -> None:
    members = {f"stage1_double/m{number}.py": b"" for number in range(MOST_MEMBERS + 1)}
    for path in (zipped(tmp_path / "a.zip", members), tarred(tmp_path / "a.tar", members, "w")):
        with pytest.raises(NotTaken, match="more than 5,000 files"):
            read_archive(path, FOLDERS)


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"PK\x03\x04" + b"\0" * 40, os.urandom(2000), b"\x1f\x8b" + b"x" * 99]
)
@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(NotTaken, match="damaged|neither|cannot be read"):
        read_archive(tmp_path / name, FOLDERS)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_an_archive_that_was_cut_off_is_refused(tmp_path: Path, part: float) -> None:
    members = {MODULE: CODE, "noise": os.urandom(50_000)}
    for path in (zipped(tmp_path / "a.zip", members), tarred(tmp_path / "a.tgz", members)):
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
        with pytest.raises(NotTaken):
            read_archive(path, FOLDERS)


def test_a_locked_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {MODULE: CODE})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(NotTaken, match="password"):
        read_archive(path, FOLDERS)


def test_links_pipes_and_folders_in_place_of_an_archive_are_refused(tmp_path: Path) -> None:
    zipped(tmp_path / "real.zip", {MODULE: CODE})
    (tmp_path / "link.zip").symlink_to("real.zip")
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(NotTaken, match="link.zip is a link"):
        read_archive(tmp_path / "link.zip", FOLDERS)
    with pytest.raises(NotTaken, match="pipe.zip is not an ordinary file"):
        read_archive(tmp_path / "pipe.zip", FOLDERS)


def test_an_archive_of_something_else_gives_nothing(tmp_path: Path) -> None:
    assert read_archive(zipped(tmp_path / "a.zip", {"essay.txt": b"words"}), FOLDERS) == {}


def test_names_of_archives() -> None:
    for name in ("ada.zip", "ada.ZIP", "ada.tar.gz", "ada.tgz", "ada.tar"):
        assert is_archive(Path(name)) and bare_name(Path(name)) == "ada"
    assert not is_archive(Path("ada.rar"))
