"""The result as JSON, and the schema that this JSON keeps to."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.result import SCHEMA_VERSION, StageResult

SCHEMA_FILE = "docs/result.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def to_json(result: StageResult) -> bytes:
    """The result as indented UTF-8 JSON with a line break at its end."""
    try:
        encoded = msgspec.json.encode(result)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(without_surrogates(msgspec.to_builtins(result)))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of a result."""
    (described,), components = msgspec.json.schema_components([StageResult], ref_template="#/$defs/{name}")
    for component in components.values():
        component["required"] = sorted(component.get("properties", {}))
    components["StageResult"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": DIALECT,
        "title": "The graded result of one stage",
        **described,
        "$defs": components,
    }


def schema_text() -> str:
    """The text of `docs/result.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


def without_surrogates(value: Any) -> Any:
    """The same plain data; half characters, which UTF-8 cannot carry, are written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value
