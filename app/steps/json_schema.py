"""Validates JSON against a schema that a caller wrote, within bounds of work.

The schema is untrusted: references to other documents are never fetched, patterns are matched in linear time (by Rust's
`regex`, which pydantic has), and the number of keywords that are evaluated is limited.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

import msgspec
from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

MAX_SCHEMA_BYTES = 256 * 1024
MAX_VIOLATIONS = 10
_MAX_WORDS = 300
"""The longest text of a violation, in characters: it may quote the instance."""

Validate = Callable[[Any], Iterator[Any]]


class Unchecked(Exception):
    """The schema is not valid, uses what is not supported, or takes too much work. The text says which."""


class _Work(threading.local):
    left = 0


_work = _Work()


def validate(value: Any, schema: Mapping[str, Any] | bool, max_work: int) -> list[str]:
    """Return what is wrong with a value, at most MAX_VIOLATIONS texts that begin with a JSON path; [] if it is valid.

    The draft is the one that `$schema` names, else 2020-12. `format` is not checked, as the draft says. `max_work`
    bounds the keywords that are evaluated, for the schema itself and for the value: a thousand take some 10 ms. Raises
    Unchecked.
    """
    try:
        data = msgspec.json.encode(schema)
    except (ValueError, RecursionError) as error:  # half of a surrogate pair, or nested too deeply
        raise Unchecked(f"the schema cannot be written as JSON: {error}") from None
    if len(data) > MAX_SCHEMA_BYTES:
        raise Unchecked(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    _work.left = max_work
    try:
        validator = _make_validator(data)
        _work.left = max_work
        return [_describe(error) for error in islice(validator.iter_errors(value), MAX_VIOLATIONS)]
    except Unchecked:
        raise
    except RecursionError:
        raise Unchecked("the schema or the reply is nested too deeply") from None
    except Exception as error:  # of jsonschema and referencing: a reference that leads nowhere
        raise Unchecked(f"{type(error).__name__.lstrip('_')}: {str(error)[:_MAX_WORDS]}") from None


def _describe(error: Any) -> str:
    text = str(error.message)
    shortened = text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS // 2]} … {text[-_MAX_WORDS // 2 :]}"
    return f"{error.json_path}: {shortened}"


@lru_cache(maxsize=64)
def _make_validator(data: bytes) -> Any:
    """Return the validator of a schema. Raises Unchecked if the schema is not valid."""
    from jsonschema import validators  # takes 60 ms, and is needed by few
    from jsonschema_specifications import REGISTRY

    schema = msgspec.json.decode(data)
    draft = validators.validator_for(schema, default=validators.Draft202012Validator)
    bounded = _make_bounded(draft)
    problem = next(bounded(draft.META_SCHEMA, registry=REGISTRY).iter_errors(schema), None)
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
    return validators.extend(draft, {name: _counted(check) for name, check in keywords.items()})


def _without_patterns(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any] | None]:
    """Return `unevaluatedProperties` without patterns beside it, which jsonschema would match with `re`."""

    def refuse(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        if b'"patternProperties"' in msgspec.json.encode(schema):
            raise Unchecked("unevaluatedProperties beside patternProperties is not supported")
        return check(validator, value, instance, schema)

    return refuse


def _counted(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any] | None]:
    def count(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        _work.left -= 1
        if _work.left < 0:
            raise Unchecked("the check takes too much work")
        return check(validator, value, instance, schema)

    return count


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Callable[[str], bool]:
    """Return whether a text has a match. Raises Unchecked for what Rust's `regex` does not have, such as lookahead."""
    try:
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except (SchemaError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1][:_MAX_WORDS]
        raise Unchecked(f"the pattern {pattern[:100]!r} is not supported: {reason}") from None

    def matches(text: str) -> bool:
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
