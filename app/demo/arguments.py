"""Fills a function's parameters or a response format: values of the type that a JSON schema asks for.

Values come from the question where it has any that fit, then from the schema (`const`, `enum`, `default`, `examples`),
then from a table. Type, `enum`, `required`, bounds and lengths, `format`, `anyOf`, `allOf` and local `$ref` are
followed; `pattern`, `not` and conditions are not.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

SUM = re.compile(r"\(?\d[\d\s().]*\s*[-+*/^%×÷](?=[\d\s(])[\d\s+*/().^%×÷-]*[\d)]")
EXPRESSION = re.compile(r"expr|formula|equation", re.I)
_TEXT = re.compile(
    r"quer|quest|text|prompt|search|input|message|content|keyword|sentence|answer|body|^q$|instruction|description|"
    r"reason|thought|task|summary",
    re.I,
)
_DAY = re.compile(r"date|day|when", re.I)
_ISO_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,10})?(?![\w]|\.\d)")
_QUOTED = re.compile(r'"([^"\n]+)"|“([^”\n]+)”|«([^»\n]+)»|(?<!\w)\'([^\'\n]+)\'(?!\w)')
_WORD = re.compile(r"[^\W\d_]+(?:[’'.-][^\W\d_]+)*")
_PREPOSITIONS = frozenset(["in", "at", "for", "near", "from", "to", "of", "about", "with", "between"])
_LINK = re.compile(
    r"\s*(?P<comma>[,;]?)\s*(?P<word>(?:and|or|&)?)\s*(?:(?:in|at|for|near|from|to|of|with)\s+)?(?:the\s+)?", re.I
)
_IGNORED = """a an the is are was be do does did can could will would shall should i you he she it we they me my your
    our their this that these those what which who whom whose where when why how there here of in on at to for from by
    with and or but not no yes if as than then so about please tell show give get fetch find set make run call use want
    need know let current currently now today tomorrow one any all some tool tools function functions data info
    information user item value name return returns given also just like look up check answer ask json"""
IGNORED_WORDS = frozenset(_IGNORED.split())
"""Words that do not say what a question is about."""

_MAX_QUESTION = 2000
_MAX_LISTED = 4
_MAX_TEXT = 300
_MAX_LENGTH = 10_000
_MAX_ITEMS = 100
_MAX_DEPTH = 12
_MAX_VALUES = 300
_FORMATS: Mapping[str, str] = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_IMPLIED_TYPES = {"properties": "object", "required": "object", "items": "array", "minimum": "number"}


@dataclass(frozen=True, slots=True)
class Details:
    """What a text gives to fill arguments with."""

    text: str = ""
    names: tuple[str, ...] = ()
    """Quoted words, else capitalised ones, else what follows a preposition."""
    listed: tuple[str, ...] = ()
    """Names that the text lists ("Paris and Tokyo"); empty or at least two."""
    numbers: tuple[int | float, ...] = ()

    def only(self, name: str) -> "Details":
        return replace(self, names=(name,), listed=())


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    start: int
    end: int


def find_details(question: str) -> Details:
    text = question[:_MAX_QUESTION]
    quoted = [_Name(next(filter(None, match.groups())), *match.span()) for match in _QUOTED.finditer(text)]
    unquoted = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    names = _find_capitalised(unquoted) or _find_objects(unquoted)
    lists = list(_join_lists(text, sorted([*quoted, *names], key=lambda name: name.start)))
    found = dict.fromkeys([name.text for name in quoted] + [name for names in lists for name in names])
    longest = max((list(dict.fromkeys(names)) for names in lists), key=len, default=[])
    listed = tuple(longest[:_MAX_LISTED])
    numbers = (float(each) if "." in each else int(each) for each in _NUMBER.findall(unquoted))
    return Details(text.strip(), tuple(found), listed if len(listed) > 1 else (), tuple(numbers))


def _find_capitalised(text: str) -> list[_Name]:
    """Runs of capitalised words; those that begin a sentence only when there are no others."""
    runs: list[_Name] = []
    for match in _WORD.finditer(text):
        word = re.sub(r"[’']s$", "", match[0])
        if not word[0].isupper() or word.casefold() in IGNORED_WORDS:
            continue
        end = match.start() + len(word)
        start = runs.pop().start if runs and text[runs[-1].end : match.start()] == " " else match.start()
        runs.append(_Name(text[start:end], start, end))
    inside = [
        run for run in runs if not re.search(r"(?:^|[.?!:\n])[\s\"'(]*$", text[max(0, run.start - 9) : run.start])
    ]
    return inside or runs


def _find_objects(text: str) -> list[_Name]:
    """Words that follow a preposition ("in paris"), and words linked to one ("and tokyo")."""
    found: list[_Name] = []
    before = ""
    for match in _WORD.finditer(text):
        link = _LINK.fullmatch(text[found[-1].end : match.start()]) if found else None
        linked = link is not None and bool(link["comma"] or link["word"])
        word = match[0].casefold()
        if (before in _PREPOSITIONS or linked) and len(word) > 1 and word not in IGNORED_WORDS | _PREPOSITIONS:
            found.append(_Name(match[0], *match.span()))
        before = word
    return found


def _join_lists(text: str, names: list[_Name]) -> Iterator[list[str]]:
    """Names that are listed together. Two that only a comma joins are one name: "Paris, France"."""
    at = 0
    while at < len(names):
        end = at + 1
        words = ""
        while end < len(names):
            link = _LINK.fullmatch(text[names[end - 1].end : names[end].start])
            if link is None or not (link["comma"] or link["word"]):
                break
            words += link["word"]
            end += 1
        if end - at == 2 and not words and text[names[at].start] == names[at].text[0]:
            yield [text[names[at].start : names[end - 1].end]]
        else:
            yield [name.text for name in names[at:end]]
        at = end


def is_name_parameter(name: str, schema: Schema) -> bool:
    """Whether a name from the question can be the value: free text that is not the whole question or a date."""
    if any(key in schema for key in ("enum", "const", "format", "pattern")) or _read_types(schema)[0] != "string":
        return False
    return not (_TEXT.search(name) or _DAY.search(name))


def read_properties(parameters: Schema) -> dict[str, Schema]:
    properties = _resolve(parameters, parameters).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {key: _resolve(schema, parameters) for key, schema in known.items()}


def fill_schema(schema: Schema, details: Details) -> Any:
    """A value of the schema's type. Each name and number of the text is used once."""
    return _SchemaFiller(schema, details).fill(schema, "", 0)


