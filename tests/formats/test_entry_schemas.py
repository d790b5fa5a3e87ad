"""Entries in their plain form are read as by the whole schema."""

import json
from typing import Any

import pytest
from agent_bodies import WRITERS, make_conversation
from app.formats.anthropic.parse import parse_messages
from app.formats.anthropic.plain import PLAIN_MESSAGES, PlainMessage
from app.formats.anthropic.schema import AnthropicMessage, AnthropicMessages
from app.formats.base import Options, ParsedMessages
from app.formats.entry_schemas import EntrySchema, validate_rest
from app.formats.openai import OPENAI
from app.formats.openai import plain as openai_plain
from app.formats.openai.schema import OpenAIMessage, OpenAIMessages
from app.formats.request_memory import validate_entries
from app.formats.responses.parse import parse_items
from app.formats.responses.plain import PLAIN_ITEMS, PlainCall
from app.formats.responses.schema import FunctionCallItem, Item, ResponsesItems
from pydantic import TypeAdapter, ValidationError

from tests.each_case import each_case

SCHEMA = EntrySchema(TypeAdapter(ResponsesItems), TypeAdapter(Item), "type", PLAIN_ITEMS)
TEXT = {"type": "output_text", "text": "a", "annotations": [{"b": 1}], "logprobs": None}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}


def read(items: list[dict[str, Any]]) -> ParsedMessages:
    return parse_items({"input": items}, settings_are_read=True)


