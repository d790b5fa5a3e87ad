"""The body of `POST /v1/chat`: its fields, its formats, and the hints for fields in the wrong place."""

import json
from typing import Any

import pytest
from app.errors import InvalidInput
from app.formats import FORMATS
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.request_limits import RequestLimits

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=5, max_content_items=20, max_functions=3, max_nesting=9)
USER: Json = {"role": "user", "content": "Hi"}


def parse(**fields: Any) -> ParsedRequest | RejectedRequest:
    return parse_chat_body(json.dumps({"model": "m", "messages": [USER], **fields}).encode(), LIMITS)


def accept(**fields: Any) -> ParsedRequest:
    parsed = parse(**fields)
    assert isinstance(parsed, ParsedRequest)
    return parsed


def refuse(**fields: Any) -> list[tuple[str, str]]:
    rejected = parse(**fields)
    assert isinstance(rejected, RejectedRequest)
    assert isinstance(rejected.error, InvalidInput)
    return [(one.path, one.message) for one in rejected.error.violations]


def test_the_settings_of_a_body_have_defaults() -> None:
    settings = accept().settings
    assert (settings.model, settings.stream, settings.mode) == ("m", True, "delta")
    assert (settings.completed_bodies, settings.include_usage, settings.unread_seconds) == (True, True, 0.0)


@each_case(
    ("fields", "mode"),
    [
        ({"stream_mode": "snapshot"}, "snapshot"),
        ({"stream": False}, "whole"),
        ({"stream": False, "stream_mode": "snapshot"}, "whole"),
    ],
)
def test_the_mode_is_that_of_the_stream_unless_there_is_none(fields: Json, mode: str) -> None:
    assert accept(**fields).settings.mode == mode


@each_case(
    ("fields", "name"),
    [
        ({}, "qwen"),
        ({"format": "openai"}, "openai"),
        ({"format": "openai", "reply_format": "autogen"}, "autogen"),
        ({"format": "auto", "messages": [{"role": "user", "content": [{"type": "text", "text": "t"}]}]}, "openai"),
        ({"format": "auto"}, "qwen"),
    ],
)
def test_the_reply_has_the_format_of_the_messages_unless_another_is_named(fields: Json, name: str) -> None:
    assert accept(**fields).reply_format is FORMATS[name]


def test_the_options_of_a_format_are_those_of_the_body() -> None:
    options = accept(agent="a", agent_name="n", autogen_stream="compat").options
    assert (options.agent, options.agent_name, options.autogen_stream) == ("a", "n", "compat")
    assert accept(agent="a").options.agent_name == "assistant"


@each_case(
    ("fields", "path", "hint"),
    [
        ({"temperature": 1}, "temperature", "; put it in generate_cfg: generate_cfg.temperature"),
        ({"generate_cfg": {"stream": True}}, "generate_cfg.stream", "; put it beside generate_cfg: stream"),
        ({"max_output_tokens": 1}, "max_output_tokens", "; its name here is generate_cfg.max_tokens"),
        ({"generate_cfg": {"stop_sequences": []}}, "generate_cfg.stop_sequences", "; its name here is stop"),
        ({"system": "s"}, "system", '; a system prompt is the first message, {"role": "system", "content": "…"}'),
        ({"input": "s"}, "input", '; the conversation is `messages`, [{"role": "user", "content": "…"}]'),
        ({"ttl_seconds": 1}, "ttl_seconds", "; put it in cache: cache.ttl_seconds"),
        ({"temprature": 1}, "temprature", "; did you mean `generate_cfg.temperature`?"),
        ({"modle": "m"}, "modle", "; did you mean `model`?"),
        (
            {"generate_cfg": {"own_option": 1}},
            "generate_cfg.own_option",
            "; what only the model server knows goes into generate_cfg.extra_body",
        ),
    ],
)
def test_a_field_in_the_wrong_place_is_refused_with_its_place(fields: Json, path: str, hint: str) -> None:
    [(place, message)] = refuse(**fields)
    assert place == path
    assert message.endswith(hint)


def test_the_lists_of_an_invalid_body_are_reported_with_it() -> None:
    found = refuse(odd=1, messages=[{"role": "user"}], functions=[{"name": ""}])
    assert [path for path, _ in found] == ["odd", "messages[0].content", "functions[0].name"]


@each_case(
    ("fields", "name"),
    [
        ({"format": "openai", "odd": 1}, "openai"),
        ({"format": "openai", "reply_format": "anthropic", "odd": 1}, "anthropic"),
        ({"format": "openai", "messages": [{"role": "user"}]}, "openai"),
        ({"format": "unknown"}, None),
        ({"format": 1}, None),
    ],
)
def test_an_error_has_the_format_of_the_reply_if_that_is_known(fields: Json, name: str | None) -> None:
    rejected = parse(**fields)
    assert isinstance(rejected, RejectedRequest)
    assert rejected.write_error is (None if name is None else FORMATS[name].error)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'"{}"'])
def test_a_body_that_is_no_object_is_rejected_without_a_format(raw: bytes) -> None:
    rejected = parse_chat_body(raw, LIMITS)
    assert isinstance(rejected, RejectedRequest)
    assert (rejected.error.status, rejected.write_error) == (400, None)


def test_the_search_of_long_files_is_a_part_of_the_request() -> None:
    parsed = accept(rag_cfg={"max_ref_token": 2000, "index_path": "x"})
    assert parsed.request.passages is not None
    assert parsed.request.passages.max_tokens == 2000
    assert list(parsed.warnings) == ["rag_cfg.index_path has no effect: files are searched again in each request"]
