"""API keys: which caller a request has by its headers, and why it is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from app.access import ANONYMOUS, Caller, KeyRing, ModelGlobs, hash_key, make_key
from app.access.key_ring import StoredKey
from app.errors import Forbidden, InvalidApiKey

ALICE, BOB = Caller("alice", "alice"), Caller("bob", "bob")
END = datetime(2027, 1, 1, tzinfo=UTC)
RING = KeyRing([StoredKey(hash_key("key-of-alice"), ALICE), StoredKey(hash_key("key-of-bob"), BOB)])


def name(*headers: tuple[str, str], ring: KeyRing = RING) -> str:
    return ring.authenticate([(key.encode(), value.encode()) for key, value in headers]).name


def refusal(*headers: tuple[str, str], ring: KeyRing = RING) -> InvalidApiKey:
    with pytest.raises(InvalidApiKey) as caught:
        name(*headers, ring=ring)
    return caught.value


def test_a_key_is_found_in_each_of_three_headers() -> None:
    for header, value in [
        ("authorization", "Bearer key-of-alice"),
        ("authorization", "bearer  key-of-alice "),
        ("x-api-key", "key-of-alice"),
        ("api-key", " key-of-alice"),
    ]:
        assert name(("accept", "*/*"), (header, value)) == "alice"


def test_of_several_keys_the_first_known_one_counts_in_the_order_of_the_headers() -> None:
    assert name(("x-api-key", "key-of-bob"), ("authorization", "Bearer key-of-alice")) == "alice"
    assert name(("x-api-key", "key-of-bob"), ("authorization", "Bearer any")) == "bob"
    assert name(("api-key", "key-of-alice"), ("x-api-key", "key-of-bob")) == "bob"


def test_of_a_header_that_is_there_twice_the_first_known_key_counts() -> None:
    alice, bob = ("authorization", "Bearer key-of-alice"), ("authorization", "Bearer key-of-bob")
    for headers, expected in [
        ((alice, bob), "alice"),
        ((bob, alice), "bob"),
        ((("authorization", "Basic any"), bob), "bob"),
        ((bob, ("authorization", "Basic any")), "bob"),
        ((("x-api-key", "key-of-alice"), ("accept", "a"), ("accept", "b"), bob), "bob"),
    ]:
        assert name(*headers) == expected, headers


def test_a_key_that_is_missing_unknown_or_of_another_scheme_is_refused_and_never_repeated() -> None:
    for headers, invalid in [
        ((), False),
        ((("authorization", "Basic key-of-alice"),), False),
        ((("authorization", "key-of-alice"),), False),
        ((("authorization", "Bearer "),), True),
        ((("authorization", "Bearer key-of-mallory"),), True),
        ((("authorization", f"Bearer {hash_key('key-of-alice')}"),), True),
        ((("x-api-key", "KEY-OF-ALICE"),), True),
        ((("api-key", "\xff"),), True),
    ]:
        error = refusal(*headers)
        assert (error.status, error.code, error.retryable) == (401, "invalid_api_key", False)
        assert error.headers["www-authenticate"].startswith('Bearer realm="parley"')
        assert ("invalid_token" in error.headers["www-authenticate"]) == invalid
        assert "parley keys new NAME" in error.message and "key-of" not in error.message


def test_a_header_without_bearer_is_refused_with_what_is_missing() -> None:
    form = "Send the key as Authorization: Bearer <key>, as x-api-key, as api-key or as x-goog-api-key"
    operator = "the gateway's operator creates keys (parley keys new NAME)"
    for value, problem in [
        ("key-of-alice", "the header authorization has no `Bearer ` before the key"),
        ("", "the header authorization is empty"),
        ("Bearer", "the header authorization has no key after `Bearer`"),
        ("Bearer: key-of-alice", "the header authorization must have `Bearer`, a space and the key"),
        ("Token key-of-alice", "the header authorization has `Token` before the key instead of `Bearer`"),
        ("key of-alice", "the header authorization has another scheme before the key instead of `Bearer`"),
    ]:
        assert refusal(("authorization", value)).message == f"{problem}. {form}; {operator}"


def test_a_key_without_bearer_is_no_request_without_a_key() -> None:
    ring = KeyRing([StoredKey(hash_key("k"), ALICE)], anonymous=Caller("(anonymous)", ""))
    assert "no `Bearer ` before the key" in refusal(("authorization", "k"), ring=ring).message
    assert name(("authorization", "k"), ("x-api-key", "k"), ring=ring) == "alice"
    assert name(("authorization", "Basic any"), ring=ring) == "(anonymous)"


def test_a_key_expires_at_its_time() -> None:
    times = [END - timedelta(microseconds=1), END]
    ring = KeyRing([StoredKey(hash_key("k"), ALICE, END)], now=lambda: times.pop(0))
    assert name(("api-key", "k"), ring=ring) == "alice"
    error = refusal(("api-key", "k"), ring=ring)
    assert "'alice' expired at 2027-01-01T00:00:00+00:00" in error.message and "keys.alice.expires" in error.message


def test_requests_without_a_key_may_have_a_caller_of_their_own_but_wrong_keys_do_not() -> None:
    ring = KeyRing([StoredKey(hash_key("k"), ALICE)], anonymous=Caller("(anonymous)", ""))
    assert name(ring=ring) == "(anonymous)"
    assert name(("api-key", "k"), ring=ring) == "alice"
    assert refusal(("api-key", "wrong"), ring=ring).status == 401


def test_new_keys_differ_and_can_be_recognised() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    assert {key[:7] for key in keys} == {"parley-"} and {len(key) for key in keys} == {50}


def test_a_caller_may_use_the_models_that_a_pattern_matches_by_one_of_their_names() -> None:
    caller = Caller("alice", "alice", models=ModelGlobs(("qwen*", "gpt-[45]")))
    caller.check_model("qwen3")
    caller.check_model("fast", "qwen3-8b")
    caller.check_model("gpt-4")
    for names in [("Qwen3",), ("gpt-6",), ("", "x")]:
        with pytest.raises(Forbidden, match="may use: qwen\\*, gpt-\\[45\\]"):
            caller.check_model(*names)
    assert caller.select_models(["gpt-5", "other", "qwen"]) == ["gpt-5", "qwen"]
    assert ANONYMOUS.select_models(["a", "b"]) == ["a", "b"]
    with pytest.raises(Forbidden, match="not for models. Send another key"):
        Caller("admin", "admin", models=ModelGlobs(())).check_model("m")
