"""How a request chooses the cache, in its short forms and as an object."""

from typing import Any

import pytest
from app.formats.body import CacheChoice, CacheControl
from pydantic import TypeAdapter, ValidationError

from tests.each_case import each_case

CHOICE = TypeAdapter[CacheControl | None](CacheChoice)


@each_case(
    ("value", "choice"),
    [
        (None, None),
        (True, CacheControl(mode="on")),
        (False, CacheControl(mode="off")),
        ("only", CacheControl(mode="only")),
        ({"mode": "refresh", "ttl_seconds": 5}, CacheControl(mode="refresh", ttl_seconds=5)),
        ({}, CacheControl()),
    ],
)
def test_a_mode_alone_is_short_for_an_object_with_it(value: Any, choice: CacheControl | None) -> None:
    assert CHOICE.validate_python(value) == choice


@each_case(
    ("value", "message"),
    [
        (5, "not a number"),
        ([], "not a list"),
        ("none", "'on', 'off', 'refresh' or 'only'"),
        ({"mode": "on", "ttl_seconds": 0}, "greater than or equal to 1"),
        ({"mode": "on", "odd": 1}, "not permitted"),
    ],
)
def test_anything_else_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CHOICE.validate_python(value)
