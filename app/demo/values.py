"""Plain values for a schema when the question gives none."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from app.demo.schema import Schema, bound, kinds

MOST_ITEMS = 100
FORMATS: Mapping[str, str] = {
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


def kinds_of(schema: Schema) -> list[str]:
    """Kinds that a value can have, `null` last; guessed when the schema names none."""
    named = kinds(schema)
    if named:
        return sorted(named, key=lambda kind: kind == "null")
    signs = {
        "properties": "object",
        "required": "object",
        "items": "array",
        "prefixItems": "array",
        "minimum": "number",
        "maximum": "number",
    }
    return [next((kind for key, kind in signs.items() if key in schema), "string")]


def neighbours(value: Any, schema: Schema) -> Iterator[Any]:
    yield value
    if isinstance(schema.get("enum"), list):
        yield from schema["enum"]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        step = bound(schema, "multipleOf", 1) or 1
        yield from (value + sign * step * at for at in range(1, MOST_ITEMS) for sign in (1, -1))
    elif isinstance(value, str):
        yield from (
            f"{value[: max(0, len(value) - 3)]}{at}" if at > 9 else f"{value[:-1]}{at}" for at in range(MOST_ITEMS)
        )
        yield from (f"{value} {at}" for at in range(MOST_ITEMS))


def in_range(schema: Schema, kind: str) -> Iterator[int | float]:
    low = max(bound(schema, "minimum", -math.inf), bound(schema, "exclusiveMinimum", -math.inf))
    high = min(bound(schema, "maximum", math.inf), bound(schema, "exclusiveMaximum", math.inf))
    step = bound(schema, "multipleOf", 0)
    yield 1
    yield 0
    for start in (low, high):
        if not math.isfinite(start):
            continue
        unit = step if step > 0 else 1
        near = round(start / unit)
        yield from (_number((near + shift) * unit, kind) for shift in (0, 1, -1, 2, -2))
        yield _number(start, kind)
    if kind == "number" and math.isfinite(low) and math.isfinite(high):
        yield (low + high) / 2
    yield _number(low, kind) if math.isfinite(low) else 1


def _number(value: float, kind: str) -> int | float:
    return int(value) if kind == "integer" or float(value).is_integer() else value
