"""The class page: what it says is what the gradebook says, nothing of a name is obeyed, and a browser can use it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from html_tree import Element, parsed

from grader import cli
from grader.batch.store import Store
from grader.gradebook import Book, Entry, Grade, Learner, grade_of
from grader.report.html import page
from grader.report.html.figures import duration, percent
from grader.report.json import to_json
from grader.report.kinds import Hidden
from grader.result import CheckResult, Diagnosis, ExerciseResult, StageResult, Status

EVIL = (
    '"><script>window.forged = 1</script><img src="http://example.invalid/x" onerror="window.forged = 1">'
    "\x1b[31m\u202eevil\u2066\x00\ud800 {{ 7 * 7 }} </title></script><!-- ' onmouseover='x"
)
STAGES = {"stage1": ("Attention", 4.0), "stage2": ("Heads", 2.0)}


def diagnosis(code: str, name: str) -> Diagnosis:
    return Diagnosis(code, name, "It was seen.", f"Why {code} matters: `d_k`.", "the line")


UNSCALED = diagnosis("unscaled", "Scores not divided by `sqrt(d_k)`")
NO_FUTURE = diagnosis("no-future", "The target padding is not combined with the causal mask")


def check(
    name: str,
    status: Status = "passed",
    mistake: Diagnosis | None = None,
    seconds: float = 0.1,
    **changes: Any,
) -> CheckResult:
    """A check of 1 point, of the exercise before the dash."""
    points = 1.0 if status == "passed" else 0.0
    fields: dict[str, Any] = {"title": f"{name.capitalize()} holds.", "hidden": False, **changes}
    return CheckResult(
        id=f"stage1/{name}", exercise=name.partition("-")[0], status=status, points=points, max_points=1.0,
        diagnosis=mistake, seconds=seconds, **fields,
    )  # fmt: skip


def attention(*checks: CheckResult) -> StageResult:
    exercises = []
    for name in dict.fromkeys(each.exercise for each in checks):
        mine = [each for each in checks if each.exercise == name]
        worst = next((each.status for each in mine if each.status != "passed"), "passed")
        exercises.append(ExerciseResult(name, "a.py", 1, worst, sum(each.points for each in mine), len(mine)))
    score = sum(each.points for each in checks)
    return StageResult(
        "The course", "stage1", "Attention", "x", "cpu", 1, "own", "", {}, "", score, 4.0, 1.0, exercises, list(checks)
    )  # fmt: skip


def heads(state: str = "graded") -> Grade:
    """The second stage: nothing in it, 2 points."""
    result = StageResult(
        "The course", "stage2", "Heads", "x", "cpu", 1, "own", "", {}, "", 2.0, 2.0, 0.0, [], []
    )
    if state == "graded":
        return grade_of(result)
    return Grade("stage2", "Heads", state, 2.0, "The archive is damaged.")  # type: ignore[arg-type]


def the_class() -> list[Entry]:
    """Two with the first mistake, one without a known one, one that is ungradable, one where the grader failed."""
    ada = attention(
        check("mask-a"),
        check("mask-b", "failed", UNSCALED, 0.3),
        check("mask-c", "failed", UNSCALED, hidden=True),
        check("attend-a", "failed", NO_FUTURE),
    )
    bob = attention(
        check("mask-a"),
        check("mask-b", "failed", UNSCALED),
        check("mask-c", "failed"),
        check("attend-a", "error", error="ValueError: no"),
    )
    zoe = attention(
        check("mask-a"), check("mask-b"), check("mask-c", "failed", seconds=9.0), check("attend-a", "todo")
    )
    fault = attention(check("mask-a"), check("mask-b", "grader_error", findings=["A pipe broke."]))
    return [
        Entry(Learner("ada.zip", "Ada Lovelace", "17", "ada", section="A"), [grade_of(ada), heads()]),
        Entry(Learner("bob", section="B"), [grade_of(bob), heads()]),
        Entry(Learner("zoe", "Zoë García", section="A"), [grade_of(zoe), heads()]),
        Entry(
            Learner("eve"),
            [Grade("stage1", "Attention", "ungradable", 4.0, "The archive is damaged."), heads("ungradable")],
        ),
        Entry(Learner("fay"), [grade_of(fault), heads()]),
    ]


def text_of(
    entries: list[Entry], stages: dict[str, tuple[str, float]] = STAGES, hidden: Hidden = Hidden.full
) -> str:
    return "".join(page.render(Book(iter(entries), stages, True), hidden))


def tree_of(entries: list[Entry], hidden: Hidden = Hidden.full) -> Element:
    return parsed(text_of(entries, hidden=hidden))


@pytest.fixture(scope="module")
def tree() -> Element:
    return tree_of(the_class())


def texts(elements: list[Element]) -> list[str]:
    return [each.text for each in elements]


# What it says -------------------------------------------------------------------------------------------------------


def test_the_table_has_the_points_of_the_gradebook(tree: Element) -> None:
    table = tree.one("table", id="class")
    head = texts(table.one("thead").all("th"))
    assert head == ["Learner", "Section", "Stage 1 of 4", "Stage 2 of 2", "Total of 6", "State"]
    rows = [texts([row.one("th"), *row.all("td")]) for row in table.one("tbody").all("tr")]
    assert rows == [
        ["Ada Lovelace ada.zip, ada", "A", "1", "2", "3", "graded"],
        ["bob", "B", "1", "2", "3", "graded"],
        ["Zoë García zoe", "A", "2", "2", "4", "graded"],
        ["eve", "", "ungradable", "ungradable", "–", "ungradable"],
        ["fay", "", "grader error", "2", "–", "grader error"],
    ]
    assert texts(table.one("tfoot").all("td")) == ["", "1.33", "2", "3.33", ""]
    assert "5 submissions: 3 graded, 1 ungradable, 1 grader error." in tree.one("header").text


def test_what_is_not_graded_is_no_number(tree: Element) -> None:
    row = tree.one("tr", id="learner-4")
    assert [cell.attributes["data-value"] for cell in row.all("td")] == ["", "", "", "", "ungradable"]
    assert row.all("td")[1].attributes["title"] == "The archive is damaged."


def test_mistakes_are_counted_once_a_learner_and_named(tree: Element) -> None:
    stage = tree.one("section", aria_labelledby="stage1")
    bars = stage.one("ol", class_="bars").all("li")
    assert texts([bar.one("summary") for bar in bars]) == [
        "67 % Scores not divided by sqrt(d_k) 2 of 3, mask",
        "33 % The target padding is not combined with the causal mask 1 of 3, attend",
    ]
    assert [bar.attributes["style"] for bar in bars] == ["--share: 0.6667", "--share: 0.3333"]
    assert texts(bars[0].all("p")) == ["Why unscaled matters: d_k.", "Ada Lovelace, bob"]
    # bob fails in `attend` and zoe in `mask`, and nothing there is explained.
    unexplained = next(each for each in stage.all("details") if "no known mistake" in each.text)
    assert unexplained.text.startswith("67 % fail") and unexplained.text.endswith("bob, Zoë García")


def test_checks_that_tell_nobody_apart_are_listed(tree: Element) -> None:
    stage = tree.one("section", aria_labelledby="stage1")
    titles = [each for each in stage.inside if isinstance(each, Element)]
    after = {each.text: titles[index + 1].text for index, each in enumerate(titles) if each.tag == "h3"}
    assert after["Checks that everybody fails"] == (
        "Mask-c holds. mask, hidden, 3 tried Attend-a holds. attend, 2 tried"
    )
    assert after["Checks that nobody fails"] == "Mask-a holds. mask, 3 tried"
    rows = [texts([row.one("th"), *row.all("td")]) for row in stage.one("table").one("tbody").all("tr")]
    assert rows[1] == ["Mask-b holds.", "mask", "33 %", "3", "100 ms"]
    assert rows[3] == ["Attend-a holds.", "attend", "0 %", "2", "100 ms"]


def test_the_facts_of_a_stage(tree: Element) -> None:
    facts = tree.one("section", aria_labelledby="stage1").one("dl")
    told = {each.one("dt").text: each.one("dd").text for each in facts.all("div")}
    assert told == {
        "Graded": "3, 1 ungradable, 1 grader error",
        "Full marks": "0 % (0)",
        "Mean, median": "1.33, 1 of 4",
        "Time": "600 ms usually; at most 9.3 s (Zoë García)",
    }


def test_feedback_is_what_the_learner_saw(tree: Element) -> None:
    told = [each.text for each in tree.all("details", class_="feedback")]
    assert len(told) == 5
    assert "Ada Lovelace: 3 of 6 points." in told[0] and "Why it matters: Why unscaled matters" in told[0]
    assert "attend raised ValueError: no" in told[1]
    assert "Not graded. The archive is damaged." in told[3]
    assert "our fault and costs you nothing" in told[4]
    closed = tree_of(the_class(), Hidden.points).all("details", class_="feedback")[0].text
    assert "1 hidden check of mask: 0 hold." in closed and "Mask-c" not in closed


def test_headings_make_an_outline(tree: Element) -> None:
    levels = [int(each.tag[1]) for each in tree.all() if re.fullmatch("h[1-6]", each.tag)]
    assert levels.count(1) == 1
    assert all(each.text for each in tree.all("th"))
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_links_lead_somewhere_on_the_page_and_ids_are_single(tree: Element) -> None:
    ids = [each.attributes["id"] for each in tree.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    targets = {each.attributes["href"] for each in tree.all("a")}
    assert targets <= {f"#{one}" for one in ids}
    named = [each.attributes.get("aria-labelledby") for each in tree.all()]
    assert {name for name in named if name} <= set(ids)


# What it never does -------------------------------------------------------------------------------------------------


def test_hostile_names_are_shown_and_obeyed_by_nothing() -> None:
    result = attention(check("mask-a", "failed", diagnosis("x", EVIL), title=EVIL, output=EVIL, error=EVIL))
    learner = Learner(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL)
    entries = [
        Entry(learner, [grade_of(result)]),
        Entry(learner, [Grade("stage1", EVIL, "ungradable", 4.0, EVIL)]),
    ]
    for hidden in Hidden:
        text = text_of(entries, {"stage1": (EVIL, 4.0)}, hidden)
        assert not re.search(
            "[\x00-\x09\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
        )
        found = parsed(text)
        assert len(found.all("script")) == 1 and not found.all("img")
        assert not [name for each in found.all() for name in each.attributes if name.startswith("on")]
        assert "<script>window.forged = 1</script>" in found.one("tr", id="learner-1").text
        assert "{{ 7 * 7 }}" in found.one("tr", id="learner-1").text


def test_nothing_is_fetched_and_only_the_pages_own_script_runs() -> None:
    found = tree_of(the_class())
    sources = {"src", "srcset", "action", "data", "poster", "background", "ping"}
    assert not [each.tag for each in found.all() if sources & set(each.attributes) or each.tag == "link"]
    policy = found.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    script = found.one("script").inside[0]
    assert isinstance(script, str) and len(found.all("style")) == 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    assert "url(" not in found.one("style").text and "@import" not in found.one("style").text


# Classes of any size ------------------------------------------------------------------------------------------------


def test_an_empty_gradebook_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.writing(tmp_path) as store:
        store.set_meta("version", "1")
    assert cli.run(["report", "html", str(tmp_path), "--to", str(tmp_path / "class.html")]) == 0
    found = parsed((tmp_path / "class.html").read_text("utf-8"))
    assert "0 submissions." in found.one("header").text
    assert "Nothing has been graded yet" in found.one("main").text and not found.all("table")


def test_one_submission_has_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_bytes(to_json(attention(check("mask-a"), check("mask-b"))))
    assert cli.run(["report", "html", str(tmp_path / "r.json"), "--to", str(tmp_path / "one.html")]) == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.html", "r.json"]
    found = parsed((tmp_path / "one.html").read_text("utf-8"))
    assert texts(found.one("tr", id="learner-1").all("td")) == ["2", "2", "graded"]
    assert "No known mistake was made." in found.one("main").text


def test_a_class_of_which_nothing_is_graded() -> None:
    found = tree_of(the_class()[3:4])
    assert texts(found.one("tfoot").all("td")) == ["", "", "", ""]
    assert "1 submission: 1 ungradable." in found.one("header").text


def test_the_page_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_bytes(to_json(attention(check("mask-a"))))
    assert cli.run(["report", "html", str(tmp_path / "r.json")]) == 2
    assert "--to class.html" in capsys.readouterr().err


def test_few_are_not_none_and_most_are_not_all() -> None:
    assert [percent(part, 1000) for part in (0, 1, 5, 314, 999, 1000)] == [
        "0 %", "<1 %", "<1 %", "31 %", ">99 %", "100 %",
    ]  # fmt: skip
    assert [duration(one) for one in (0, 0.0421, 0.9961, 9.96, 185)] == [
        "under 1 ms", "42 ms", "1.0 s", "10 s", "3 min 5 s",
    ]  # fmt: skip


# In a browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    folder = tmp_path_factory.mktemp("browser")
    chromium = Chromium(folder / "profile")
    try:
        (folder / "class.html").write_text(
            text_of([*the_class(), Entry(Learner(EVIL, EVIL), [heads()])]), "utf-8"
        )
        chromium.open(folder / "class.html")
        yield chromium
    finally:
        chromium.close()


SHOWN = "[...document.querySelectorAll('#class tbody tr')].filter(r => !r.hidden).map(r => r.id.slice(8)).join('')"
FOCUS = "document.activeElement.tagName + ' ' + document.activeElement.textContent.trim()"


def tab_to(browser: Chromium, wanted: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(40):
        browser.press("Tab")
        if browser.value(FOCUS) == wanted:
            return
    raise AssertionError(f"{wanted} cannot be reached by keyboard")


def test_a_browser_sorts_and_searches_by_keyboard(browser: Chromium) -> None:
    assert browser.value(SHOWN) == "123456"
    browser.press("Tab")
    assert browser.value(FOCUS) == "A Skip to the learners"
    tab_to(browser, "INPUT ")
    browser.type("GARCIA zoe")
    assert browser.value(SHOWN) == "3" and browser.value("shown.textContent") == "1 of 6 shown"
    browser.press("Escape")
    assert browser.value(SHOWN) == "123456" and browser.value("search.value") == ""

    tab_to(browser, "BUTTON Stage 1")
    browser.press("Enter")
    assert browser.value(SHOWN) == "123456"
    assert browser.value("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"
    browser.press(" ")
    assert browser.value(SHOWN) == "312456"  # what is not graded stays at the end
    assert browser.value("shown.textContent") == "Sorted by Stage 1, highest first"
    browser.press("Tab", shift=True)
    browser.press("Tab", shift=True)
    assert browser.value(FOCUS) == "BUTTON Learner"
    browser.press("Enter")
    assert browser.value(SHOWN).startswith("6") and browser.value(SHOWN).endswith("12453")
    assert browser.value("document.querySelectorAll('[aria-sort]').length") == 1

    tab_to(browser, "A Ada Lovelace")
    browser.press("Enter")
    assert browser.value("document.querySelector('[data-learner=\"1\"]').open") is True
    assert browser.value(FOCUS).startswith("SUMMARY Ada Lovelace")


def test_a_browser_is_told_what_things_are(browser: Chromium) -> None:
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    found = {
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node
    }
    assert {
        ("searchbox", "Search names, logins, sections and states"),
        ("table", "Learners"),
        ("region", "Learners"),
        ("navigation", "On this page"),
        ("rowheader", "Ada Lovelace ada.zip, ada"),
    } <= found
    assert any(role == "status" for role, _ in found)


def test_a_browser_fits_a_phone_and_the_dark(browser: Chromium) -> None:
    browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    for dark, light in ((False, 255), (True, 40)):
        browser.show(390, 844, dark)
        assert browser.value("document.documentElement.scrollWidth") <= 390
        colours = browser.value("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
        assert abs(max(map(int, colours)) - light) < 20


def test_a_browser_runs_and_fetches_nothing_else(browser: Chromium) -> None:
    assert browser.value("'forged' in window") is False
    urls = {one["request"]["url"].partition("#")[0] for one in browser.told("Network.requestWillBeSent")}
    assert all(url.startswith("file://") and url.endswith("/class.html") for url in urls)
    assert not browser.told("Runtime.exceptionThrown") and not browser.told("Log.entryAdded")
