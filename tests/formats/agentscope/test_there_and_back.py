"""What is read from AgentScope's messages comes back equal, and so does what is said in them."""

import json
from typing import Any

import pytest
from app.chat.messages import Message, ToolCall
from app.chat.turns import normalize_piece, split_message
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format, Options
from app.formats.qwen import QWEN
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import examples
from tests.formats.agentscope.cases import Json, decoded, encoded, load, msg, sent
from tests.formats.agentscope.recorded_requests import OPENAI
from tests.formats.agentscope.strategies import CONVERSATIONS, MESSAGES

LISTS = [
    pytest.param(form, golden["input"], id=f"{folder}-{name}")
    for folder, form in (("requests_v1", AGENTSCOPE), ("requests_v1_1_0_0", AGENTSCOPE), ("requests_v2", AGENTSCOPE2))
    for name, golden in load(f"agentscope/{folder}").items()
]
each = each_case(("form", "messages"), LISTS)
either = st.sampled_from([AGENTSCOPE, AGENTSCOPE2])
often = examples(25)


def other(form: Format) -> Format:
    return AGENTSCOPE2 if form is AGENTSCOPE else AGENTSCOPE


def cut(messages: Any) -> list[Message]:
    """Pieces without the mark that they were read from AgentScope's messages."""
    found = [normalize_piece(piece) for message in messages for piece in split_message(message)]
    marks = {AGENTSCOPE.name, AGENTSCOPE2.name}
    return [
        replace(
            one,
            parts=tuple(replace(part, path="") if isinstance(part, ToolCall) else part for part in one.parts),
            extra={key: one.extra[key] for key in one.extra if key not in marks},
        )
        for one in found
    ]


@each
def test_a_list_comes_back_as_it_was(form: Format, messages: list[Json]) -> None:
    assert encoded(form, decoded(form, *messages)) == messages


@each
def test_a_list_comes_back_from_the_other_version(form: Format, messages: list[Json]) -> None:
    there = encoded(other(form), decoded(form, *messages))
    assert encoded(form, decoded(other(form), *json.loads(json.dumps(there)))) == messages


@each
def test_a_list_comes_back_from_qwen(form: Format, messages: list[Json]) -> None:
    there = encoded(QWEN, decoded(form, *messages))
    back = QWEN.parse(json.loads(json.dumps(there)), Options())
    if back.violations:
        assert back.violations[0].message.startswith("the first message after the system message")
    else:
        assert encoded(form, back.messages) == messages


@each
def test_a_model_is_sent_the_same_whichever_version_says_it(form: Format, messages: list[Json]) -> None:
    there = encoded(other(form), decoded(form, *messages))
    assert sent(other(form), there, OPENAI) == sent(form, messages, OPENAI)


@given(either, CONVERSATIONS)
@often
def test_a_conversation_comes_back_equal(form: Format, messages: list[Message]) -> None:
    written = json.loads(json.dumps(encoded(form, messages)))
    back = cut(decoded(form, *written))
    if not form.write(messages, Options()).losses or form is AGENTSCOPE:
        assert back == cut(messages)
    else:
        assert sorted(map(repr, back)) == sorted(map(repr, cut(messages)))


@given(either, CONVERSATIONS)
@often
def test_a_translation_back_translates_to_the_same_again(form: Format, messages: list[Message]) -> None:
    written = encoded(form, messages)
    assert encoded(form, decoded(form, *written)) == written


@given(either, CONVERSATIONS)
@often
def test_ids_of_messages_are_unique_and_follow_from_the_conversation(form: Format, messages: list[Message]) -> None:
    written = encoded(form, messages)
    assert len({item["id"] for item in written}) == len(written)
    assert encoded(form, messages) == written


@given(either, MESSAGES)
@examples(45)
def test_random_json_is_refused_or_comes_back_equal(form: Format, messages: list[Any]) -> None:
    found = form.parse(messages, Options())
    if not found.violations:
        assert encoded(form, found.messages) == messages
        for item in encoded(other(form), found.messages):
            assert not other(form).parse([item], Options()).violations


