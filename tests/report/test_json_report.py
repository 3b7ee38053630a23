"""The JSON keeps to the schema in the repository, and the schema is the one that the code describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from grader.report.json import SCHEMA_FILE, schema, schema_text, to_json
from grader.result import StageResult

ROOT = Path(__file__).parents[2]


def test_the_schema_in_the_repository_is_up_to_date() -> None:
    text = (ROOT / SCHEMA_FILE).read_text(encoding="utf-8")
    assert text == schema_text(), f"run: python -m grader schema > {SCHEMA_FILE}"


@pytest.mark.parametrize("name", ["unscaled", "every_status", "untouched", "complete"])
def test_results_validate_and_come_back_the_same(name: str, request: pytest.FixtureRequest) -> None:
    result: StageResult = request.getfixturevalue(name)
    written = to_json(result)
    validate(json.loads(written))
    assert msgspec.json.decode(written, type=StageResult) == result
    assert written.endswith(b"}\n")


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"earlier": "mine"},
        {"score": "all"},
        {"checks": [{"id": "stage1/x"}]},
    ],
)
def test_what_is_no_result_does_not_validate(unscaled: StageResult, change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(json.loads(to_json(unscaled)) | change)


def test_an_unknown_status_does_not_validate(unscaled: StageResult) -> None:
    plain = json.loads(to_json(unscaled))
    plain["checks"][0]["status"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        validate(plain)


def test_half_characters_and_values_that_are_no_numbers_can_be_written(unscaled: StageResult) -> None:
    unscaled.checks[4].output = "a\ud800b \x1b[31m 注"
    detail = unscaled.checks[4].detail
    assert detail is not None
    unscaled.checks[4].detail = msgspec.structs.replace(detail, largest_difference=float("nan"))
    plain = json.loads(to_json(unscaled))
    validate(plain)
    assert plain["checks"][4]["output"] == "a\\ud800b \x1b[31m 注"
    assert plain["checks"][4]["detail"]["largest_difference"] is None


def validate(plain: Any) -> None:
    jsonschema.Draft202012Validator(schema()).validate(plain)
