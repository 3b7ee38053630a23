"""The known mistakes: a stage's own, from its mistakes.toml, and the general ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from grader.failure import CheckFault
from grader.outline import Outline
from grader.result import Diagnosis, Place

GENERAL = Path(__file__).with_name("general.toml")


class Mistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mistake that people really make, and what to say to them."""

    name: str
    seen: str
    why: str
    look_at: str
    find: list[str] = []
    """Plain words; the first line of the exercise with one of them is the line to look at. "a ... b" is a line with
    a and, later, b."""
    exercise: str = ""


Catalogue = dict[str, Mistake]


def load_mistakes(path: Path) -> Catalogue:
    """The mistakes of one file; raises CheckFault when it is not as it should be."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Mistake])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckFault(f"{path.parent.parent.name}/checks/{path.name}: {error}") from None


def catalogue(checks: Path) -> Catalogue:
    """A stage's mistakes and the general ones."""
    return {**load_mistakes(GENERAL), **stage_mistakes(checks)}


def stage_mistakes(checks: Path) -> Catalogue:
    """A stage's own mistakes, from every mistakes*.toml of its checks folder."""
    found: Catalogue = {}
    for path in sorted(checks.glob("mistakes*.toml")):
        found.update(load_mistakes(path))
    return found


def diagnosis(
    known: Catalogue, code: str, facts: dict[str, Any], exercise: str, outlines: dict[str, Outline], file: str
) -> Diagnosis:
    """What to tell the learner about a mistake; raises CheckFault when it is not known or a fact is missing."""
    if code not in known:
        raise CheckFault(f"no mistakes.toml describes {code!r}")
    mistake = known[code]
    try:
        seen = mistake.seen.format(**facts)
        name = mistake.name.format(**facts)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise CheckFault(f"the text of mistake {code!r} does not fit its facts: {error!r}") from None
    place = where_to_look(mistake, mistake.exercise or exercise, outlines, file)
    return Diagnosis(code, name, seen[:1].upper() + seen[1:], mistake.why, mistake.look_at, place)


def where_to_look(mistake: Mistake, exercise: str, outlines: dict[str, Outline], file: str) -> Place | None:
    """The first line of the exercise that holds one of the mistake's words, tried in their order."""
    beside = (path for path in outlines if path.rpartition("/")[0] == file.rpartition("/")[0])
    found = [
        (path, outlines[path], outlines[path].definitions[exercise])
        for path in dict.fromkeys([file, *beside])
        if path in outlines and exercise in outlines[path].definitions
    ]
    # A file that only imports the exercise is the last place to look.
    for path, outline, definition in sorted(found, key=lambda item: item[2].imported):
        for word in mistake.find:
            for line in outline.code_lines(definition):
                if _stands_in(word, outline.lines[line - 1]):
                    return Place(path, line, outline.lines[line - 1].strip()[:200])
        return Place(path, definition.line, outline.lines[definition.line - 1].strip()[:200])
    return None


def _stands_in(word: str, line: str) -> bool:
    """Whether the parts of the word stand in the line, in their order."""
    at = 0
    for part in word.split(" ... "):
        found = line.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