USERS_WORD = {"role": "user", "content": "hi"}
FAILED = {"role": "function", "name": "f", "content": "boom", "extra": {"function_id": "c", "is_error": True}}
CALL = {
    "role": "assistant",
    "content": "",
    "function_call": {"name": "f", "arguments": '{"a'},
    "extra": {"function_id": "c"},
}


@pytest.mark.parametrize("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])
def test_what_agentscope_cannot_say_comes_back_to_qwen(form: Format) -> None:
    file = {"role": "user", "content": [{"file": "https://h/a.pdf"}, {"text": "t"}], "extra": {"k": 1}}
    history = [USERS_WORD, CALL, FAILED, file]
    messages = QWEN.parse(history, Options()).messages
    assert encoded(QWEN, decoded(form, *encoded(form, messages))) == encoded(QWEN, messages)


def test_an_edited_message_is_read_as_it_stands() -> None:
    named, renamed = decoded(AGENTSCOPE, msg("hi", "user", id="1", timestamp="then")), "Alice"
    edited = [replace(one, name=renamed) for one in named]
    assert encoded(AGENTSCOPE, edited)[0] | {"metadata": {}} == msg(
        "hi", "user", id="1", timestamp="then", metadata={}, name="Alice"
    )


@pytest.mark.parametrize("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])
def test_notes_do_not_count_for_a_message_that_was_edited(form: Format) -> None:
    (item,) = encoded(
        form, QWEN.parse([{"role": "user", "content": [{"file": "https://h/a.pdf"}]}], Options()).messages
    )
    assert decoded(form, item)[0].name is None
    assert decoded(form, {**item, "name": "Bob"})[0].name == "Bob"
    (block,) = item["content"] if isinstance(item["content"], list) else [{"type": "text", "text": item["content"]}]
    two = {**item, "content": [block, {"type": "text", "text": "more"}]}
    assert decoded(form, two)[0].name == "user"
    changed = {**item, "content": [{"type": "text", "text": "[file: https://h/b.pdf]"}]}
    assert [part.kind for part in decoded(form, changed)[0].parts] == ["text"]


def test_notes_bring_in_no_path_of_this_machine() -> None:
    (item,) = encoded(
        AGENTSCOPE, QWEN.parse([{"role": "user", "content": [{"file": "https://h/a"}]}], Options()).messages
    )
    text = json.dumps(item).replace("https://h/a", "/etc/passwd")
    assert "/etc/passwd" in text
    assert [part.kind for part in decoded(AGENTSCOPE, json.loads(text))[0].parts] == ["text"]


def test_a_file_that_is_only_named_gives_a_warning() -> None:
    messages = QWEN.parse([{"role": "user", "content": [{"file": "https://h/a.pdf"}]}], Options()).messages
    (loss,) = AGENTSCOPE.write(messages, Options()).losses
    assert loss.path == "messages[0].content[0].file"
    assert not AGENTSCOPE2.write(messages, Options()).losses


def test_a_result_moves_to_its_call_in_2x_with_a_warning() -> None:
    done = {"role": "function", "name": "f", "content": "ok", "extra": {"function_id": "c"}}
    found = AGENTSCOPE2.write(QWEN.parse([USERS_WORD, CALL, USERS_WORD, done], Options()).messages, Options())
    assert [item["role"] for item in found.messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in found.messages[1]["content"]] == ["tool_call", "tool_result"]
    assert found.messages[1]["content"][0]["state"] == "finished"
    assert [loss.path for loss in found.losses] == ["messages[3]"]


def test_a_2x_message_holds_all_that_its_assistant_does() -> None:
    written = {"role": "assistant", "content": "done"}
    done = {"role": "function", "name": "f", "content": "ok", "extra": {"function_id": "c"}}
    history = [USERS_WORD, CALL, done, written, USERS_WORD, CALL]
    found = encoded(AGENTSCOPE2, QWEN.parse(history, Options()).messages)
    assert [[block["type"] for block in item["content"]] for item in found] == [
        ["text"],
        ["tool_call", "tool_result", "text"],
        ["text"],
        ["tool_call"],
    ]
    assert found[3]["content"][0]["state"] == "pending"
