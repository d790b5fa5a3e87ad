"""The keywords of JSON Schema whose work the package jsonschema does not bound, or multiplies.

It matches patterns with `re`, compares all items of an array with each other, keeps the violations of all alternatives,
and looks for what `unevaluatedProperties` and `unevaluatedItems` mean once more below each schema.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from app.steps.schema_work import MAX_WORDS, Unchecked, charge, charge_reference, get_size

MAX_PATTERN_CHARACTERS = 2000
MAX_PATTERN_STATES = 20_000
"""A pattern with so many takes up to 10 MB, 0.2 s to compile, and 8 µs for each character of a text."""
_MAX_NAMED = 10
"""So many names are in the text of a violation."""

# -- patterns

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
    charge(states)
    try:
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except (SchemaError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1][:MAX_WORDS]
        raise Unchecked(f"the pattern {pattern[:100]!r} is not supported: {reason}") from None

    def matches(text: str) -> bool:
        charge(1 + len(text) * states // 20_000)
        try:
            adapter.validate_python(text, strict=True)
        except ValidationError:
            return False
        return True

    return matches


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _compile(pattern)(instance):
        yield _refuse(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name in _match_names(instance, pattern):
            yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def _match_names(instance: Mapping[str, Any], pattern: str) -> list[str]:
    matches = _compile(pattern)
    return [name for name in instance if matches(name)]


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    known = schema.get("properties", {})
    extra = [name for name in instance if name not in known]
    for pattern in schema.get("patternProperties", {}):
        matches = _compile(pattern)
        extra = [name for name in extra if not matches(name)]
    yield from _check_other_members(validator, allowed, instance, extra, "additional properties")


def _check_other_members(validator: Any, allowed: Any, instance: Any, places: list[Any], words: str) -> Iterator[Any]:
    """Check the members at some names or indexes, which no other keyword has looked at."""
    if allowed is False and places:
        yield _refuse(f"{words} are not allowed: {', '.join(map(repr, places[:_MAX_NAMED]))}")
    elif allowed is not False:
        for place in places:
            yield from validator.descend(instance[place], allowed, path=place)


# -- what other keywords have not looked at


def _check_unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    evaluated = _find_evaluated(_add_properties, validator, instance, schema, "unevaluatedProperties")
    left = [name for name in instance if name not in evaluated]
    yield from _check_other_members(validator, allowed, instance, left, "unevaluated properties")


def _check_unevaluated_items(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "array"):
        return
    evaluated = _find_evaluated(_add_items, validator, instance, schema, "unevaluatedItems")
    left = [index for index in range(len(instance)) if index not in evaluated]
    yield from _check_other_members(validator, allowed, instance, left, "unevaluated items, at the indexes")


def _find_evaluated(add: Callable[..., None], validator: Any, instance: Any, schema: Any, keyword: str) -> set[Any]:
    """Return the names or indexes that the other keywords of a schema look at (2020-12, core, 11)."""
    evaluated: set[Any] = set()
    others = {name: value for name, value in schema.items() if name != keyword}
    _add_evaluated(add, validator, instance, others, evaluated)
    return evaluated


def _add_evaluated(add: Callable[..., None], validator: Any, instance: Any, schema: Any, evaluated: set[Any]) -> None:
    """Add what a schema, and those that it applies to the same value, look at. Whether the value is valid against those
    that must all be obeyed is not looked at: if it is not, it is refused for that."""
    charge(1)
    if not isinstance(schema, dict):
        return
    add(validator, instance, schema, evaluated)
    charge(len(schema) // 20 + len(instance) // 40)
    go_on = partial(_add_evaluated, add, instance=instance, evaluated=evaluated)
    for found in _resolve_references(validator, schema):
        go_on(validator.evolve(schema=found.contents, _resolver=found.resolver), schema=found.contents)
    for part in _list_applied(validator, instance, schema):
        go_on(validator, schema=part)


def _resolve_references(validator: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    for name in ("$ref", "$dynamicRef"):
        if name in schema and name in validator.VALIDATORS:
            charge_reference(schema[name])
            yield validator._resolver.lookup(schema[name])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        from referencing.jsonschema import lookup_recursive_ref

        charge_reference("$recursiveRef")
        yield lookup_recursive_ref(validator._resolver)


def _list_applied(validator: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """List the parts of a schema that apply to the same value."""
    yield from schema.get("allOf", ())
    for name in ("anyOf", "oneOf"):
        for part in schema.get(name, ()):
            if _is_valid(validator, instance, part):
                yield part
    if "if" in schema:
        if _is_valid(validator, instance, schema["if"]):
            yield schema["if"]
            yield schema.get("then", True)
        else:
            yield schema.get("else", True)
    for name, part in schema.get("dependentSchemas", {}).items():
        if isinstance(instance, dict) and name in instance:
            yield part


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _add_properties(validator: Any, instance: Any, schema: Mapping[str, Any], evaluated: set[str]) -> None:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        evaluated.update(instance)
        return
    evaluated.update(name for name in schema.get("properties", ()) if name in instance)
    charge(len(schema.get("properties", ())) // 40)
    for pattern in schema.get("patternProperties", ()):
        evaluated.update(_match_names(instance, pattern))


def _add_items(validator: Any, instance: Any, schema: Mapping[str, Any], evaluated: set[int]) -> None:
    has_prefix = "prefixItems" in validator.VALIDATORS  # else `items` may be an array
    items = schema.get("items")
    first = schema.get("prefixItems", ()) if has_prefix else items if isinstance(items, list) else ()
    has_rest = "additionalItems" in schema if isinstance(items, list) else items is not None
    if has_rest or "unevaluatedItems" in schema:
        evaluated.update(range(len(instance)))
        return
    evaluated.update(range(min(len(first), len(instance))))
    if "contains" in schema and has_prefix:
        part = schema["contains"]
        evaluated.update(index for index, item in enumerate(instance) if _is_valid(validator, item, part))


# -- alternatives and comparisons


def _check_any(validator: Any, parts: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not any(_is_valid(validator, instance, part) for part in parts):
        yield _refuse(f"{instance!r} is not valid under any of the given schemas")


def _check_one(validator: Any, parts: Any, instance: Any, schema: Any) -> Iterator[Any]:
    valid = [index for index, part in enumerate(parts) if _is_valid(validator, instance, part)]
    if not valid:
        yield _refuse(f"{instance!r} is not valid under any of the given schemas")
    elif len(valid) > 1:
        yield _refuse(
            f"{instance!r} is valid under more than one of the given schemas: {str(valid[:_MAX_NAMED])[1:-1]}"
        )


def _check_unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if (
        wanted
        and validator.is_type(instance, "array")
        and len({_write_equal(item) for item in instance}) < len(instance)
    ):
        yield _refuse("the items are not unique")


def _write_equal(item: Any) -> str:
    """Return a text that is the same for equal JSON values only: 1 and 1.0 are equal, 1 and true are not.

    Numbers with the same hash are easily found, texts are not."""
    return json.dumps(_make_whole(item), sort_keys=True)


def _make_whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _make_whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_make_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse(text: str) -> Any:
    from jsonschema import ValidationError as Violation  # takes 60 ms, and is needed by few

    return Violation(text)


REPLACED: dict[str, Callable[..., Iterator[Any]]] = {
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "unevaluatedProperties": _check_unevaluated_properties,
    "unevaluatedItems": _check_unevaluated_items,
    "uniqueItems": _check_unique,
    "anyOf": _check_any,
    "oneOf": _check_one,
}

# -- counting

_LOOPS = frozenset(["items", "additionalItems", "contains", "propertyNames", *REPLACED]) - {"anyOf", "oneOf"}
"""The keywords that go through all members of an array or object."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def count_keyword(name: str, value: Any, instance: Any) -> None:
    """Count the work of a keyword itself, without the keywords below it."""
    count = len(value) if isinstance(value, list | dict) else 0
    if name in ("enum", "const", "uniqueItems"):  # they compare whole values
        charge(1 + max(1, count) * (1 if isinstance(instance, str) else get_size(instance) // 10) // 10)
        return
    if name in ("dependentRequired", "dependencies"):
        count += sum([len(names) for names in value.values() if isinstance(names, list)])
    members = len(instance) if name in _LOOPS and isinstance(instance, list | dict) else 0
    charge(1 + count // 40 + members // 4 + (get_size(instance) // 200 if name == "multipleOf" else 0))
    if name in _REFERENCES:
        charge_reference(value)