class _SchemaFiller:
    def __init__(self, root: Schema, details: Details) -> None:
        self._root = root
        self._details = details
        self._names = list(details.names)
        self._numbers = list(details.numbers)
        self._values_left = _MAX_VALUES

    def fill(self, schema: Any, name: str, depth: int) -> Any:
        self._values_left -= 1
        found = _resolve(schema, self._root)
        kind = _read_types(found)[0]
        if depth > _MAX_DEPTH or self._values_left < 0:
            return {"object": {}, "array": []}.get(kind)
        if "const" in found:
            return found["const"]
        if isinstance(found.get("enum"), list) and found["enum"]:
            defaults = [value for value in found["enum"] if "default" in found and value == found["default"]]
            return [*self._find_mentioned(found["enum"]), *defaults, *found["enum"]][0]
        for key in ("anyOf", "oneOf"):
            if options := self._read_options(found, key):
                return self.fill(options[0], name, depth + 1)
        match kind:
            case "object":
                return self._fill_object(found, depth)
            case "array":
                return self._fill_array(found, name, depth)
            case "integer" | "number":
                return self._fill_number(found, kind)
            case "boolean":
                return found.get("default") is not False
            case "null":
                return None
            case _:
                return self._fill_string(found, name)

    def _read_options(self, schema: Schema, key: str) -> list[Schema]:
        """The alternatives, `null` last."""
        options = schema.get(key)
        if not isinstance(options, list):
            return []
        base = {each: value for each, value in schema.items() if each != key}
        merged = [_merge(base, _resolve(option, self._root)) for option in options]
        return sorted(merged, key=lambda option: _read_types(option)[0] == "null")

    def _find_mentioned(self, values: list[Any]) -> list[Any]:
        text = self._details.text.casefold()
        return [value for value in values if isinstance(value, str) and value and value.casefold() in text]

    def _fill_string(self, schema: Schema, name: str) -> str:
        least = int(min(_read_bound(schema, "minLength", 0), _MAX_LENGTH))
        most = int(max(least, min(_read_bound(schema, "maxLength", _MAX_TEXT), _MAX_LENGTH)))
        text = next(text for text in self._find_texts(schema, name) if text)
        while len(text) < least:
            text += f" {text}"
        return text[:most]

    def _find_texts(self, schema: Schema, name: str) -> Iterator[str]:
        if is_name_parameter(name, schema) and self._names:
            yield self._names.pop(0)
        if _DAY.search(name) and not schema.keys() & {"format", "pattern"}:
            yield next(iter(_ISO_DAY.findall(self._details.text)), "today")
        if EXPRESSION.search(name):
            yield next((match[0] for match in SUM.finditer(self._details.text)), "")
        yield from (text for text in _read_suggestions(schema) if isinstance(text, str))
        if isinstance(schema.get("format"), str):
            yield _FORMATS.get(schema["format"], "example")
        yield from (self._details.text, name, "example")

    def _fill_number(self, schema: Schema, kind: str) -> int | float:
        suggestions = (each for each in _read_suggestions(schema) if isinstance(each, int | float))
        for value in [*self._numbers, *suggestions, 1, 0, *_find_in_range(schema)]:
            if _fits_number(value, schema, kind):
                if value in self._numbers:
                    self._numbers.remove(value)
                return int(value) if kind == "integer" else value
        return 1

    def _fill_array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        items = schema.get("items", {})
        wanted = max(_read_bound(schema, "minItems", 0), 1)
        if is_name_parameter(name, _resolve(items, self._root)):
            wanted = max(wanted, len(self._details.listed))
        count = int(min(wanted, _read_bound(schema, "maxItems", math.inf), _MAX_ITEMS))
        return [self.fill(items, name, depth + 1) for _ in range(count)]

    def _fill_object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """The required properties, and the optional ones for which the question has a value."""
        properties = schema["properties"] if isinstance(schema.get("properties"), Mapping) else {}
        listed = schema.get("required")
        required = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
        value = {key: self.fill(properties.get(key, {}), key, depth + 1) for key in required}
        for key in properties:
            wanted = key not in value and depth <= 1
            if wanted and self._has_value_for(key, _resolve(properties[key], self._root), bool(value)):
                value[key] = self.fill(properties[key], key, depth + 1)
        return value

    def _has_value_for(self, name: str, schema: Schema, has_others: bool) -> bool:
        kind = _read_types(schema)[0]
        if isinstance(schema.get("enum"), list):
            return bool(self._find_mentioned(schema["enum"]))
        if kind in ("integer", "number"):
            return any(_fits_number(each, schema, kind) for each in self._numbers)
        if is_name_parameter(name, schema):
            return bool(self._names) and not (has_others and self._details.listed)
        return not has_others and kind == "string"


