"""Fills a function's parameters or a response format: values of the type that a JSON schema asks for.

Values come from the question where it has any that fit. Type, `const`, `enum`, `required`, `minimum`, `maximum` and
local `$ref` are followed, and the first alternative of `anyOf`; other keywords are not.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")
Schema: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[int, int]

_IGNORED = """a an the is are was be do does did can could will would shall should i you he she it we they me my your
    our this that these those what which who where when why how there here of in on at to for from by with and or but
    not no yes if as than then about please tell show give get find set make run call use want need know let current now
    today one any all some tool function data info user name return also just like look check answer json"""
IGNORED_WORDS = frozenset(_IGNORED.split())
"""Words that do not say what a question is about."""
_WHOLE_TEXT = re.compile(r"quer|quest|text|prompt|search|message|content|answer|instruction|thought|task|date", re.I)
_FORMULA = re.compile(r"[(\d][\d.()+*/% -]{0,198}[\d)]")
_TIME_ZONE = re.compile(r"\b[A-Z]\w{1,30}/[A-Z]\w{1,30}")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,10})?(?![\w]|\.\d)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_OBJECT = re.compile(r"\b(?:in|at|for|near|of|and|or|about)\s+(?:the\s+)?([^\W\d_]{2,})", re.I)
_LINK = re.compile(r"\s*[,;]?\s*(?:and|or|&)\s+(?:(?:in|at|for|near|of|to|with)\s+)?(?:the\s+)?|\s*[,;]\s*", re.I)

_MAX_QUESTION = 2000
_MAX_LISTED = 4
_MAX_TEXT = 300
_MAX_DEPTH = 12
_MAX_VALUES = 300
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")


class Details(Struct, frozen=True):
    """The names and numbers of a text with which arguments can be filled."""

    text: str = ""
    names: tuple[str, ...] = ()
    """Capitalised words, else what follows a preposition."""
    listed: tuple[str, ...] = ()
    """Names that the text lists ("Paris and Tokyo"); empty or at least two."""
    numbers: tuple[int | float, ...] = ()


def find_details(question: str) -> Details:
    text = question[:_MAX_QUESTION]
    lists = [list(dict.fromkeys(names)) for names in _join_lists(text, _find_names(text))]
    listed = max(lists, key=len, default=[])[:_MAX_LISTED]
    numbers = (float(each) if "." in each else int(each) for each in _NUMBER.findall(text))
    names = (name for names in lists for name in names)
    return Details(text.strip(), tuple(names), tuple(listed) if len(listed) > 1 else (), tuple(numbers))


def _find_names(text: str) -> list[Span]:
    """Runs of capitalised words; those that begin a sentence only when there are no others."""
    runs: list[Span] = []
    for match in _WORD.finditer(text):
        if match[0][0].isupper() and match[0].casefold() not in IGNORED_WORDS:
            joined = runs and text[runs[-1][1] : match.start()] == " "
            runs.append((runs.pop()[0] if joined else match.start(), match.end()))
    inside = [run for run in runs if text[: run[0]].rstrip(" \"'(")[-1:] not in ("", *".?!:\n")]
    objects = [match.span(1) for match in _OBJECT.finditer(text) if match[1].casefold() not in IGNORED_WORDS]
    return inside or objects or runs


def _join_lists(text: str, names: list[Span]) -> Iterator[list[str]]:
    """Names that are listed together. Two that only a comma joins are one name: "Paris, France"."""
    lists: list[list[Span]] = []
    for start, end in names:
        if lists and _LINK.fullmatch(text, lists[-1][-1][1], start):
            lists[-1].append((start, end))
        else:
            lists.append([(start, end)])
    for spans in lists:
        if len(spans) == 2 and text[spans[0][1] : spans[1][0]].strip() == ",":
            spans = [(spans[0][0], spans[1][1])]
        yield [text[start:end] for start, end in spans]


def is_name_parameter(name: str, schema: Schema) -> bool:
    """Whether a name from the question can be the value: free text that is not the whole question."""
    is_free_text = read_type(schema) == "string" and not schema.keys() & {"enum", "const", "format"}
    return is_free_text and not _WHOLE_TEXT.search(name)


def read_type(schema: Schema) -> str:
    """The first type that is not `null`; guessed where the schema names none."""
    named = schema.get("type")
    types = [each for each in (named if isinstance(named, list) else [named]) if each in _TYPES]
    implied = "object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "string"
    return next((each for each in types if each != "null"), types[0] if types else implied)


def read_required(parameters: Schema) -> dict[str, Schema]:
    """A function's required parameters, or else its first one; each with its schema."""
    properties = _read(_resolve(parameters, parameters), "properties", dict, {})
    keys = _read_required_keys(parameters) or list(properties)[:1]
    return {key: _resolve(properties.get(key), parameters) for key in keys}


