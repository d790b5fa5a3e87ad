"""Converts pydantic's errors to violations with a JSON path, in terms of JSON instead of Python and pydantic."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import core_schema

from app.errors import Violation
from app.validation.content_hints import suggest_part
from app.validation.nearest import find_correct_spelling, suggest_name

MAX_EXAMINED = 1000
"""Errors after this number are not converted."""
MAX_LISTED = 10_000
"""If there are more errors, they are only counted, because pydantic builds a dict for each before any can be read."""
MAX_KEY_CHARACTERS = 200
"""A longer key is cut in a path."""
MAX_SUGGESTED = 20
"""The number of unknown keys of one request for which a similar known key is suggested."""
UNKNOWN = "is not a known key"
NO_HINTS: Mapping[str, str] = {}
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_MAX_DIGITS = 30
"""A number with more digits is not repeated in a message."""

_STRING, _WHOLE, _NUMBER, _BOOLEAN = "a string", "a whole number", "a number", "true or false"
_LIST, _OBJECT = "a list", "an object"
_EXPECTED_TYPES = {
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
"""What a value must be, by the type of pydantic's error for a wrong type."""

_IS_WHOLE = re.compile(r"-?\d{1,30}")
_IS_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
_MAX_WORD = 40
_MAX_LISTED_KEYS = 8
_MEANT = {
    **dict.fromkeys(("human",), "user"),
    **dict.fromkeys(("ai", "bot", "gpt", "model", "chatbot"), "assistant"),
    "developer": "system",
    **dict.fromkeys(("no", "none", "false", "disabled", "bypass", "no-cache", "no-store"), "off"),
    **dict.fromkeys(("yes", "true", "enabled", "default"), "on"),
}
"""Words that other programs have for roles, and for on and off."""
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "role": ("from", "sender", "speaker", "author"),
    "content": ("text", "value", "parts", "message", "body"),
    "messages": ("input", "prompt", "conversation", "history", "contents"),
    "text": ("content", "value"),
    "arguments": ("args", "input", "parameters"),
    "model": ("model_name", "modelId", "engine", "deployment"),
}
"""Keys that other programs have for a key."""
_OBJECT_FORMS: Mapping[int | str, str] = {
    "response_format": '{"type": "json_object"}',
    "metadata": '{"name": "text"}',
    "stream_options": '{"include_usage": true}',
}
"""What an object looks like."""
_REQUIRED = {
    "model": ": a name of GET /v1/models",
    "messages": ': the conversation, [{"role": "user", "content": "…"}]',
    "role": ", such as user, assistant or system",
    "content": ": the text, or a list of parts",
    **dict.fromkeys(("tool_call_id", "tool_use_id", "call_id"), ": the id of the call that this belongs to"),
    "media_type": ", such as image/png or application/pdf",
    "max_tokens": ": the most tokens that the reply may have",
    "budget_tokens": ": the most tokens that the reasoning may have",
}
"""What a missing key says."""
_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
_SHAPE_ERRORS = frozenset({"content_type", "video_type"})
"""Errors of this project's schemas for a value of the wrong JSON type."""

Context = Mapping[str, Any]
_MESSAGES: Mapping[str, Callable[[Context], str]] = {
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
    "value_error": lambda context: str(context["error"]),
    "assertion_error": lambda context: str(context["error"]),
}
"""The messages for all other errors, by the type of pydantic's error."""
_RANGE_ERRORS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
_PYDANTIC_TYPES = frozenset(get_args(core_schema.ErrorType))
"""Errors of any other type come from this project's schemas, which write their own messages."""


def to_violations(
    error: ValidationError,
    value: Any,
    prefix: str = "",
    schema: Any = None,
    hints: Mapping[str, str] = NO_HINTS,
    names: Mapping[Any, str] = NO_HINTS,
) -> list[Violation]:
    """Return one violation for each JSON path in `error`; messages of several branches of a union are joined.

    With `schema`, the type that `value` was validated against, the message for an unknown key suggests a similar known
    key. `hints` maps the path of an unknown key to a text that follows the message instead. `prefix` is the path of
    `value` itself. `names` has the caller's names of keys of `value` that were renamed.
    """
    if error.error_count() > MAX_LISTED:
        return [Violation(prefix, f"has {error.error_count()} errors; at most {MAX_LISTED} can be listed")]
    found: dict[str, _PathErrors] = {}
    suggested = 0
    for item in error.errors(include_url=False, include_input=False)[:MAX_EXAMINED]:
        kind = item["type"]
        steps = list(_real_path(item["loc"], value, kind == "missing"))
        path = [names.get(step, step) for step in steps[:1]] + steps[1:] if names else steps
        errors = found.setdefault(json_path(path, prefix), _PathErrors())
        if kind in _EXPECTED_TYPES:
            errors.expected_types[_EXPECTED_TYPES[kind]] = None
            given = _value_at(value, steps)
            errors.given = describe_given(given, whole=_WHOLE in errors.expected_types)
            errors.given += _suggest_form(given, errors.expected_types, steps, prefix)
        elif kind == "extra_forbidden":
            hint = hints.get(json_path(steps))
            if hint is None and schema is not None and suggested < MAX_SUGGESTED:
                suggested += 1
                hint = _suggest_key(str(steps[-1]), known_keys(schema, steps[:-1]))
            errors.texts[UNKNOWN + (hint or "")] = None
        elif kind == "missing":
            errors.texts[f"is required{_suggest_rename(_value_at(value, steps[:-1]), steps, schema)}"] = None
        else:
            errors.texts[_message(kind, item.get("ctx", {}), item["msg"], _value_at(value, steps))] = None
    return [Violation(path, errors.message()) for path, errors in found.items()]