def mark(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with a field that the plain forms do not have, and that says nothing."""
    return [{**item, "unknown": None} for item in items]


@each_case(
    "items",
    [
        [{"type": "message", "role": role, "content": "a"} for role in ("user", "system", "developer", "assistant")],
        [{"type": "message", "role": "assistant", "content": [TEXT, TEXT], "phase": "commentary", "id": "m"}],
        [
            {
                "type": "message",
                "role": "assistant",
                "content": "",
                "extra_content": {"google": {}},
                "status": "completed",
            }
        ],
        [{"type": "reasoning", "id": None, "summary": [{"type": "summary_text", "text": "t"}], "content": None}],
        [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}], "encrypted_content": "e"}],
        [{**CALL, "namespace": "n", "id": "i", "status": "completed"}, {**OUTPUT, "output": [TEXT], "name": "f"}],
        [{**CALL, "arguments": ""}, {**OUTPUT, "output": "", "caller": {"a": 1}, "namespace": None}],
    ],
)
def test_an_item_in_its_plain_form_is_read_as_by_the_whole_schema(items: list[dict[str, Any]]) -> None:
    plain, whole = (validate_rest(given, 0, SCHEMA) for given in (items, mark(items)))
    assert [type(one) for one in plain] == [PLAIN_ITEMS[item["type"]] for item in items]
    assert not {type(one) for one in whole} & set(PLAIN_ITEMS.values())
    assert read(items) == read(mark(items))
    assert not read(items).violations


def test_a_conversation_of_an_agent_is_plain() -> None:
    items = json.loads(WRITERS["/v1/responses"](make_conversation(3, 0), "m"))["input"]
    assert {type(one) for one in validate_rest(items, 0, SCHEMA)} == set(PLAIN_ITEMS.values())
    assert read(items) == read(mark(items))


@each_case(
    ("item", "path"),
    [
        ({**CALL, "name": " "}, "input[1].name"),
        ({**CALL, "call_id": ""}, "input[1].call_id"),
        ({**CALL, "arguments": {}}, "input[1].arguments"),
        ({**OUTPUT, "output": 5}, "input[1].output"),
        ({"type": "message", "role": "tool", "content": "a"}, "input[1].role"),
        ({"type": "message", "role": "user", "content": "a", "tool_calls": [1]}, "input[1]"),
        ({"type": "message", "role": "user", "content": [{"type": "text"}]}, "input[1].content[0].text"),
        ({"type": "reasoning", "summary": "a"}, "input[1].summary"),
        ({"type": ["message"]}, "input[1].type"),
        ({"type": "message", "role": "\ud800", "content": ""}, "input[1].role"),
        ("a", "input[1]"),
    ],
)
def test_what_is_wrong_with_an_item_is_said_at_its_place(item: Any, path: str) -> None:
    violations = read([CALL, item]).violations
    assert [violation.path for violation in violations] == [path]


def test_entries_after_the_known_ones_are_validated_and_their_places_are_those_in_the_list() -> None:
    image = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://a/b.png"}]}
    read, whole = validate_rest([CALL, CALL, image], 1, SCHEMA)
    assert type(read) is PlainCall
    assert type(whole) not in PLAIN_ITEMS.values()
    with pytest.raises(ValidationError, match=r"2\.<function_call>\.name") as raised:
        validate_rest([CALL, CALL, {**CALL, "name": None}], 1, SCHEMA)
    assert raised.value.error_count() == 1
    with pytest.raises(ValidationError):
        validate_rest([], 0, SCHEMA)
    with pytest.raises(ValidationError):
        validate_entries("text", SCHEMA)


def test_without_plain_forms_the_schema_reads_all() -> None:
    schema = EntrySchema(SCHEMA.whole, SCHEMA.each)
    assert [type(one) for one in validate_rest([CALL, CALL], 0, schema)] == [FunctionCallItem] * 2
    assert [type(one) for one in validate_rest([CALL, CALL], 1, schema)] == [FunctionCallItem]


def test_plain_forms_have_fields_of_the_schema_alone() -> None:
    for kind, plain in PLAIN_ITEMS.items():
        required = {"call_id": "c", "name": "f", "arguments": "{}", "output": "x", "role": "user", "content": "a"}
        given = {name: required[name] for name in plain.__struct_fields__ if name in required and kind != "reasoning"}
        (model,) = validate_rest(mark([{"type": kind, **given}]), 0, SCHEMA)
        assert set(plain.__struct_fields__) <= model.__class__.model_fields.keys()


BLOCK = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
TOOL_USE = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}


def mark_blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return mark(
        [
            {**one, "content": mark(one["content"]) if isinstance(one["content"], list) else one["content"]}
            for one in messages
        ]
    )


@each_case(
    "messages",
    [
        [{"role": role, "content": "a"} for role in ("user", "assistant", "system")],
        [{"role": "user", "content": [BLOCK, {"type": "text", "text": ""}]}, {"role": "system", "content": [BLOCK]}],
        [
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, BLOCK, {**TOOL_USE, "caller": {}}],
            },
            {"role": "user", "content": [{**TOOL_RESULT, "is_error": True, "cache_control": {"type": "ephemeral"}}]},
        ],
        [
            {"role": "assistant", "content": [{**TOOL_USE, "input": "{}", "server_name": None}]},
            {"role": "user", "content": [{**TOOL_RESULT, "content": [BLOCK, BLOCK]}, BLOCK]},
        ],
        [
            {"role": "assistant", "content": [TOOL_USE, {"type": "thinking", "thinking": "t"}]},
            {"role": "user", "content": [{**TOOL_RESULT, "content": None, "is_error": True}]},
        ],
        json.loads(WRITERS["/v1/messages"](make_conversation(3, 0), "m"))["messages"],
    ],
)
def test_a_message_of_anthropic_in_its_plain_form_is_read_as_by_the_whole_schema(
    messages: list[dict[str, Any]],
) -> None:
    schema = EntrySchema(TypeAdapter(AnthropicMessages), TypeAdapter(AnthropicMessage), "role", PLAIN_MESSAGES)
    assert {type(one) for one in validate_rest(messages, 0, schema)} == {PlainMessage}
    assert {type(one) for one in validate_rest(mark_blocks(messages), 0, schema)} == {AnthropicMessage}
    parsed = parse_messages(messages, Options())
    assert parsed == parse_messages(mark_blocks(messages), Options())
    assert not parsed.violations


@each_case(
    ("message", "path"),
    [
        ({"role": "tool", "content": "a"}, "messages[1].role"),
        ({"role": "user", "content": ""}, "messages[1].content"),
        ({"role": "user", "content": [TOOL_USE]}, "messages[1].content[0]"),
        ({"role": "assistant", "content": [{**TOOL_USE, "id": ""}]}, "messages[1].content[0].id"),
        ({"role": "assistant", "content": [{**TOOL_USE, "name": " "}]}, "messages[1].content[0].name"),
        ({"role": "user", "content": [{**TOOL_RESULT, "content": 5}]}, "messages[1].content[0].content"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, "messages[1].content[0].text"),
    ],
)
def test_what_is_wrong_with_a_message_of_anthropic_is_said_at_its_place(message: dict[str, Any], path: str) -> None:
    violations = parse_messages([{"role": "user", "content": "a"}, message], Options()).violations
    assert [violation.path for violation in violations] == [path]


COMPLETIONS_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MARKED = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}


@each_case(
    "messages",
    [
        [{"role": role, "content": [MARKED, MARKED], "name": "n"} for role in ("system", "developer", "user")],
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [COMPLETIONS_CALL]},
            {"role": "tool", "tool_call_id": "c", "content": [MARKED], "name": "f"},
            {"role": "assistant", "content": "b", "reasoning": "r", "refusal": "no", "tool_calls": None},
            {"role": "assistant", "reasoning_details": [{"a": 1}], "extra_content": {"google": {}}},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}, COMPLETIONS_CALL]},
            {"role": "tool", "tool_call_id": "c"},
        ],
        json.loads(WRITERS["/v1/chat/completions"](make_conversation(3, 0), "m"))["messages"],
    ],
)
def test_a_message_of_openai_in_its_plain_form_is_read_as_by_the_whole_schema(messages: list[dict[str, Any]]) -> None:
    schema = EntrySchema(TypeAdapter(OpenAIMessages), TypeAdapter(OpenAIMessage), "role", openai_plain.PLAIN_MESSAGES)
    plain, whole = validate_rest(messages, 0, schema), validate_rest(mark(messages), 0, schema)
    assert [type(one) for one in plain] == [openai_plain.PLAIN_MESSAGES[one["role"]] for one in messages]
    assert {type(one) for one in whole} == {OpenAIMessage}
    assert OPENAI.parse(messages, Options()) == OPENAI.parse(mark(messages), Options())
    assert not OPENAI.parse(messages, Options()).violations
    for one, other in zip(plain, whole, strict=True):
        for name in OpenAIMessage.model_fields:
            assert name in ("content", "tool_calls") or getattr(one, name) == getattr(other, name)


@each_case(
    ("message", "path"),
    [
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": "a", "tool_calls": [COMPLETIONS_CALL]}, "messages[1].tool_calls"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": " "}}]}, "messages[1].tool_calls[0].function.name"),
        ({"role": "tool", "content": "a"}, "messages[1].tool_call_id"),
        ({"role": "tool", "content": "a", "tool_call_id": ""}, "messages[1].tool_call_id"),
        ({"role": "assistant", "content": 5}, "messages[1].content"),
    ],
)
def test_what_is_wrong_with_a_message_of_openai_is_said_at_its_place(message: dict[str, Any], path: str) -> None:
    violations = OPENAI.parse([{"role": "user", "content": "a"}, message], Options()).violations
    assert [violation.path for violation in violations] == [path]