def _resolve(schema: Any, root: Schema, depth: int = 0) -> dict[str, Any]:
    """Follows local `$ref`s and merges `allOf`; what cannot be followed allows everything."""
    if not isinstance(schema, Mapping):
        return {}
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema.get("$ref"), str):
            break
        schema = _merge(
            _find_reference(schema["$ref"], root), {key: each for key, each in schema.items() if key != "$ref"}
        )
    parts = schema.get("allOf")
    if isinstance(parts, list) and depth < 3:
        for part in parts[:20]:
            schema = _merge(schema, _resolve(part, root, depth + 1))
    return dict(schema)


def _find_reference(reference: str, root: Schema) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) and reference.startswith("#") else {}


def _merge(base: Schema, more: Schema) -> dict[str, Any]:
    merged = {**base, **more}
    if isinstance(base.get("properties"), Mapping) and isinstance(more.get("properties"), Mapping):
        merged["properties"] = {**base["properties"], **more["properties"]}
    if isinstance(base.get("required"), list) and isinstance(more.get("required"), list):
        merged["required"] = [*base["required"], *(key for key in more["required"] if key not in base["required"])]
    return merged


def _read_types(schema: Schema) -> list[str]:
    """The types that a value can have, at least one, `null` last; guessed where the schema names none."""
    named = schema.get("type")
    types = [each for each in (named if isinstance(named, list) else [named]) if each in _TYPES]
    implied = next((kind for key, kind in _IMPLIED_TYPES.items() if key in schema), "string")
    return sorted(types, key=lambda kind: kind == "null") or [implied]


def _read_suggestions(schema: Schema) -> list[Any]:
    examples = schema.get("examples")
    return [schema.get("default"), *(examples if isinstance(examples, list) else ())]


def _read_bound(schema: Schema, key: str, default: float) -> float:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _find_in_range(schema: Schema) -> Iterable[int | float]:
    bounds = [_read_bound(schema, key, 0) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")]
    for bound in bounds:
        yield from (bound, math.floor(bound) + 1, math.ceil(bound) - 1)
    yield from ((low + high) / 2 for low in bounds[:2] for high in bounds[2:])


def _fits_number(value: int | float, schema: Schema, kind: str) -> bool:
    return (
        not isinstance(value, bool)
        and (kind == "number" or float(value).is_integer())
        and _read_bound(schema, "minimum", -math.inf) <= value <= _read_bound(schema, "maximum", math.inf)
        and _read_bound(schema, "exclusiveMinimum", -math.inf)
        < value
        < _read_bound(schema, "exclusiveMaximum", math.inf)
    )
