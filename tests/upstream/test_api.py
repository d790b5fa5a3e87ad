"""What differs between the APIs of model servers."""

from typing import Any

import msgspec
import pytest
from app.chat.events import Fault
from app.chat.known_conversation import KnownConversation
from app.config.registry import targets
from app.config.settings import Settings
from app.profiles import Profile
from app.upstream.api import Api, encode_tools, find_api, is_deterministic, list_entries, repair_refused
from app.upstream.chat_completions.api import API as CHAT_COMPLETIONS


def test_an_api_is_found_by_the_name_of_its_package() -> None:
    assert find_api("chat_completions") is CHAT_COMPLETIONS


@pytest.mark.parametrize(
    ("base_url", "complete"),
    [("http://h/anthropic", "http://h/anthropic/v1"), ("http://h/v1", "http://h/v1"), ("http://h", "http://h/v1")],
)
def test_v1_is_added_to_the_base_url_of_an_api_that_is_documented_without_it(base_url: str, complete: str) -> None:
    api = Api("/x", CHAT_COMPLETIONS.build, CHAT_COMPLETIONS.make_reader, needs_v1=True)
    assert api.complete_base_url(base_url) == complete
    assert CHAT_COMPLETIONS.complete_base_url(base_url) == base_url


def test_the_key_has_the_header_of_the_api_or_that_of_auth() -> None:
    api = Api("/x", CHAT_COMPLETIONS.build, CHAT_COMPLETIONS.make_reader, key_header="x-key", key_prefix="")
    assert api.make_headers("k") == {"x-key": "k"}
    assert api.make_headers("k", "bearer") == {"authorization": "Bearer k"}
    assert api.make_headers(None) == {}


def test_a_target_has_the_path_and_the_headers_of_its_api() -> None:
    settings = Settings.model_validate({"upstreams": {"a": {"base_url": "http://h/v1", "api_key": "k"}}})
    target = targets(settings)["a"]
    assert str(target.url(target.reply_path)) == "http://h/v1/chat/completions"
    assert target.headers["authorization"] == "Bearer k"


def test_a_body_is_deterministic_by_temperature_0_or_a_seed() -> None:
    assert is_deterministic({"temperature": 0}, Profile())
    assert not is_deterministic({"temperature": False}, Profile())


def test_a_passed_conversation_is_written_once() -> None:
    known = KnownConversation()

    def convert(entry: Any) -> Any:
        return None if entry["n"] % 5 == 0 else {"x": entry["n"]}

    for size in (3, 20, 24, 24, 10):
        entries = [{"n": number} for number in range(size)]
        whole = list_entries(entries, convert, "rule", None)
        assert whole == [{"x": number} for number in range(size) if number % 5]
        assert msgspec.json.encode(list_entries(entries, convert, "rule", known)) == msgspec.json.encode(whole)
    assert isinstance(list_entries([{"n": number} for number in range(24)], convert, "rule", known)[0], msgspec.Raw)


@pytest.mark.parametrize("known", [None, KnownConversation()])
def test_the_tools_of_a_passed_body_are_encoded_once(known: KnownConversation | None) -> None:
    tools = [{"name": "f"}]
    bodies: list[dict[str, Any]] = [
        {"tools": tools},
        {"tools": tools},
        {"tools": [{"name": "g"}]},
        {"tools": "odd"},
        {},
    ]
    given = msgspec.json.encode(bodies)
    for body in bodies:
        encode_tools(body, known)
    assert msgspec.json.encode(bodies) == given
    assert (bodies[0]["tools"] is bodies[1]["tools"]) and isinstance(bodies[0]["tools"], msgspec.Raw) is bool(known)


def refused(message: str, cause: str = "", code: str = "invalid_request") -> Fault:
    return Fault(code, message, False, 400, cause=cause)


def test_a_switch_of_thinking_that_a_server_does_not_know_is_left_out() -> None:
    body = msgspec.json.encode({"messages": [], "enable_thinking": False, "thinking_budget": 5, "top_k": 1})
    repaired = repair_refused(CHAT_COMPLETIONS, body, refused("Extra inputs are not permitted: enable_thinking"))
    assert repaired is not None and msgspec.json.decode(repaired.data) == {"messages": [], "top_k": 1}
    assert "enable_thinking, thinking_budget" in repaired.warning
    assert repair_refused(CHAT_COMPLETIONS, body, refused("messages is unknown")) is None
    assert repair_refused(CHAT_COMPLETIONS, body, refused("enable_thinking", code="upstream_error")) is None
    assert repair_refused(CHAT_COMPLETIONS, b'{"messages":[]}', refused("enable_thinking")) is None
    budget = b'{"messages":[],"thinking_budget":5}'
    assert repair_refused(CHAT_COMPLETIONS, budget, refused("enable_thinking")) is None


def test_reasoning_that_a_server_cannot_verify_is_left_out() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "x"}}}
    body = msgspec.json.encode({"messages": [{"role": "assistant", "tool_calls": [signed]}]})
    repaired = repair_refused(CHAT_COMPLETIONS, body, refused("Corrupted thought signature.", "reasoning_refused"))
    assert repaired is not None and b"skip_thought" in repaired.data and "reasoning" in repaired.warning
    assert repair_refused(CHAT_COMPLETIONS, repaired.data, refused("x", "reasoning_refused")) is None
