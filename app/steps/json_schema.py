"""Validates JSON against a schema that a caller wrote, within bounds of work.

The schema is untrusted: references to other documents are never fetched, patterns are matched in linear time (by Rust's
`regex`, which pydantic has), and the work is limited. A unit of work takes at most some 10 µs: a keyword that is
evaluated, four members that it goes down into, a thousand characters of a value that a message quotes.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urljoin

import msgspec
from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_WORK = 40_000
"""The work for the schema itself, which is kept: some 0.4 s. `prepare_schema` does it in a thread before."""
MAX_VIOLATIONS = 10
MAX_PATTERN_CHARACTERS = 2000
MAX_PATTERN_STATES = 20_000
"""A pattern with so many takes up to 10 MB, 0.2 s to compile, and 8 µs for each character of a text."""
_MAX_WORDS = 300
"""The longest text of a violation, in characters: it may quote the instance."""

Validate = Callable[[Any], Iterator[Any]]


class Unchecked(Exception):
    """The schema is not valid, uses what is not supported, or takes too much work. The text says which."""


class _Work(threading.local):
    left = 0
    schema_bytes = 0
    sizes: Mapping[int, int] = {}
    """Those of the arrays and objects of the value that is checked, by `id`."""


_work = _Work()


def _charge(units: int) -> None:
    """Raises Unchecked if no work is left."""
    _work.left -= units
    if _work.left < 0:
        raise Unchecked("the check takes too much work")


def _measure(value: Any) -> None:
    """Measure the value that is checked next."""
    sizes: dict[int, int] = {}
    _charge(_add_size(value, sizes) // 1000)
    _work.sizes = sizes


def _add_size(value: Any, sizes: dict[int, int]) -> int:
    """Return how many characters a value has about, written as text."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        size = 10 + sum([len(name) + 10 + _add_size(item, sizes) for name, item in value.items()])
    elif isinstance(value, list):
        size = 10 + sum([_add_size(item, sizes) for item in value])
    else:
        return 10
    sizes[id(value)] = size
    return size


def _get_size(value: Any) -> int:
    return len(value) if isinstance(value, str) else _work.sizes.get(id(value), 10)


def is_prepared(schema: Mapping[str, Any] | bool) -> bool:
    """Whether `validate` has no work with the schema itself."""
    try:
        return _encode(schema) in _prepared
    except Unchecked:
        return True


def prepare_schema(schema: Mapping[str, Any] | bool) -> None:
    """Read a schema for `validate`."""
    with suppress(Unchecked):
        _find_validator(_encode(schema))


