"""How a request chooses the cache, in its short forms and as an object, and what bodies say of users and tags."""

from typing import Any

import pytest
from app.formats.body import CacheChoice, CacheControl, find_user, join_tags, keep_texts
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


@each_case(
    ("metadata", "joined"),
    [
        ({"tags": ["a", "b"], "x": "y"}, {"tags": "a,b", "x": "y"}),
        ({"tags": []}, {"tags": ""}),
        ({"tags": "a"}, {"tags": "a"}),
        ({"tags": ["a", 7]}, {"tags": ["a", 7]}),
        ({"other": ["a"]}, {"other": ["a"]}),
        (["tags"], ["tags"]),
        (None, None),
    ],
)
def test_a_list_of_tags_is_written_as_one_text_and_nothing_else_is_changed(metadata: Any, joined: Any) -> None:
    assert join_tags(metadata) == joined


@each_case(
    ("metadata", "kept"),
    [
        ({"a": "x" * 600, "b": 7, "tags": ["t", "u"]}, {"a": "x" * 512, "tags": "t,u"}),
        ({"tags": ["t", 7]}, {}),
        (None, {}),
        ("text", {}),
    ],
)
def test_only_texts_of_metadata_are_kept(metadata: Any, kept: Any) -> None:
    assert keep_texts(metadata) == kept


@each_case(
    ("fields", "user"),
    [
        ({"user": "ann", "safety_identifier": "bob"}, "ann"),
        ({"user": "", "safety_identifier": "bob"}, "bob"),
        ({"user": 7, "safety_identifier": "bob"}, "bob"),
        ({"user": None}, None),
        ({}, None),
    ],
)
def test_a_body_calls_its_user_by_the_older_or_the_newer_name(fields: Any, user: str | None) -> None:
    assert find_user(fields) == user
