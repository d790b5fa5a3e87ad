"""The JSON schemas that AutoGen's documents show for each class, and the instances and near misses they make."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from tests.formats.autogen.recorded_cases import GOLDENS

Json = dict[str, Any]
SCHEMAS: dict[str, dict[str, Json]] = json.loads((GOLDENS / "autogen" / "documents.json").read_text("utf-8"))
IMAGE = {"data": "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP8z8DAwMAAAAYIAQHLR3Z1AAAAAElFTkSuQmCC"}
OTHERS: list[Any] = [None, 3, 2.5, True, "x", "", [], {}]
CLASSES = [
    (version, name)
    for version, schemas in SCHEMAS.items()
    for name in schemas
    if "type" in schemas[name].get("properties", {}) or name == "StructuredMessage"
]


def accepts(version: str, name: str, item: Any) -> bool:
    return bool(Draft202012Validator(SCHEMAS[version][name]).is_valid(item))


def instance(version: str, name: str) -> Json:
    """An item with all that its class can have."""
    schema = SCHEMAS[version][name]
    made: Json = _made(schema, schema.get("$defs", {}))
    return {"type": f"{name}[X]"} | made if name == "StructuredMessage" else made


def _made(schema: Json, defs: Json) -> Any:
    if "$ref" in schema:
        return _made(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "const" in schema:
        return schema["const"]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _made(schema[word][0], defs)
    match schema.get("type"):
        case "object":
            return {key: _made(one, defs) for key, one in schema.get("properties", {}).items()}
        case "array":
            choices = schema["items"].get("anyOf") or schema["items"].get("oneOf") or [schema["items"]]
            return [_made(one, defs) for one in choices]
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "1"
        case "integer":
            return 1
        case "boolean":
            return True
    return IMAGE


def near(item: Json) -> Iterator[tuple[str, Json]]:
    """The item with each of its keys left out, and with each of its values replaced by one of another kind."""
    for place in list(_places(item)):
        *way, last = place
        shown = ".".join("*" if isinstance(step, int) else step for step in place)
        if isinstance(last, str):
            changed = copy.deepcopy(item)
            del _at(changed, way)[last]
            yield f"{shown} left out", changed
        for other in OTHERS:
            changed = copy.deepcopy(item)
            _at(changed, way)[last] = other
            yield f"{shown} = {json.dumps(other)}", changed


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (step,)
        for rest in _places(inner):
            yield (step, *rest)


def _at(value: Any, way: list[Any]) -> Any:
    for step in way:
        value = value[step]
    return value
