"""Pydantic's errors as violations with a JSON path, in words for people who have never heard of pydantic."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import core_schema

from app.errors import Violation
from app.nearest import did_you_mean

MAX_JUDGED = 1000
"""Beyond so many mistakes the next ones are not looked for: enough were found."""
MAX_LISTED = 10_000
"""More than that are only counted: pydantic makes a dict of each before the first can be read."""
MAX_KEY_CHARACTERS = 200
"""A longer key is cut where it stands in a path."""
MAX_SUGGESTED = 20
"""For so many unknown keys of one request the nearest known one is looked for."""
UNKNOWN = "is not a known key"
NO_HINTS: Mapping[str, str] = {}
_BARE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_MAX_SHOWN = 30
"""A number that is written with more characters is not repeated in a message."""

_STRING, _WHOLE, _NUMBER, _BOOLEAN = "a string", "a whole number", "a number", "true or false"
_LIST, _OBJECT = "a list", "an object"
_KINDS = {
    "string_type": _STRING,
    "string_unicode": "a string of Unicode text",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "iterable_type": _LIST,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "none_required": "null",
}
"""What a value must be, by the type of pydantic's error where it is something else."""

Context = Mapping[str, Any]
_WORDS: Mapping[str, Callable[[Context], str]] = {
    "missing": lambda _: "is required",
    "extra_forbidden": lambda _: UNKNOWN,
    "finite_number": lambda _: "must be a finite number",
    "int_parsing_size": lambda _: "must be a number of fewer digits",
    "greater_than": lambda limit: f"must be greater than {_number(limit['gt'])}",
    "greater_than_equal": lambda limit: f"must be at least {_number(limit['ge'])}",
    "less_than": lambda limit: f"must be less than {_number(limit['lt'])}",
    "less_than_equal": lambda limit: f"must be at most {_number(limit['le'])}",
    "string_too_short": lambda limit: _at_least(limit["min_length"], "character"),
    "string_too_long": lambda limit: _at_most(limit["max_length"], "character"),
    "too_short": lambda limit: _at_least(limit["min_length"], "entry", "entries"),
    "too_long": lambda limit: _at_most(limit["max_length"], "entry", "entries"),
    "string_pattern_mismatch": lambda limit: _pattern(limit["pattern"]),
    "literal_error": lambda limit: f"must be {_choices(limit['expected'])}",
    "union_tag_invalid": lambda limit: f"must be {_choices(limit['expected_tags'])}",
    "union_tag_not_found": lambda limit: f"must have the key {limit['discriminator'].strip(chr(39))}",
    "invalid_key": lambda _: "must have strings as keys",
    "recursion_loop": lambda _: "must not contain itself",
    "recursion_depth_exceeded": lambda _: "is nested too deeply",
    "json_type": lambda _: "must be a string with JSON",
    "json_invalid": lambda _: "must be valid JSON",
    "value_error": lambda about: str(about["error"]),
    "assertion_error": lambda about: str(about["error"]),
}
"""What is wrong, by the type of pydantic's error."""
_RANGES = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
_PYDANTICS = frozenset(get_args(core_schema.ErrorType))
"""The other types are those of our own schemas, which say their own words."""


def to_violations(
    error: ValidationError, value: Any, prefix: str = "", schema: Any = None, hints: Mapping[str, str] = NO_HINTS
) -> list[Violation]:
    """Every place of `value`, which was refused, once; what the branches of a union say of it is joined.

    `schema` is the type that `value` had to be of: with it an unknown key is told the nearest known one. `hints` says
    for the path of an unknown key what to do with it.
    """
    if error.error_count() > MAX_LISTED:
        return [Violation(prefix, f"has {error.error_count()} mistakes; so many are not listed")]
    found: dict[str, _PathErrors] = {}
    suggested = 0
    for item in error.errors(include_url=False, include_input=False)[:MAX_JUDGED]:
        kind = item["type"]
        place = list(_real_path(item["loc"], value, kind == "missing"))
        at = found.setdefault(json_path(place, prefix), _PathErrors())
        if kind in _KINDS:
            at.kinds[_KINDS[kind]] = None
            at.given = _describe_given(_value_at(value, place), whole=_WHOLE in at.kinds)
        elif kind == "extra_forbidden":
            hint = hints.get(json_path(place))
            if hint is None and schema is not None and suggested < MAX_SUGGESTED:
                suggested += 1
                hint = did_you_mean(str(place[-1]), known_keys(schema, place[:-1]))
            at.texts[UNKNOWN + (hint or "")] = None
        else:
            at.texts[_text(kind, item.get("ctx", {}), item["msg"], _value_at(value, place))] = None
    return [Violation(path, at.message()) for path, at in found.items()]