def _encode(schema: Mapping[str, Any] | bool) -> bytes:
    try:
        data = msgspec.json.encode(schema)
    except (ValueError, RecursionError) as error:  # half of a surrogate pair, or nested too deeply
        raise Unchecked(f"the schema cannot be written as JSON: {error}") from None
    if len(data) > MAX_SCHEMA_BYTES:
        raise Unchecked(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    return data


def validate(value: Any, schema: Mapping[str, Any] | bool, max_work: int) -> list[str]:
    """Return what is wrong with a value, at most MAX_VIOLATIONS texts that begin with a JSON path; [] if it is valid.

    The draft is the one that `$schema` names, else 2020-12. `format` is not checked, as the draft says. `max_work`
    bounds the work: a thousand units take some 10 ms. Raises Unchecked.
    """
    data = _encode(schema)
    validator = _find_validator(data)
    _work.left, _work.schema_bytes = max_work, len(data)
    try:
        _measure(value)
        return [_describe(error) for error in islice(validator.iter_errors(value), MAX_VIOLATIONS)]
    except Exception as error:
        raise _make_unchecked(error) from None
    finally:
        _work.sizes = {}


_MAX_PREPARED = 64
_prepared: dict[bytes, Any] = {}
"""The validators of the schemas that were used last, by their JSON; an Unchecked for one that has none."""


def _find_validator(data: bytes) -> Any:
    """Return the validator of a schema. Raises Unchecked."""
    found = _prepared.pop(data, None) or _make_or_refuse(data)
    while len(_prepared) >= _MAX_PREPARED:
        _prepared.pop(next(iter(_prepared), b""), None)
    _prepared[data] = found
    if isinstance(found, Unchecked):
        raise Unchecked(str(found))
    return found


def _make_or_refuse(data: bytes) -> Any:
    _work.left, _work.schema_bytes = MAX_SCHEMA_WORK, len(data)
    try:
        return _make_validator(data)
    except Exception as error:
        return Unchecked(str(_make_unchecked(error)))
    finally:
        _work.sizes = {}


def _make_unchecked(error: Exception) -> Unchecked:
    if isinstance(error, Unchecked):
        return error
    if isinstance(error, RecursionError):
        return Unchecked("the schema or the reply is nested too deeply")
    # Of jsonschema and referencing: a reference that leads nowhere.
    return Unchecked(f"{type(error).__name__.lstrip('_')}: {str(error)[:_MAX_WORDS]}")


def _describe(error: Any) -> str:
    return f"{error.json_path}: {_shorten(error.message)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS // 2 - 2]} … {text[2 - _MAX_WORDS // 2 :]}"


def _make_validator(data: bytes) -> Any:
    """Return the validator of a schema. Raises Unchecked if the schema is not valid."""
    from jsonschema import validators  # takes 60 ms, and is needed by few
    from jsonschema_specifications import REGISTRY

    schema = msgspec.json.decode(data)
    draft = validators.validator_for(schema, default=validators.Draft202012Validator)
    bounded = _make_bounded(draft)
    _measure(schema)
    problem = next(bounded(_make_meta_schema(draft), registry=REGISTRY).iter_errors(schema), None)
    if problem is not None:
        raise Unchecked(f"the schema is not valid: {_describe(problem)}")
    return bounded(schema, registry=REGISTRY)


@lru_cache(maxsize=16)
def _make_bounded(draft: Any) -> Any:
    """Return a validator class that counts its work, and replaces the keywords whose work is not bounded."""
    from jsonschema import validators

    keywords = dict(draft.VALIDATORS)
    for name, replacement in _REPLACED.items():
        if name in keywords:
            keywords[name] = replacement
    if "unevaluatedProperties" in keywords:
        keywords["unevaluatedProperties"] = _without_patterns(keywords["unevaluatedProperties"])
    bounded = validators.extend(draft, {name: _counted(name, check) for name, check in keywords.items()})
    evolve = bounded.evolve

    def evolve_bounded(validator: Any, **changes: Any) -> Any:
        """A `$schema` in a part of the schema would bring back jsonschema's own class for that part."""
        schema = changes.get("schema")
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {name: value for name, value in schema.items() if name != "$schema"}
        return evolve(validator, **changes)

    bounded.evolve = evolve_bounded
    return bounded


@lru_cache(maxsize=16)
def _make_meta_schema(draft: Any) -> Any:
    """Return the schema of a draft's schemas. That of the newer drafts consists of several, each of which goes through
    the whole schema: they become one, which takes a fifth of the work."""
    from jsonschema_specifications import REGISTRY

    parts = [
        REGISTRY.contents(urljoin(draft.META_SCHEMA["$id"], part["$ref"]))
        for part in draft.META_SCHEMA.get("allOf", ())
    ]
    if not parts:
        return draft.META_SCHEMA
    whole = {"$defs": {}, "type": ["object", "boolean"], "properties": {}}
    for part in (draft.META_SCHEMA, *parts):
        for name in ("$defs", "properties"):
            whole[name] |= part.get(name, {})
    return _point_to_whole(whole)


def _point_to_whole(value: Any) -> Any:
    """Return a part of a schema whose references lead to the schema that all parts have become."""
    if isinstance(value, list):
        return [_point_to_whole(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$dynamicRef" in value and isinstance(value["$dynamicRef"], str) or value.get("$recursiveRef") == "#":
        return {"$ref": "#"}
    return {
        name: f"#{each.partition('#')[2]}" if name == "$ref" and isinstance(each, str) else _point_to_whole(each)
        for name, each in value.items()
    }


def _without_patterns(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any] | None]:
    """Return `unevaluatedProperties` without patterns beside it, which jsonschema would match with `re`."""

    def refuse(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        data = msgspec.json.encode(schema)
        _charge(len(data) // 4000)
        if b'"patternProperties"' in data:
            raise Unchecked("unevaluatedProperties beside patternProperties is not supported")
        return check(validator, value, instance, schema)

    return refuse


def _counted(name: str, check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any]]:
    """Return the check of a keyword, which counts its work and keeps no long message."""

    def count(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _charge(_count_work(name, value, instance))
        if name in _REFERENCES:
            # What is no path is searched in the whole schema, each time.
            _charge(2 if value == "#" or value.startswith("#/") else 2 + _work.schema_bytes // 25)
        for error in check(validator, value, instance, schema) or ():
            if not isinstance(error.validator, str):  # it comes from this keyword, not from one below
                _charge(1 + _get_size(instance) // 1000)
                error.message = _shorten(error.message)
            yield error

    return count


def _count_work(name: str, value: Any, instance: Any) -> int:
    """Return the units of work of a keyword itself, without the keywords below it."""
    count = len(value) if isinstance(value, list | dict) else 0
    if name in ("enum", "const", "uniqueItems"):  # they compare whole values
        return 1 + max(1, count) * (1 if isinstance(instance, str) else _get_size(instance) // 10) // 10
    if name in ("dependentRequired", "dependencies"):
        count += sum([len(names) for names in value.values() if isinstance(names, list)])
    members = len(instance) if name in _LOOPS and isinstance(instance, list | dict) else 0
    return 1 + count // 40 + members // 4


_LOOPS = frozenset(
    [
        "items",
        "additionalItems",
        "contains",
        "propertyNames",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""The keywords that go through all members of an array or object."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_TOKEN = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)
"""An atom of a pattern, or how often it is repeated."""
_WIDE = re.compile(r"\\[wWdDsSpP]")


def _count_states(pattern: str) -> int:
    """Estimate how many states a pattern compiles to."""
    sums, atom = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token[1] is not None:
            most = max(int(token[1]), int(token[2] or 0), 1)
            sums[-1] += atom * (most - 1)
            atom *= most
            continue
        if text == "(":
            sums.append(0)
            atom = 0
            continue
        if text == ")" and len(sums) > 1:
            atom = sums.pop()
        elif _WIDE.search(text):  # Unicode has hundreds of ranges of them
            atom = 100
        else:
            atom = 10 if text[0] in "[." else 1
        sums[-1] += atom
    return sum(sums)


@lru_cache(maxsize=16)
def _compile(pattern: str) -> Callable[[str], bool]:
    """Return whether a text has a match. Raises Unchecked for what Rust's `regex` does not have, such as lookahead, and
    for too large a pattern."""
    states = _count_states(pattern) if len(pattern) <= MAX_PATTERN_CHARACTERS else MAX_PATTERN_STATES + 1
    if states > MAX_PATTERN_STATES:
        raise Unchecked(f"the pattern {pattern[:100]!r} is too large")
    _charge(states)
    try:
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except (SchemaError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1][:_MAX_WORDS]
        raise Unchecked(f"the pattern {pattern[:100]!r} is not supported: {reason}") from None

    def matches(text: str) -> bool:
        _charge(1 + len(text) * states // 20_000)
        try:
            adapter.validate_python(text, strict=True)
        except ValidationError:
            return False
        return True

    return matches


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError as Violation

    if validator.is_type(instance, "string") and not _compile(pattern)(instance):
        yield Violation(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        matches = _compile(pattern)
        for name, value in instance.items():
            if matches(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError as Violation

    if not validator.is_type(instance, "object"):
        return
    patterns = [_compile(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    extra = [name for name in instance if name not in known and not any(matches(name) for matches in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extra:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and extra:
        yield Violation(f"additional properties are not allowed: {', '.join(map(repr, extra[:MAX_VIOLATIONS]))}")


def _check_unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError as Violation

    if wanted and validator.is_type(instance, "array") and len(set(map(_freeze, instance))) < len(instance):
        yield Violation("the items are not unique")


def _freeze(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON values only: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        return "object", frozenset((name, _freeze(item)) for name, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_freeze, value))
    return ("boolean", value) if isinstance(value, bool) else value


_REPLACED: dict[str, Callable[..., Iterator[Any]]] = {
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "uniqueItems": _check_unique,
}