class _PathErrors:
    """The errors at one JSON path, as sets that keep their order."""

    def __init__(self) -> None:
        self.expected_types: dict[str, None] = {}
        self.given = ""
        self.texts: dict[str, None] = {}

    def message(self) -> str:
        wrong_type = [f"must be {' or '.join(self.expected_types)}{self.given}"] if self.expected_types else []
        return "; or ".join([*wrong_type, *self.texts])


def _message(kind: str, context: Context, message: str, value: Any) -> str:
    if kind in _MESSAGES:
        text = _MESSAGES[kind](context)
        if kind in _RANGE_ERRORS:
            text += _given_number(value)
        if kind == "literal_error":
            text += _describe_word(value) + _suggest_word(value, _QUOTED.findall(context["expected"]))
        return text
    if kind in _PYDANTIC_TYPES:
        return "is not valid"
    if kind in _SHAPE_ERRORS:
        return message + describe_given(value)
    if kind.endswith("_type"):
        return message + _describe_type(value) + suggest_part(kind, value)
    return message


def _describe_word(value: Any) -> str:
    """Name a value that is none of a few known words. A long one is not repeated."""
    if isinstance(value, str):
        return f", not {json.dumps(value, ensure_ascii=False)}" if len(value) <= _MAX_WORD else ""
    return describe_given(value)


def _describe_type(value: Any) -> str:
    """Name the type that an object has in its key `type`."""
    if not isinstance(value, dict):
        return describe_given(value)
    return _describe_word(value["type"]) if "type" in value else ", but it has no type"


def _suggest_word(value: Any, known: Sequence[str]) -> str:
    if not isinstance(value, str):
        return ""
    meant = _MEANT.get(value.lower())
    return f"; did you mean `{meant}`?" if meant in known else suggest_name(value, known)


def _suggest_key(name: str, known: Sequence[str]) -> str:
    hint = suggest_name(name, known)
    return hint or (f"; known are {', '.join(known)}" if 0 < len(known) <= _MAX_LISTED_KEYS else "")


def _suggest_form(value: Any, expected: Mapping[str, None], steps: Sequence[int | str], prefix: str) -> str:
    """Return how a value of the wrong type must be written, where that is certain."""
    if isinstance(value, str):
        plain = value.strip()
        if (_NUMBER in expected and _IS_NUMBER.fullmatch(plain)) or (_WHOLE in expected and _IS_WHOLE.fullmatch(plain)):
            return f": write {plain}, without quotes"
        if _BOOLEAN in expected and plain.lower() in ("true", "false"):
            return f": write {plain.lower()}, without quotes"
    if steps[-1:] in (["arguments"], ["input"]) and _STRING in expected and isinstance(value, dict | None):
        return ': write it as JSON text (json.dumps), such as "{\\"city\\": \\"Paris\\"}"'
    if isinstance(value, dict) and _LIST in expected and steps[-1:] in (["tools"], ["functions"]):
        return ": put it into a list"
    if _OBJECT in expected and steps and steps[-1] in _OBJECT_FORMS:
        return f": write {_OBJECT_FORMS[steps[-1]]}"
    if prefix in ("messages", "input") and len(steps) == 1 and _OBJECT in expected:
        return ': write {"role": "user", "content": "…"}'
    if steps == ["messages"] and _LIST in expected:
        return ': send [{"role": "user", "content": "…"}]'
    return ""


def _suggest_rename(parent: Any, steps: Sequence[int | str], schema: Any) -> str:
    """Return the end of the message for a missing key, if its object has an unknown key that is probably meant."""
    name = str(steps[-1])
    if not isinstance(parent, dict):
        return ""
    kind = parent.get("type")
    if name == "role" and isinstance(kind, str):
        if kind in _ITEMS:
            return f": an item of type {kind} belongs into `input` of POST /v1/responses"
        if kind.lower() in _MEANT or kind in _MEANT.values():
            return f": write `role` instead of `type`, with the value `{_MEANT.get(kind.lower(), kind)}`"
    if name == "function" and "name" in parent:
        return ': write {"id": "…", "type": "function", "function": {"name": "…", "arguments": "{}"}}'
    known = set() if schema is None else {*known_keys(schema, steps[:-1])}
    others = [key for key in list(parent)[:MAX_SUGGESTED] if key not in known]
    wrong = next((key for key in _OTHER_NAMES.get(name, ()) if key in parent), None)
    wrong = wrong or next((key for key in others if find_correct_spelling(key, [name])), None)
    if wrong and name == "messages":
        return f': the conversation is `messages`, [{{"role": "user", "content": "…"}}], not `{wrong}`'
    return f": rename `{wrong}` to `{name}`" if wrong else _REQUIRED.get(name, "")


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _at_least(count: int, singular: str, plural: str | None = None) -> str:
    return "must not be empty" if count == 1 else f"must have at least {_count_noun(count, singular, plural)}"