class _PathErrors:
    """What is wrong with one place."""

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        """Any of which it could be."""
        self.given = ""
        self.texts: dict[str, None] = {}

    def message(self) -> str:
        kinds = [f"must be {' or '.join(self.kinds)}{self.given}"] if self.kinds else []
        return "; or ".join([*kinds, *self.texts])


def _text(kind: str, context: Context, message: str, value: Any) -> str:
    if kind in _WORDS:
        text = _WORDS[kind](context)
        if kind in _RANGES:
            text += _given_number(value)
        if kind == "literal_error" and isinstance(value, str):
            text += did_you_mean(value, _QUOTED.findall(context["expected"]))
        return text
    return "is not valid" if kind in _PYDANTICS else message


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _at_least(count: int, one: str, more: str | None = None) -> str:
    return "must not be empty" if count == 1 else f"must have at least {_count_noun(count, one, more)}"


def _at_most(count: int, one: str, more: str | None = None) -> str:
    return f"must have at most {_count_noun(count, one, more)}"


def _count_noun(count: int, one: str, more: str | None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _pattern(pattern: str) -> str:
    return "must not be blank" if pattern == r"\S" else f"must match the pattern {pattern}"


def _choices(expected: str) -> str:
    """Pydantic's list of values, each in quotes, without them."""
    values = _QUOTED.findall(expected)
    if not values:
        return expected.replace("True", "true").replace("False", "false").replace("None", "null")
    return values[0] if len(values) == 1 else f"one of {', '.join(values)}"


def _describe_given(value: Any, *, whole: bool = False) -> str:
    """Of what kind it is instead; its contents are never repeated."""
    match value:
        case float() if whole:
            return _given_number(value)
        case None:
            kind = "null"
        case bool():
            kind = "true or false"
        case int() | float():
            kind = "a number"
        case str():
            kind = "a string"
        case list() | tuple():
            kind = "a list"
        case dict():
            kind = "an object"
        case _:
            return ""
    return f", not {kind}"


def _given_number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 10**_MAX_SHOWN:
        return ""
    return f", not {json.dumps(value)}"


def known_keys(schema: Any, place: Iterable[int | str]) -> list[str]:
    """The keys that an object at this place of `schema` can have."""
    types = list(_types(schema))
    for step in place:
        types = [inner for one in types for inner in _inner(one, step)]
    return [key for one in types if _is_model(one) for key in _fields(one)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _is_model(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, BaseModel)


def _types(annotation: Any) -> Iterator[Any]:
    """Those of a union, or the one."""
    if get_origin(annotation) is Annotated:
        yield from _types(get_args(annotation)[0])
    elif (arguments := get_args(annotation)) and get_origin(annotation) not in (list, tuple, dict):
        for one in arguments:
            yield from _types(one)
    else:
        yield annotation


def _inner(one: Any, step: int | str) -> Iterator[Any]:
    """The types of what stands at `step` of this one."""
    if _is_model(one):
        yield from _types(_fields(one).get(str(step)))
    elif get_origin(one) in (list, tuple) and isinstance(step, int):
        yield from _types(get_args(one)[0])
    elif get_origin(one) is dict and isinstance(step, str):
        yield from _types(get_args(one)[1])


def find_unknown_keys(value: Any, path: str) -> Iterator[str]:
    """The places of all keys in a validated value that its models do not know and that hold something."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from find_unknown_keys(one, f"{path}[{place}]")
    elif isinstance(value, BaseModel):
        for key, held in (value.model_extra or {}).items():
            if held not in (None, [], {}, ""):
                yield json_path([key], path)
        for name in type(value).model_fields:
            yield from find_unknown_keys(getattr(value, name), f"{path}.{name}")


def json_path(place: Iterator[int | str] | Sequence[int | str], prefix: str = "") -> str:
    """`messages[2].content[0].image`. A key that could be taken for more than one stands quoted: `metadata["a.b"]`."""
    path = prefix
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
            continue
        if len(step) > MAX_KEY_CHARACTERS:
            step = f"{step[:MAX_KEY_CHARACTERS]}…"
        if _BARE.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step)}]"
    return path


def _real_path(loc: Sequence[int | str], value: Any, missing: bool) -> Iterator[int | str]:
    """The steps of pydantic's path that the value has; the others name the branch of a union that was tried."""
    for at, step in enumerate(loc):
        if missing and at == len(loc) - 1:
            yield step
        elif _has(value, step):
            yield step
            value = value[step]


def _value_at(value: Any, place: Iterable[int | str]) -> Any:
    for step in place:
        value = value[step] if _has(value, step) else None
    return value


def _has(value: Any, step: int | str) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value
