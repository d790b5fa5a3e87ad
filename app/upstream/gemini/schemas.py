"""Write a JSON schema in the form that older models of the Gemini API take: a part of OpenAPI's schemas.

One keyword that the API does not know is an error for the whole request (zed-industries/zed issue 44875). The keywords
are those of ai.google.dev/api/caching, Schema. What they cannot say is left out: it only makes a schema wider.
"""

from collections.abc import Mapping
from typing import Any

from app.openai_messages.tool_schemas import find_definition

Json = dict[str, Any]
_KEPT = ("title", "description")
_KEPT_OF: Mapping[str, tuple[str, ...]] = {
    "ARRAY": ("minItems", "maxItems"),
    "STRING": ("minLength", "maxLength", "pattern"),
    **dict.fromkeys(("INTEGER", "NUMBER"), ("minimum", "maximum")),
}
"""By the type. At another they are an error, too: "only allowed for OBJECT type" (anomalyco/opencode issue 11889)."""
_FORMATS = frozenset(("date-time", "enum", "int32", "int64", "float", "double"))
_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object"))
_MAX_DEPTH = 64
_MAX_SIZE = 20_000
"""How many schemas one schema may become: a definition may be used many times."""
_ANY_OBJECT = {"type": "OBJECT"}
_ANY_VALUE: tuple[Json, ...] = (
    *({"type": name} for name in ("STRING", "NUMBER", "BOOLEAN", "OBJECT")),
    {"type": "ARRAY", "items": {"type": "STRING"}},
)
"""The types of a value that a schema says nothing of: Vertex refuses a schema without a type."""
_OF_EACH = ("title", "description", "nullable")
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def write_openapi(schema: Mapping[str, Any]) -> Json:
    """Return the schema in the form of OpenAPI, without references."""
    return _Writer(schema).write(schema, (), _MAX_DEPTH)


def drop_identity(schema: Mapping[str, Any]) -> Json:
    """Return a JSON schema without what names its version and its address."""
    return {name: value for name, value in schema.items() if name not in ("$schema", "$id")}


class _Writer:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._size = 0

    def write(self, given: Any, within: tuple[str, ...], depth: int) -> Json:
        """Write one schema; `within` are the references that it stands in."""
        self._size += 1
        if not isinstance(given, Mapping):
            given = {}  # `true` is any value
        reference = given.get("$ref")
        if isinstance(reference, str):
            target = find_definition(self._root, reference)
            if not depth or self._size > _MAX_SIZE or reference in within or target is None:
                return dict(_ANY_OBJECT)
            rest = {name: value for name, value in given.items() if name != "$ref"}
            return self.write({**target, **rest}, (*within, reference), depth - 1)
        if not depth or self._size > _MAX_SIZE:
            return dict(_ANY_OBJECT)
        return self._write_own(_merge_all(given, self._root), within, depth - 1)

    def _write_own(self, given: Mapping[str, Any], within: tuple[str, ...], depth: int) -> Json:
        kinds, alternatives, nullable = _read_types(given)
        if len(kinds) > 1 and not alternatives:
            alternatives = [{"type": kind} for kind in kinds]
            kinds = []
        written: Json = {}
        if kinds:
            written["type"] = kinds[0].upper()
        if nullable:
            written["nullable"] = True
        if given.get("format") in _FORMATS:
            written["format"] = given["format"]
        self._add_values(given, written)
        for name in (*_KEPT, *_KEPT_OF.get(written.get("type", ""), ())):
            if given.get(name) is not None:
                written[name] = given[name]
        self._add_bounds(given, written)
        self._add_inner(given, written, within, depth)
        inner = [self.write(one, within, depth) for one in alternatives]
        if len(inner) == 1:
            return {**inner[0], **written}
        if not inner and "type" not in written:
            inner = [dict(one) for one in _ANY_VALUE]
        if not inner:
            return written
        # Vertex takes no other field beside `anyOf`.
        said = {name: written[name] for name in _OF_EACH if name in written}
        return {"anyOf": [{**said, **one} for one in inner]}

    def _add_values(self, given: Mapping[str, Any], written: Json) -> None:
        """Add the values that a text may have. The API takes no others."""
        values = [given["const"]] if "const" in given else given.get("enum")
        texts = [value for value in values if value is not None] if isinstance(values, list) else []
        if texts and "type" not in written and (name := _NAMES.get(type(texts[0]))):
            written["type"] = name.upper()
        if texts and all(isinstance(value, str) for value in texts) and written.get("type") == "STRING":
            written["enum"] = texts
        if isinstance(values, list) and None in values:
            written["nullable"] = True

    def _add_bounds(self, given: Mapping[str, Any], written: Json) -> None:
        """Add the bounds of a whole number that exclude their value."""
        if written.get("type") != "INTEGER":
            return
        low, high = given.get("exclusiveMinimum"), given.get("exclusiveMaximum")
        if type(low) is int:
            written["minimum"] = low + 1
        if type(high) is int:
            written["maximum"] = high - 1

    def _add_inner(self, given: Mapping[str, Any], written: Json, within: tuple[str, ...], depth: int) -> None:
        properties, items, names = given.get("properties"), given.get("items"), given.get("required")
        if written.get("type") == "OBJECT" and isinstance(properties, Mapping) and properties:
            written["properties"] = {name: self.write(one, within, depth) for name, one in properties.items()}
            required = [name for name in names if name in properties] if isinstance(names, list) else []
            if required:
                written["required"] = required
        if written.get("type") == "ARRAY":
            written["items"] = self.write(items, within, depth) if items else {"type": "STRING"}


def _read_types(given: Mapping[str, Any]) -> tuple[list[str], list[Any], bool]:
    """Return (the types, the alternatives, whether null is one of them)."""
    kind = given.get("type")
    listed: list[Any] = kind if isinstance(kind, list) else [kind]
    kinds = [one for one in listed if isinstance(one, str)]
    nullable = "null" in kinds or given.get("nullable") is True
    known = [one.lower() for one in kinds if one.lower() in _TYPES]
    alternatives: list[Any] = []
    for name in ("anyOf", "oneOf"):
        options = given.get(name)
        alternatives += options if isinstance(options, list) else []
    kept = [one for one in alternatives if not _is_null(one)]
    if not known and not kept:
        known = ["object"] if isinstance(given.get("properties"), Mapping) else ["array"] if "items" in given else []
    return known, kept, nullable or len(kept) < len(alternatives)


def _merge_all(given: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with what the schemas of its `allOf` say."""
    parts = given.get("allOf")
    if not isinstance(parts, list):
        return given
    merged: Json = {}
    for part in [*parts, {name: value for name, value in given.items() if name != "allOf"}]:
        reference = part.get("$ref") if isinstance(part, Mapping) else None
        target = find_definition(root, reference) if isinstance(reference, str) else part
        for name, value in target.items() if isinstance(target, Mapping) else ():
            known = merged.get(name)
            if name == "properties" and isinstance(known, dict) and isinstance(value, Mapping):
                merged[name] = {**known, **value}
            elif name == "required" and isinstance(known, list) and isinstance(value, list):
                merged[name] = [*known, *(one for one in value if one not in known)]
            elif name != "allOf":
                merged[name] = value
    return merged


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"
