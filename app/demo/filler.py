"""Fills a function's parameters: values that fit its JSON schema, taken from the question where it gives any."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.demo.clues import Clues
from app.demo.names import DAY, EXPRESSION, LANGUAGE, WHOLE_QUESTION, is_free_text
from app.demo.pattern import sample
from app.demo.schema import MAX_DEPTH, Schema, bound, fits, kinds, merge, resolve, same
from app.demo.values import FORMATS, MOST_ITEMS, in_range, kinds_of, neighbours

_SUM = re.compile(r"[\d(](?:[\d\s+*/().^%-]*[\d)])?")
_ISO_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_MOST_TEXT = 300
_MOST_VALUES = 300


class Filler:
    """Fills one schema once; each name and number of the question is used once while there are others."""

    def __init__(self, root: Any, clues: Clues, language: str = "en") -> None:
        self._root: Schema = root if isinstance(root, Mapping) else {}
        self._clues = clues
        self._language = language
        self._names = list(clues.names)
        self._numbers = list(clues.numbers)
        self._left = _MOST_VALUES

    def fill(self) -> Any:
        return self._value(self._root, "", 0)

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        self._left -= 1
        found = resolve(schema, self._root)
        if depth > MAX_DEPTH or self._left < 0:
            return {} if "object" in kinds(found) else None
        value = None
        for value in self._candidates(found, name, depth):
            if fits(value, found, self._root):
                return value
        return value

    def _candidates(self, schema: Schema, name: str, depth: int) -> Iterator[Any]:
        """Likely values first; the last one stands when none fits."""
        if "const" in schema:
            yield schema["const"]
        if isinstance(schema.get("enum"), list):
            yield from self._mentioned(schema["enum"])
        for key in ("anyOf", "oneOf"):
            yield from self._options(schema, key, name, depth)
        for kind in kinds_of(schema):
            yield from self._from_question(schema, kind, name)
        if "default" in schema:
            yield schema["default"]
        if isinstance(schema.get("examples"), list):
            yield from schema["examples"]
        if isinstance(schema.get("enum"), list):
            yield from schema["enum"]
        for kind in kinds_of(schema):
            yield from self._made(schema, kind, name, depth)

    def _mentioned(self, values: list[Any]) -> list[Any]:
        question = self._clues.question.casefold()
        return [each for each in values if isinstance(each, str) and each and each.casefold() in question]

    def _options(self, schema: Schema, key: str, name: str, depth: int) -> Iterator[Any]:
        options = schema.get(key)
        if not isinstance(options, list):
            return
        base = {each: value for each, value in schema.items() if each != key}
        found = [merge(base, resolve(each, self._root)) for each in options if each is not False]
        for option in sorted(found, key=lambda each: kinds(each) == ["null"]):
            yield self._value(option, name, depth + 1)

    def _from_question(self, schema: Schema, kind: str, name: str) -> Iterator[Any]:
        if kind in ("integer", "number"):
            yield from self._numbers_left(schema)
        elif kind == "string" and not any(key in schema for key in ("format", "pattern")):
            yield from self._texts(schema, name)

    def _numbers_left(self, schema: Schema) -> Iterator[int | float]:
        for number in [each for each in self._numbers if fits(each, schema, self._root)][:1]:
            self._numbers.remove(number)
            yield number

    def _texts(self, schema: Schema, name: str) -> Iterator[str]:
        question = self._clues.question
        if DAY.search(name):
            yield from _ISO_DAY.findall(question)[:1]
            yield "today"
        if LANGUAGE.search(name):
            yield self._language
        if EXPRESSION.search(name):
            yield from sorted((each.strip() for each in _SUM.findall(question)), key=len, reverse=True)[:1]
        if is_free_text(name, schema):
            yield from self._names_left(schema)
        if WHOLE_QUESTION.search(name):
            yield from self._clues.quotations[:1]
            yield question[:_MOST_TEXT]

    def _names_left(self, schema: Schema) -> Iterator[str]:
        for text in self._names:
            if fits(text, schema, self._root):
                self._names.remove(text)
                yield text
                return

    def _made(self, schema: Schema, kind: str, name: str, depth: int) -> Iterator[Any]:
        match kind:
            case "object":
                yield self._object(schema, depth)
            case "array":
                yield from self._arrays(schema, name, depth)
            case "integer" | "number":
                yield from in_range(schema, kind)
            case "boolean":
                yield from (True, False)
            case "null":
                yield None
            case _:
                yield from self._lengths(schema, name)

    def _lengths(self, schema: Schema, name: str) -> Iterator[str]:
        least, most = int(bound(schema, "minLength", 0)), int(min(bound(schema, "maxLength", _MOST_TEXT), 10_000))
        if isinstance(schema.get("pattern"), str):
            yield sample(schema["pattern"])
        if isinstance(schema.get("format"), str):
            yield FORMATS.get(schema["format"], "example")
        text = self._clues.question or name or "example"
        if len(text) < least <= 10_000:
            text = (text + " ") * (least // (len(text) + 1) + 1)
            most = max(least, min(most, len(text)))
        yield text[: max(most, 0)]
        if isinstance(schema.get("pattern"), str):
            yield sample(schema["pattern"])

    def _arrays(self, schema: Schema, name: str, depth: int) -> Iterator[list[Any]]:
        first = schema.get("prefixItems")
        heads = first if isinstance(first, list) else []
        items = schema.get("items", {})
        least = int(bound(schema, "minItems", 0))
        wanted = max(least, len(heads), 1)
        if is_free_text(name, resolve(items, self._root)):
            wanted = max(wanted, len(self._clues.alike))
        count = int(min(wanted, bound(schema, "maxItems", math.inf), MOST_ITEMS))
        value = [self._value(heads[at] if at < len(heads) else items, name, depth + 1) for at in range(count)]
        yield self._distinct(value, items) if schema.get("uniqueItems") is True else value
        if least <= 0:
            yield []

    def _distinct(self, values: list[Any], items: Any) -> list[Any]:
        """Repeated values are replaced by neighbours of theirs that fit as well."""
        found: list[Any] = []
        schema = resolve(items, self._root)
        for value in values:
            others = (each for each in neighbours(value, schema) if fits(each, schema, self._root))
            new = next((each for each in others if not any(same(each, other) for other in found)), None)
            found += [new] if new is not None or fits(None, schema, self._root) else []
        return found

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        known = schema.get("properties")
        properties: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
        listed = schema.get("required")
        required = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
        value = {
            key: self._value(properties.get(key, schema.get("additionalProperties", {})), key, depth + 1)
            for key in required
        }
        optional = [key for key in properties if key not in value]
        for key in optional:
            if depth <= 1 and self._is_asked(key, resolve(properties[key], self._root), bool(value)):
                value[key] = self._value(properties[key], key, depth + 1)
        missing = int(bound(schema, "minProperties", 0)) - len(value)
        for key in [key for key in optional if key not in value][: max(0, missing)]:
            value[key] = self._value(properties[key], key, depth + 1)
        fewest = {key: value[key] for key in required}
        return value if len(value) <= bound(schema, "maxProperties", math.inf) else fewest

    def _is_asked(self, name: str, schema: Schema, has_others: bool) -> bool:
        """Whether the question gives a value for an optional property."""
        if isinstance(schema.get("enum"), list):
            return bool(self._mentioned(schema["enum"]))
        if kinds_of(schema)[0] in ("integer", "number"):
            return any(fits(each, schema, self._root) for each in self._numbers)
        if is_free_text(name, schema):
            return bool(self._names) and not (has_others and self._clues.alike)
        return not has_others and kinds_of(schema)[0] == "string"
