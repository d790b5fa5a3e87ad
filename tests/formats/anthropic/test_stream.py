"""What a reply becomes as blocks where the server sent something unusual."""

import itertools
import json
from typing import Any

import msgspec
from app.chat.events import (
    NEXT_MESSAGE,
    CallEnd,
    Event,
    Extra,
    Finish,
    MediaOutput,
    ReasoningDelta,
    ServerCall,
    ServerResult,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
)
from app.chat.hosted_tools import HostedResult
from app.chat.messages import Message, Text, ToolCall
from app.formats.anthropic import ANTHROPIC
from app.formats.base import DEFAULT_OPTIONS, Options, ReplyInfo, ReplyMode
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


def received(body: bytes) -> list[Json]:
    """The blocks of a stream as an SDK has them at its end. A delta outside its block is a fault."""
    found: list[Json] = []
    is_open = False
    for line in body.decode().splitlines():
        frame: Json = json.loads(line[6:]) if line.startswith("data: ") else {"type": ""}
        if frame["type"] == "content_block_start":
            assert not is_open and frame["index"] == len(found)
            found.append(frame["content_block"])
            is_open = True
        elif frame["type"] == "content_block_delta":
            assert is_open and frame["index"] == len(found) - 1
            grow(found[-1], frame["delta"])
        elif frame["type"] == "content_block_stop":
            is_open = False
    return [complete(block) for block in found]


def grow(block: Json, delta: Json) -> None:
    for name, value in delta.items():
        if name != "type":
            block[name] = block.get(name, "") + value


def complete(block: Json) -> Json:
    text = block.pop("partial_json", None)
    return block if text is None else {**block, "input": json.loads(text)}


def history(info: ReplyInfo, mode: ReplyMode, reads: list[list[Event]]) -> list[Message]:
    """The messages that a reply becomes in the next request of its client."""
    encoder = ANTHROPIC.reply_encoder(info, mode)
    body = encoder.open() + b"".join(map(encoder.feed, reads))
    content = json.loads(body)["content"] if mode == "whole" else received(body)
    given = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": content}]
    read = ANTHROPIC.parse(given, DEFAULT_OPTIONS)
    assert (read.violations, read.warnings) == ([], [])
    return list(read.messages[1:])


def write_unit(kind: str, number: int) -> list[Event]:
    """A part of a reply: reasoning, a text, a text that does not go on with the one before, or a call."""
    match kind:
        case "r":
            return [ReasoningDelta("Hm"), ReasoningDelta("!")]
        case "t":
            return [TextDelta(f"So{number}"), TextDelta(".")]
        case "n":
            return [Extra({}, NEXT_MESSAGE), TextDelta(f"So{number}"), TextDelta(".")]
        case _:
            return [ToolCallDelta(number, "", f"c{number}", "f"), ToolCallDelta(number, "{}")]


def list_signed(messages: list[Message]) -> list[str]:
    """The texts and the ids of calls that are signed."""
    found: list[str] = []
    for message in messages:
        if message.extra.get("extra_content") == SIGNED:
            found.append("".join(part.text for part in message.parts if isinstance(part, Text)))
        found += [str(part.id) for part in message.parts if isinstance(part, ToolCall) and part.extra]
    return found


ONE_MESSAGE = ("rr", "tt", "nt")
ALL_SHAPES = ["".join(units) for size in (1, 2, 3) for units in itertools.product("rtnc", repeat=size)]
SHAPES = [units for units in ALL_SHAPES if not any(pair in units for pair in ONE_MESSAGE)]


@each_mode
@each_case("native", [False, True])
def test_what_is_signed_after_it_began_comes_back_signed(mode: ReplyMode, native: bool) -> None:
    info = msgspec.structs.replace(INFO, options=Options(passed=native))
    for units in SHAPES:
        for signed in [number for number, kind in enumerate(units) if kind != "r"]:
            parts = [write_unit(kind, number) for number, kind in enumerate(units)]
            before = [event for part in parts[:signed] for event in part]
            after = [event for part in parts[signed + 1 :] for event in part]
            is_call = units[signed] == "c"
            extra = Extra({"extra_content": SIGNED}, signed if is_call else -1)
            last = len(parts[signed]) + (len(after) if is_call else 0)
            for place in range(len(parts[signed]) - 1, last + 1):
                rest = [*parts[signed], *after]
                events = [*before, *rest[:place], extra, *rest[place:], Finish("stop")]
                found = list_signed(history(info, mode, [[event] for event in events]))
                assert found == [f"c{signed}" if is_call else f"So{signed}."], (units, signed, place)


