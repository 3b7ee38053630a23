"""Lists of a class as the systems of universities export them, and whose a submission is."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.batch.roster import match, read_roster
from grader.errors import UsageError
from grader.gradebook import Learner

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Stage 1 (5)\n"
    "    Points Possible,,,,,40\n"
    '"Lovelace, Ada",17,s17,ada,A,\n"Student, Test",99,,x,A,\n'
)
GRADESCOPE = "First Name,Last Name,SID,Email,Sections\nAda,Lovelace,17,ada@uni.example,A\n"
MOODLE = "\ufeffFirst name;Surname;ID number;Email address\nAda;Lovelace;17;ada@uni.example\n"
CLASSROOM = "identifier,github_username,name\nx,ada,Ada Lovelace\n"


@pytest.mark.parametrize("text", [CANVAS, GRADESCOPE, MOODLE, CLASSROOM])
def test_lists_of_other_systems_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "class.csv").write_text(text, encoding="utf-8")
    (learner,) = read_roster(tmp_path / "class.csv")
    assert learner.name in ("Lovelace, Ada", "Ada Lovelace")
    assert learner.id == "17" or learner.login == "ada"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"colour,size\nred,3\n", "no column is called"),
        (b"name\n", "lists nobody"),
        (b"name\nAd\xff\n", "is not UTF-8: byte 7"),
        (b'name\n"Ada\n', "is not a CSV file"),
        (b"name,id\nAda,1\nBob,1\n", "lists the id '1' twice"),
    ],
)
def test_wrong_lists_are_refused_with_the_reason(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "class.csv").write_bytes(data)
    with pytest.raises(UsageError, match=said):
        read_roster(tmp_path / "class.csv")


def test_submissions_find_their_learners() -> None:
    roster = [
        Learner("", "Lovelace, Ada", "17", "ada", "ada.l@uni.example"),
        Learner("", "Noether, Emmy", "23", "emmy"),
        Learner("repo-3", "Curie, Marie", "31", "marie"),
        Learner("", "Smith, Jo", "41", "jo1"),
        Learner("", "Smith, Jo", "42", "jo2"),
        Learner("", "Hopper, Grace", "51", "grace"),
    ]
    names = [
        "ADA",
        "Noether Emmy_23_assignsubmission_file",
        "repo-3",
        "Smith Jo",
        "51_99812_work",
        "stranger",
    ]
    matched, absent = match(names, roster)
    assert {name: learner.login for name, learner in matched.items()} == {
        "ADA": "ada",
        "Noether Emmy_23_assignsubmission_file": "emmy",
        "repo-3": "marie",
        "51_99812_work": "grace",
    }
    assert [learner.submission for learner in absent] == ["jo1", "jo2"]
    assert matched["ADA"].submission == "ADA"
