"""Bodies that are parsed without a schema are parsed as with it."""

import json
from typing import Any

import pytest
from app.api.chat_schema import parse_chat_body
from app.api.completions import parse_completions_body
from app.api.plain_body import MAX_KEPT_BYTES, parse_plain_body
from app.formats.body import ParsedRequest
from app.formats.openai import OPENAI
from app.formats.request_limits import RequestLimits
from app.profiles import Profile
from app.upstream.request import build
from msgspec.json import encode

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=10, max_content_items=10, max_functions=10, max_nesting=20)
USER, ASSISTANT, SYSTEM = ({"role": role, "content": "Hi é😀"} for role in ("user", "assistant", "system"))
FUNCTION = {
    "name": "f",
    "description": "F",
    "parameters": {"type": "object", "properties": {"x": {"enum": [1.5, None]}}},
}
WRAPPED = {"type": "function", "function": FUNCTION | {"name": "g", "cache_control": {"type": "ephemeral"}}}
ODD = {"name": "h", "unknown": 1}
LONG = {"name": "long", "description": "x" * MAX_KEPT_BYTES}

PLAIN: dict[str, Json] = {
    "one message": {"messages": [USER]},
    "a conversation": {"model": "m", "messages": [SYSTEM, USER, ASSISTANT, USER], "stream": False},
    "a stream": {"messages": [USER], "stream": True},
    "functions": {"messages": [USER], "functions": [FUNCTION, ODD]},
    "tools": {"messages": [USER], "tools": [WRAPPED]},
    "no tools": {"messages": [USER], "tools": []},
    "many functions": {"messages": [USER], "functions": [LONG]},
}
OTHER: dict[str, Json] = {
    "two answers in a row": {"messages": [USER, ASSISTANT, ASSISTANT, USER]},
    "an empty text": {"messages": [{"role": "user", "content": ""}]},
    "another field of a message": {"messages": [USER | {"name": "n"}]},
    "no messages": {"messages": []},
    "another field": {"messages": [USER], "temperature": 0},
    "two lists": {"messages": [USER], "tools": [FUNCTION], "functions": [FUNCTION]},
    "two functions of one name": {"messages": [USER], "tools": [FUNCTION, FUNCTION]},
    "null": {"messages": [USER], "tools": None},
    "deep": {"messages": [USER], "tools": [{"name": "f", "parameters": json.loads("[" * 200 + "]" * 200)}]},
    "too many messages": {"messages": [USER] * (LIMITS.max_messages + 1)},
}


def build_body(parsed: ParsedRequest) -> Any:
    return build(parsed.request, "m", Profile(cache_control=True))


@each_case("name", PLAIN)
@each_case("path", ["chat", "completions"])
def test_a_plain_body_is_parsed_as_with_its_schema(name: str, path: str) -> None:
    parse = parse_chat_body if path == "chat" else parse_completions_body
    raw = json.dumps(PLAIN[name]).encode()
    assert parse_plain_body(raw, LIMITS, OPENAI, None, stream=True) is not None
    for _ in range(2):  # what was parsed of functions is kept
        plain, full = parse(raw, LIMITS), parse(json.dumps(PLAIN[name] | {"metadata": None}).encode(), LIMITS)
        assert isinstance(plain, ParsedRequest) and isinstance(full, ParsedRequest)
        assert (plain.settings, plain.warnings, plain.options) == (full.settings, full.warnings, full.options)
        assert plain.reply_format is full.reply_format
        assert [tool.schema for tool in plain.request.tools] == [tool.schema for tool in full.request.tools]
        assert plain.request.messages == full.request.messages and plain.request.policy is full.request.policy
        assert plain.request.plain and full.request.plain and plain.request.stream == full.request.stream
        assert encode(build_body(plain)) == encode(build_body(full))


@pytest.mark.parametrize("name", OTHER)
def test_any_other_body_is_left_to_the_schema(name: str) -> None:
    assert parse_plain_body(json.dumps(OTHER[name]).encode(), LIMITS, OPENAI, None, stream=True) is None


def test_what_is_not_json_is_left_to_the_schema() -> None:
    message = b'{"messages": [{"role": "user", "content": "%b"}]}'
    for raw in (b"", b"{", message % b"\xff", message % b"\\ud800", message % b"a" + b"]"):
        assert parse_plain_body(raw, LIMITS, OPENAI, None, stream=True) is None, raw


def test_an_unchanged_list_of_functions_is_parsed_once() -> None:
    bodies = [json.dumps({"messages": [USER | {"content": text}], "functions": [FUNCTION]}).encode() for text in "ab"]
    first, second = (parse_plain_body(raw, LIMITS, OPENAI, None, stream=True) for raw in bodies)
    assert first is not None and second is not None
    assert first.request.tools is second.request.tools
