"""Fills a function's parameters or a response format: values of the type that a JSON schema asks for.

Values come from the question where it has any that fit, then from the schema (`const`, `enum`, `default`). Type,
`enum`, `required`, `minimum`, `maximum`, `anyOf` and local `$ref` are followed; other keywords are not.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[int, int]

_IGNORED = """a an the is are was be do does did can could will would shall should i you he she it we they me my your
    our this that these those what which who where when why how there here of in on at to for from by with and or but
    not no yes if as than then about please tell show give get find set make run call use want need know let current now
    today one any all some tool function data info user name return also just like look check answer json"""
IGNORED_WORDS = frozenset(_IGNORED.split())
"""Words that do not say what a question is about."""
_WHOLE_TEXT = re.compile(r"quer|quest|text|prompt|search|message|content|answer|instruction|thought|task|date", re.I)
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


@dataclass(frozen=True, slots=True)
class Details:
    """The names and numbers of a text with which arguments can be filled."""

    text: str = ""
    names: tuple[str, ...] = ()
    """Capitalised words, else what follows a preposition."""
    listed: tuple[str, ...] = ()
    """Names that the text lists ("Paris and Tokyo"); empty or at least two."""
    numbers: tuple[int | float, ...] = ()

    def only(self, name: str) -> "Details":
        return replace(self, names=(name,), listed=())


def find_details(question: str) -> Details:
    text = question[:_MAX_QUESTION]
    lists = [list(dict.fromkeys(names)) for names in _join_lists(text, _find_names(text))]
    listed = tuple(max(lists, key=len, default=[])[:_MAX_LISTED])
    names = tuple(dict.fromkeys(name for names in lists for name in names))
    numbers = (float(each) if "." in each else int(each) for each in _NUMBER.findall(text))
    return Details(text.strip(), names, listed if len(listed) > 1 else (), tuple(numbers))


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


def read_properties(parameters: Schema) -> dict[str, Schema]:
    properties = _resolve(parameters, parameters).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {key: _resolve(schema, parameters) for key, schema in known.items()}


def read_required(schema: Schema) -> list[str]:
    """The required properties, or else the first property."""
    listed = schema.get("required")
    required = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
    return required or list(_read_object(schema, "properties"))[:1]


def read_type(schema: Schema) -> str:
    """The first type that is not `null`; guessed where the schema names none."""
    named = schema.get("type")
    types = [each for each in (named if isinstance(named, list) else [named]) if each in _TYPES]
    implied = "object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "string"
    return next((each for each in types if each != "null"), types[0] if types else implied)


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
        kind = read_type(found)
        if depth > _MAX_DEPTH or self._values_left < 0:
            return {"object": {}, "array": []}.get(kind)
        if "const" in found:
            return found["const"]
        if isinstance(found.get("enum"), list) and found["enum"]:
            return [*self._find_mentioned(found), *found["enum"]][0]
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

    def _find_mentioned(self, schema: Schema) -> list[str]:
        """Return the values of an enum that the text names."""
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        text = self._details.text.casefold()
        return [value for value in values if isinstance(value, str) and value and value.casefold() in text]

    def _fill_object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """The required properties, and enums of which the question names a value."""
        properties = _read_object(schema, "properties")
        mentioned = [key for key in properties if self._find_mentioned(_resolve(properties[key], self._root))]
        keys = dict.fromkeys([*(read_required(schema) if depth == 0 or "required" in schema else []), *mentioned])
        return {key: self.fill(properties.get(key, {}), key, depth + 1) for key in keys}

    def _fill_array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        items = schema.get("items", {})
        is_list_of_names = is_name_parameter(name, _resolve(items, self._root))
        count = max(1, len(self._details.listed)) if is_list_of_names else 1
        return [self.fill(items, name, depth + 1) for _ in range(count)]

    def _fill_number(self, schema: Schema, kind: str) -> int | float:
        least, most = _read_number(schema, "minimum", -math.inf), _read_number(schema, "maximum", math.inf)
        for value in (*self._numbers, _read_number(schema, "default", 1), 1):
            if least <= value <= most and (kind == "number" or float(value).is_integer()):
                if value in self._numbers:
                    self._numbers.remove(value)
                return value if kind == "number" else int(value)
        return math.ceil(least) if least > 1 else math.floor(most)

    def _fill_string(self, schema: Schema, name: str) -> str:
        if is_name_parameter(name, schema) and self._names:
            return self._names.pop(0)
        default = schema.get("default")
        return (
            default if isinstance(default, str) and default else (self._details.text or name or "example")[:_MAX_TEXT]
        )


def _resolve(schema: Any, root: Schema) -> dict[str, Any]:
    """Follows local `$ref`s, and takes the first alternative that is not null; what cannot be followed allows all."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        key = next((key for key in ("$ref", "anyOf", "oneOf", "allOf") if key in schema), None)
        if key is None:
            return dict(schema)
        chosen = _find_reference(schema[key], root) if key == "$ref" else _choose_alternative(schema[key])
        schema = {**chosen, **{other: value for other, value in schema.items() if other != key}}
    return {}


def _find_reference(reference: Any, root: Schema) -> Schema:
    found: Any = root
    for step in str(reference).split("/")[1:]:
        found = _read_object(found, step) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _choose_alternative(options: Any) -> Schema:
    schemas = [option for option in options if isinstance(option, Mapping)] if isinstance(options, list) else []
    return next((option for option in schemas if option.get("type") != "null"), schemas[0] if schemas else {})


def _read_object(schema: Schema, key: str) -> Schema:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else {}


def _read_number(schema: Schema, key: str, default: float) -> float:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