def _at_most(count: int, singular: str, plural: str | None = None) -> str:
    return f"must have at most {_count_noun(count, singular, plural)}"


def _count_noun(count: int, singular: str, plural: str | None) -> str:
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def _pattern(pattern: str) -> str:
    return "must not be blank" if pattern == r"\S" else f"must match the pattern {pattern}"


def _choices(expected: str) -> str:
    """Rewrite pydantic's list of quoted values without the quotes."""
    values = _QUOTED.findall(expected)
    if not values:
        return expected.replace("True", "true").replace("False", "false").replace("None", "null")
    return values[0] if len(values) == 1 else f"one of {', '.join(values)}"


def describe_given(value: Any, *, whole: bool = False) -> str:
    """Name the JSON type of the value. Its contents are not repeated, except for a number."""
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 10**_MAX_DIGITS:
        return ""
    return f", not {json.dumps(value)}"


def known_keys(schema: Any, steps: Iterable[int | str]) -> list[str]:
    """Return the keys that `schema` allows for an object at the path `steps`."""
    types = list(_types(schema))
    for step in steps:
        types = [inner for outer in types for inner in _inner_types(outer, step)]
    return [key for type_ in types if _is_model(type_) for key in _fields(type_)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _is_model(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def _types(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        yield from _types(get_args(annotation)[0])
    elif (arguments := get_args(annotation)) and get_origin(annotation) not in (list, tuple, dict):
        for argument in arguments:
            yield from _types(argument)
    else:
        yield annotation


def _inner_types(type_: Any, step: int | str) -> Iterator[Any]:
    """Yield the types of a model's field, a list's entries or a dict's values."""
    if _is_model(type_):
        yield from _types(_fields(type_).get(str(step)))
    elif get_origin(type_) in (list, tuple) and isinstance(step, int):
        yield from _types(get_args(type_)[0])
    elif get_origin(type_) is dict and isinstance(step, str):
        yield from _types(get_args(type_)[1])


def find_unknown_keys(value: Any, path: str) -> Iterator[str]:
    """Yield the JSON paths of all unknown keys of a validated value, except keys with an empty value."""
    return _find_unknown_keys(value, path) if has_unknown_keys(value) else iter(())


def has_unknown_keys(value: Any) -> bool:
    """Whether a validated value has any key that its schema does not know. Nearly none has."""
    kind: Any = type(value)
    if kind is list:
        return any(map(has_unknown_keys, value))
    fields = _list_inner_fields(kind)
    if fields is None:
        return False
    return bool(value.__pydantic_extra__) or any(has_unknown_keys(getattr(value, name)) for name in fields)


def _find_unknown_keys(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _find_unknown_keys(entry, f"{path}[{index}]")
    elif isinstance(value, BaseModel):
        for key, extra in (value.model_extra or {}).items():
            if extra not in (None, [], {}, ""):
                yield json_path([key], path)
        for name in _list_inner_fields(type(value)) or ():
            yield from _find_unknown_keys(getattr(value, name), f"{path}.{name}")


@cache
def _list_inner_fields(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of a model that can hold models, alone or in lists; None if the type is no model."""
    if not issubclass(kind, BaseModel):
        return None
    return tuple(name for name, field in kind.model_fields.items() if _may_hold_model(field.annotation))


def _may_hold_model(annotation: Any) -> bool:
    return any(
        _is_model(type_) or (get_origin(type_) is list and _may_hold_model(get_args(type_)[0]))
        for type_ in _types(annotation)
    )


def json_path(steps: Iterator[int | str] | Sequence[int | str], prefix: str = "") -> str:
    """Return a path such as `messages[2].content[0].image`. Keys that are not plain words are quoted: `x["a.b"]`."""
    path = prefix
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
            continue
        if len(step) > MAX_KEY_CHARACTERS:
            step = f"{step[:MAX_KEY_CHARACTERS]}…"
        if _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step)}]"
    return path


def _real_path(loc: Sequence[int | str], value: Any, missing: bool) -> Iterator[int | str]:
    """Yield the steps of pydantic's path that exist in the value; the others name branches of a union."""
    for position, step in enumerate(loc):
        if missing and position == len(loc) - 1:
            yield step
        elif _has(value, step):
            yield step
            value = value[step]


def _value_at(value: Any, steps: Iterable[int | str]) -> Any:
    for step in steps:
        value = value[step] if _has(value, step) else None
    return value


def _has(value: Any, step: int | str) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value
