"""Validates JSON against a schema that a caller wrote, within bounds of work.

The schema is untrusted: references to other documents are never fetched, patterns are matched in linear time (by Rust's
`regex`, which pydantic has), and the work is limited: see `schema_work`.

The package jsonschema-rs is quicker, but its work cannot be limited or stopped: `unevaluatedProperties` in a schema of
1 KB takes it minutes, in which no other thread of the process runs (0.61.2).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import urljoin

import msgspec

from app.steps import schema_work
from app.steps.schema_keywords import REPLACED, count_keyword
from app.steps.schema_work import MAX_WORDS, Stop, Unchecked, charge, measure, shorten

__all__ = ["Stop", "Unchecked", "find_schema_mistake", "is_prepared", "prepare_schema", "validate"]

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_WORK = 40_000
"""The work for the schema itself, which is kept: some 0.4 s. `prepare_schema` does it in a thread before."""
MAX_VIOLATIONS = 10
_INVALID = "the schema is not valid: "
_DRAFT_4 = "http://json-schema.org/draft-04/schema#"


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


def find_schema_mistake(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema is neither valid in its own draft nor in draft 4, or takes too much work; None if it is."""
    try:
        found = _make_or_refuse(_encode(schema))
        if isinstance(found, Unchecked):
            older = _make_or_refuse(_encode({**schema, "$schema": _DRAFT_4}))
            return str(found).removeprefix(_INVALID) if isinstance(older, Unchecked) else None
    except Unchecked as error:
        return str(error)
    return None


def validate(value: Any, schema: Mapping[str, Any] | bool, max_work: int, stop: Stop | None = None) -> list[str]:
    """Return what is wrong with a value, at most MAX_VIOLATIONS texts that begin with a JSON path; [] if it is valid.

    The draft is the one that `$schema` names, else 2020-12. `format` is not checked, as the draft says. `max_work`
    bounds the work: a thousand units take some 10 ms. Raises Unchecked.
    """
    data = _encode(schema)
    validator = _find_validator(data)
    schema_work.begin(max_work, len(data), stop)
    try:
        return [_describe(error) for error in islice(validator.iter_errors(measure(value)), MAX_VIOLATIONS)]
    except Exception as error:
        raise _make_unchecked(error) from None
    finally:
        schema_work.end()


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
    schema_work.begin(MAX_SCHEMA_WORK, len(data))
    try:
        return _make_validator(data)
    except Exception as error:
        return Unchecked(str(_make_unchecked(error)))
    finally:
        schema_work.end()


def _make_unchecked(error: Exception) -> Unchecked:
    if isinstance(error, Unchecked):
        return error
    if isinstance(error, RecursionError):
        return Unchecked("the schema or the reply is nested too deeply")
    # Of jsonschema and referencing: a reference that leads nowhere.
    return Unchecked(f"{type(error).__name__.lstrip('_')}: {str(error)[:MAX_WORDS]}")


def _describe(error: Any) -> str:
    return f"{shorten(error.json_path)}: {shorten(error.message)}"


def _make_validator(data: bytes) -> Any:
    """Return the validator of a schema. Raises Unchecked if the schema is not valid."""
    from jsonschema import validators  # takes 60 ms, and is needed by few
    from jsonschema_specifications import REGISTRY

    schema = msgspec.json.decode(data)
    draft = validators.validator_for(schema, default=validators.Draft202012Validator)
    bounded = _make_bounded(draft)
    schema = measure(schema)
    problem = next(bounded(_make_meta_schema(draft), registry=REGISTRY).iter_errors(schema), None)
    if problem is not None:
        raise Unchecked(f"{_INVALID}{_describe(problem)}")
    return bounded(schema, registry=REGISTRY)


@lru_cache(maxsize=16)
def _make_bounded(draft: Any) -> Any:
    """Return a validator class that counts its work, also the work with boolean schemas and with many keywords."""
    from jsonschema import validators

    keywords = {**draft.VALIDATORS, **{name: REPLACED[name] for name in REPLACED if name in draft.VALIDATORS}}
    bounded = validators.extend(draft, {name: _counted(name, check) for name, check in keywords.items()})
    evolve, descend, iter_errors = bounded.evolve, bounded.descend, bounded.iter_errors

    def evolve_bounded(validator: Any, **changes: Any) -> Any:
        """A `$schema` in a part of the schema would bring back jsonschema's own class for that part."""
        schema = changes.get("schema")
        if isinstance(schema, dict):
            charge(len(schema) // 20)
            if "$schema" in schema:
                changes["schema"] = {name: value for name, value in schema.items() if name != "$schema"}
        return evolve(validator, **changes)

    def descend_bounded(validator: Any, instance: Any, schema: Any, *others: Any, **options: Any) -> Iterator[Any]:
        charge(1)
        errors: Iterator[Any] = descend(validator, instance, schema, *others, **options)
        return errors

    def iter_errors_bounded(validator: Any, instance: Any) -> Iterator[Any]:
        charge(1)
        errors: Iterator[Any] = iter_errors(validator, instance)
        return errors

    bounded.evolve, bounded.descend, bounded.iter_errors = evolve_bounded, descend_bounded, iter_errors_bounded
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


def _counted(name: str, check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any]]:
    """Return the check of a keyword, which counts its work and keeps no long message."""

    def count(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        count_keyword(name, value, instance)
        for error in check(validator, value, instance, schema) or ():
            charge(1)
            if not isinstance(error.validator, str):  # it comes from this keyword, not from one below
                error.message = shorten(error.message)
            yield error

    return count
