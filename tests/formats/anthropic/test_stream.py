"""What a reply becomes as blocks where the server sent something unusual."""

import json
from typing import Any

from app.chat.events import Event, Extra, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats.anthropic import ANTHROPIC
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.seal import read_seal

from tests.each_case import each_case

Json = dict[str, Any]
DETAILS = [{"type": "reasoning.encrypted", "data": "AbC"}]
INFO = ReplyInfo("chat-1", "req-1", "m", 1)
each_mode = each_case("mode", ["delta", "whole"])


def blocks(mode: ReplyMode, *events: Event) -> list[Json]:
    """The blocks of a reply; in a stream, as they start."""
    encoder = ANTHROPIC.reply_encoder(INFO, mode)
    body = encoder.open() + encoder.feed(list(events))
    if mode == "whole":
        return list(json.loads(body)["content"])
    frames = (json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: "))
    return [frame["content_block"] for frame in frames if frame["type"] == "content_block_start"]


@each_mode
def test_details_of_a_reply_without_words_are_in_a_block_of_their_own(mode: ReplyMode) -> None:
    [block] = blocks(mode, Extra({"reasoning_details": DETAILS}), Finish("stop"))
    seal = read_seal(block["data"])
    assert block["type"] == "redacted_thinking"
    assert seal is not None and seal.details == DETAILS


@each_mode
def test_a_picture_is_no_block(mode: ReplyMode) -> None:
    found = blocks(mode, TextDelta("So"), MediaOutput("image", "https://e.com/a.png"), Finish("stop"))
    assert [block["type"] for block in found] == ["text"]


@each_mode
def test_blank_arguments_behind_a_call_that_has_ended_are_no_text(mode: ReplyMode) -> None:
    stage, encoder = ANTHROPIC.make_stage(INFO, mode), ANTHROPIC.reply_encoder(INFO, mode)
    assert stage is not None
    given: list[Event] = [ToolCallDelta(0, "{}", "c", "f"), TextDelta("So"), ToolCallDelta(0, "  "), TextDelta("!")]
    body = b"".join([encoder.feed(stage.feed([event])) for event in given])
    written = body.decode()
    body += encoder.feed(stage.feed([Finish("tool_calls")]))
    if mode == "delta":
        assert "  " not in written and '"!"' in written
    else:
        assert json.loads(body)["content"][1] == {"type": "text", "text": "So!"}


@each_case(
    ("arguments", "value"),
    [
        ('{"a": 1.50}', {"a": 1.5}),
        ('{"a": 1, "b": "lon', {"a": 1}),
        ("", {}),
        ("no JSON", {}),
        ('{"a": "\ud800"}', {}),
    ],
)
def test_arguments_of_a_whole_reply_are_an_object_as_far_as_they_can_be_read(arguments: str, value: Json) -> None:
    [block] = blocks("whole", ToolCallDelta(0, arguments, "c", "f"), Finish("length"))
    assert block["input"] == value


SIGNED = {"google": {"thought_signature": "c2ln"}}
SIGNED_CALL: list[Event] = [ToolCallDelta(0, "{}", "c", "f"), Extra({"extra_content": SIGNED}, 0)]


@each_mode
def test_the_fields_of_a_call_are_sealed_in_the_thought_before_it(mode: ReplyMode) -> None:
    encoder = ANTHROPIC.reply_encoder(INFO, mode)
    body = encoder.open() + encoder.feed([ReasoningDelta("Hm."), *SIGNED_CALL, Finish("tool_calls")])
    seal = read_seal(body.decode().rpartition('"signature":"')[2].partition('"')[0])
    assert seal is not None and seal.calls == {"c": SIGNED}
    assert b"redacted_thinking" not in body


@each_mode
def test_the_fields_of_a_call_without_a_thought_have_a_block_of_their_own(mode: ReplyMode) -> None:
    sealed, call = blocks(mode, *SIGNED_CALL, Finish("tool_calls"))
    seal = read_seal(sealed["data"])
    assert seal is not None and seal.calls == {"c": SIGNED}
    assert (call["type"], call["id"]) == ("tool_use", "c")


def test_thinking_tokens_and_the_cost_are_in_the_usage() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "completion_tokens_details": {"reasoning_tokens": 3},
        "prompt_tokens_details": {"cached_tokens": 4},
        "cost": 0.5,
    }
    body = ANTHROPIC.reply_encoder(INFO, "whole").feed([TextDelta("So"), Finish("stop", usage)])
    assert json.loads(body)["usage"] == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
        "cost": 0.5,
    }