def fill_schema(schema: Schema, details: Details) -> Any:
    """A value of the schema's type. Each name and number of the text is used once."""
    return _SchemaFiller(schema, details).fill(schema, "", 0)


class _SchemaFiller:
    def __init__(self, root: Schema, details: Details) -> None:
        self._root = root
        self._text = details.text
        self._names = list(details.names)
        self._numbers = list(details.numbers)
        self._values_left = _MAX_VALUES

    def fill(self, schema: Any, name: str, depth: int) -> Any:
        self._values_left -= 1
        found = _resolve(schema, self._root)
        kind = read_type(found)
        if depth > _MAX_DEPTH or self._values_left < 0:
            return {"object": {}, "array": []}.get(kind)
        if "const" in found:
            return found["const"]
        if values := _read(found, "enum", list, []):
            return [*self._find_mentioned(values), *values][0]
        match kind:
            case "object":
                return self._fill_object(found, depth)
            case "array":
                return [self.fill(found.get("items"), name, depth + 1)]
            case "integer" | "number":
                return self._fill_number(found, kind)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._fill_string(found, name)

    def _find_mentioned(self, values: list[Any]) -> list[str]:
        """Return the values of an enum that the text names."""
        text = self._text.casefold()
        return [value for value in values if isinstance(value, str) and value and value.casefold() in text]

    def _fill_object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """The required properties, and enums of which the question names a value."""
        properties = _read(schema, "properties", dict, {})
        required = _read_required_keys(schema) or (list(properties)[:1] if depth == 0 else [])
        mentioned = [key for key, value in properties.items() if self._find_mentioned(_read(value, "enum", list, []))]
        return {key: self.fill(properties.get(key), key, depth + 1) for key in dict.fromkeys([*required, *mentioned])}

    def _fill_number(self, schema: Schema, kind: str) -> int | float:
        least = _read(schema, "minimum", (int, float), -math.inf)
        most = _read(schema, "maximum", (int, float), math.inf)
        for value in (*self._numbers, 1):
            if least <= value <= most and (kind == "number" or float(value).is_integer()):
                if value in self._numbers:
                    self._numbers.remove(value)
                return value if kind == "number" else int(value)
        return math.ceil(least) if least > 1 else math.floor(most)

    def _fill_string(self, schema: Schema, name: str) -> str:
        if name == "expression" and (formula := _FORMULA.search(self._text)):
            return formula[0]
        if name == "timezone":
            return (_TIME_ZONE.search(self._text) or ["UTC"])[0]
        if is_name_parameter(name, schema) and self._names:
            return self._names.pop(0)
        return (self._text or name or "example")[:_MAX_TEXT]


def _resolve(schema: Any, root: Schema) -> dict[str, Any]:
    """Follows local `$ref`s, and takes the first alternative that is not null; what cannot be followed allows all."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        key = next((key for key in ("$ref", "anyOf", "oneOf", "allOf") if key in schema), None)
        if key is None:
            return dict(schema)
        if key == "$ref":
            chosen = _find_reference(str(schema[key]), root)
        else:
            chosen = _choose_alternative(_read(schema, key, list, []))
        schema = {**chosen, **{other: value for other, value in schema.items() if other != key}}
    return {}


def _find_reference(reference: str, root: Schema) -> Schema:
    for step in reference.split("/")[1:]:
        root = _read(root, step, dict, {})
    return root


def _choose_alternative(options: list[Any]) -> Schema:
    schemas = [option for option in options if isinstance(option, Mapping)]
    return min(schemas, key=lambda option: option.get("type") == "null", default={})


def _read(schema: Any, key: str, kind: type[T] | tuple[type[T], ...], default: T) -> T:
    """The value of a key, or the default if it is missing or of another type."""
    value = schema.get(key) if isinstance(schema, Mapping) else None
    return value if isinstance(value, kind) else default


def _read_required_keys(schema: Schema) -> list[str]:
    return [key for key in _read(schema, "required", list, []) if isinstance(key, str)]