@each_mode
def test_the_fields_of_reasoning_are_those_of_the_text_after_it(mode: ReplyMode) -> None:
    events: list[Event] = [ReasoningDelta("Hm"), Extra({"extra_content": SIGNED}), TextDelta("So"), Finish("stop")]
    assert list_signed(history(INFO, mode, [[event] for event in events])) == ["So"]


@each_mode
def test_details_before_a_picture_are_kept(mode: ReplyMode) -> None:
    picture = MediaOutput("image", "https://e.com/a.png")
    events: list[Event] = [TextDelta("So"), Extra({"reasoning_details": DETAILS}, NEXT_MESSAGE), picture]
    [first, last] = history(INFO, mode, [[event] for event in [*events, Finish("stop")]])
    assert (first.extra, last.extra) == ({}, {"reasoning_details": DETAILS})


@each_mode
def test_details_at_the_end_of_a_turn_are_kept_behind_those_before_them(mode: ReplyMode) -> None:
    first, last = ({"type": "reasoning.encrypted", "data": data} for data in "ab")
    call: list[Event] = [ServerCall(0, "s", "t"), ToolCallDelta(0, "{}", "c", "s_t"), CallEnd(0)]
    end: list[Event] = [Extra({"reasoning_details": [last]}), TurnEnd("tool_calls")]
    result = ServerResult("c", "s_t", "s", "t", (Text("4"),), index=0)
    events = [Extra({"reasoning_details": [first]}), *call, *end, result, TextDelta("So"), Finish("stop")]
    messages = history(INFO, mode, [[event] for event in events])
    assert [one for message in messages for one in message.extra.get("reasoning_details", [])] == [first, last]


@each_mode
def test_the_fields_of_a_search_that_the_gateway_has_run_come_back(mode: ReplyMode) -> None:
    found = HostedResult("web_search")
    events: list[Event] = [
        ServerCall(0, "web", "web_search", hosted="web_search"),
        ToolCallDelta(0, '{"query": "a"}', "call_1", "web_search"),
        Extra({"extra_content": SIGNED}, 0),
        CallEnd(0),
        TurnEnd("tool_calls"),
        ServerResult("call_1", "web_search", "web", "web_search", (Text("b"),), index=0, hosted=found),
        TextDelta("So"),
        Finish("stop"),
    ]
    assert list_signed(history(INFO, mode, [[event] for event in events])) == ["call_1"]


@each_mode
def test_fields_that_nothing_follows_are_beside_the_reply(mode: ReplyMode) -> None:
    encoder = ANTHROPIC.reply_encoder(INFO, mode)
    events: list[Event] = [TextDelta("So"), Extra({"extra_content": SIGNED}, NEXT_MESSAGE), Finish("stop")]
    assert b'"parley":{"extra_content":{"google":' in encoder.open() + encoder.feed(events)


def test_fields_that_are_equal_and_not_the_same_are_sealed_again() -> None:
    encoder = ANTHROPIC.reply_encoder(INFO, "delta")
    first, second = Extra({"extra_content": {"a": 1}}, 0), Extra({"extra_content": {"a": True}}, 0)
    parts: tuple[list[Event], ...] = ([ToolCallDelta(0, "{}", "c", "f"), first], [second], [Finish("tool_calls")])
    body = encoder.open() + b"".join([encoder.feed(part) for part in parts])
    frames = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]
    started = [frame["content_block"] for frame in frames if frame["type"] == "content_block_start"]
    seals = [read_seal(block["data"]) for block in started if "data" in block]
    assert [msgspec.json.encode(seal.calls) for seal in seals if seal is not None] == [
        b'{"c":{"a":1}}',
        b'{"c":{"a":true}}',
    ]
