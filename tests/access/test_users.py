"""Where a request names its end user, and what is none."""

from typing import Any

import pytest
from app.access.caller import Caller
from app.access.users import (
    MAX_NAME,
    UserRules,
    UserSource,
    clean_user,
    find_body_user,
    find_header_user,
    parse_user_source,
)
from app.errors import BadRequest

from tests.each_case import each_case

RULES = UserRules(UserSource("header", "x-user"))
APP = Caller("app", "app", users=RULES)
DEVICE, ACCOUNT, SESSION = "d" * 64, "0b7f0c0e-1111-4222-8333-444455556666", "7e57ab1e-5555-4666-8777-888899990000"


@each_case(
    ("text", "source"),
    [
        ("header:X-User", UserSource("header", "x-user")),
        ("user", UserSource("user")),
        ("metadata.user_id", UserSource("metadata", "user_id")),
        ("metadata.a.b", UserSource("metadata", "a.b")),
        ("claim:realm.email", UserSource("claim", "realm.email")),
    ],
)
def test_a_source_is_a_header_a_field_or_a_claim(text: str, source: UserSource) -> None:
    assert parse_user_source(text) == source


@each_case("text", ["", "header:", "header:x user", "metadata.", "metadata", "claim:", "users", "user:x", "x-user"])
def test_what_names_no_place_is_no_source(text: str) -> None:
    with pytest.raises(ValueError, match=r"header:NAME, user, metadata\.user_id or metadata\.NAME"):
        parse_user_source(text)


@each_case(
    ("given", "name"),
    [
        ("ann", "ann"),
        (" ann", " ann"),
        ("安", "安"),
        ("x" * MAX_NAME, "x" * MAX_NAME),
        ("x" * (MAX_NAME + 1), "x" * (MAX_NAME + 1)),
        ("", ""),
        ("  ", ""),
        ("a\nb", ""),
        ("a\x7f", ""),
        ("\ud800", ""),
        ("a\u202eb", ""),
        (7, ""),
        (None, ""),
        (["ann"], ""),
    ],
)
def test_a_name_has_characters_that_can_be_written_to_a_line(given: Any, name: str) -> None:
    assert clean_user(given) == name


@each_case(("value", "name"), [(b"ann", "ann"), ("Zoë".encode(), "Zoë"), ("Zoë".encode("latin-1"), "Zoë")])
def test_a_header_is_utf_8_or_latin_1(value: bytes, name: str) -> None:
    assert find_header_user({b"x-user": value}, RULES.source) == name


def test_a_header_that_is_missing_names_no_user() -> None:
    assert find_header_user({b"x-other": b"ann"}, RULES.source) == ""


@each_case(
    ("user_id", "name"),
    [
        (f'{{"device_id": "{DEVICE}", "account_uuid": "", "session_id": "{SESSION}"}}', DEVICE),
        (f'{{"device_id": "{DEVICE}", "account_uuid": "{ACCOUNT}", "session_id": "{SESSION}"}}', ACCOUNT),
        (f'{{"session_id": "{SESSION}"}}', ""),
        (f'{{"account_uuid": 7, "device_id": "{DEVICE}"}}', ""),
        ('{"device_id": "cut', ""),
        (f"user_{DEVICE}_account_{ACCOUNT}_session_{SESSION}", ACCOUNT),
        (f"user_{DEVICE}_account__session_{SESSION}", DEVICE),
        ("user_7", "user_7"),
        ("ann", "ann"),
        (7, ""),
    ],
)
def test_a_session_of_claude_code_is_no_person(user_id: Any, name: str) -> None:
    source = UserSource("metadata", "user_id")
    assert find_body_user("other", {"user_id": user_id}, source) == name


@each_case(
    ("user", "metadata", "source", "name"),
    [
        ("ann", {"x": "bob"}, UserSource("user"), "ann"),
        (None, {"user": "bob"}, UserSource("user"), ""),
        ("ann", {"x": "bob"}, UserSource("metadata", "x"), "bob"),
        ("ann", {"x": '{"device_id": "d"}'}, UserSource("metadata", "x"), '{"device_id": "d"}'),
        ("ann", None, UserSource("metadata", "x"), ""),
        ("ann", ["x"], UserSource("metadata", "x"), ""),
    ],
)
def test_a_body_names_its_user_in_one_place(user: Any, metadata: Any, source: UserSource, name: str) -> None:
    assert find_body_user(user, metadata, source) == name


def test_long_names_are_known_by_their_beginning_and_have_identities_of_their_own() -> None:
    long = [APP.with_user("x" * MAX_NAME + end) for end in ("", "y", "z")]
    assert {caller.user for caller in long} == {"x" * MAX_NAME}
    assert len({caller.identity for caller in long}) == len({caller.scope for caller in long}) == 3
    hashed = UserRules(UserSource("header", "x-user"), hash_name=lambda caller, name: f"{len(name):016x}")
    assert Caller("app", "app", users=hashed).with_user("x" * 200).user == f"{200:016x}"


def test_users_of_one_key_have_identities_of_their_own() -> None:
    callers = [APP.with_user(name) for name in ("ann", "bob", "ann", "")]
    identities = [caller.identity for caller in callers]
    assert identities[0] == identities[2] and len({*identities}) == 3
    assert [caller.scope for caller in callers] == [*identities[:3], "app"]
    assert identities[3] == "app", "requests without a user have what the key had before it named any"
    assert [caller.name for caller in callers] == ["app"] * 4


def test_with_a_cache_scope_of_the_key_users_share_stored_replies_and_nothing_else() -> None:
    shared = Caller("app", "team", users=UserRules(RULES.source, share_replies=True))
    assert [shared.with_user(name).scope for name in ("ann", "bob")] == ["team", "team"]
    assert shared.with_user("ann").identity != shared.with_user("bob").identity


def test_a_hashed_name_takes_the_place_of_the_name() -> None:
    hashed = Caller("app", "app", users=UserRules(RULES.source, hash_name=lambda caller, name: f"{caller}/{len(name)}"))
    assert hashed.with_user("ann").user == "app/3"
    assert hashed.with_user("").user == "", "no name has no hash"


@each_case(
    ("source", "param"),
    [(UserSource("header", "x-user"), None), (UserSource("user"), "user"), (UserSource("metadata", "x"), "metadata.x")],
)
def test_a_required_user_that_is_missing_is_an_error_with_its_place(source: UserSource, param: str | None) -> None:
    caller = Caller("app", "app", users=UserRules(source, required=True))
    with pytest.raises(BadRequest, match=r"the API key 'app' must name their end user in ") as caught:
        caller.with_user("").check_user()
    assert caught.value.param == param
    caller.with_user("ann").check_user()
    APP.with_user("").check_user()
    Caller("app", "app").check_user()
