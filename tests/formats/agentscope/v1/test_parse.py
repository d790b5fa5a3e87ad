"""Blocks of AgentScope 1.x as parts of messages, and the inputs of its calls."""

from typing import Any

from app.chat.messages import CacheMark, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v1.parse import input_of, parse_messages, read_link, validate_and_read, write_blocks
from app.formats.base import Options
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, encoded, msg, refused, warned

PNG = "data:image/png;base64,iVBORw0KGgo="


@each_case(
    ("raw", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ('{"a":1} \n', {"a": 1}),
        ('{"a":1', {}),
        ('{"a":}', {}),
        ("[{}", {}),
        ("[1] ", {}),
        ("", {}),
        ('{"a":"\ud800"}', {}),
    ],
)
def test_an_input_is_the_object_of_valid_arguments_and_else_empty(raw: str, value: Json) -> None:
    assert input_of(raw) == value


def parts_of(*blocks: Any) -> list[Part]:
    return [part for message in decoded(AGENTSCOPE, msg(list(blocks))) for part in message.parts]


@each_case(
    ("block", "part"),
    [
        ({"type": "text", "text": "t"}, Text("t")),
        ({"type": "thinking", "thinking": "r"}, Reasoning("r")),
        ({"type": "image", "source": {"type": "url", "url": "https://h/a"}}, Media("image", ("https://h/a",))),
        (
            {"type": "audio", "source": {"type": "base64", "media_type": "audio/wav", "data": "UklGRg=="}},
            Media("audio", ("data:audio/wav;base64,UklGRg==",)),
        ),
        ({"type": "video", "url": "https://h/v"}, Media("video", ("https://h/v",))),
        ({"type": "tool_use", "id": "1", "name": "f", "input": {"a": "é"}}, ToolCall("f", '{"a": "é"}', "1")),
        (
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}, "raw_input": '{"a":1}'},
            ToolCall("f", '{"a":1}', "1"),
        ),
        (
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": True}, "raw_input": '{"a":1}'},
            ToolCall("f", '{"a": true}', "1"),
        ),
        ({"type": "tool_use", "id": "", "name": "f", "input": {}}, ToolCall("f", "{}")),
        ({"type": "tool_result", "id": "1", "name": "f", "output": "r"}, ToolResult((Text("r"),), "f", "1")),
        ({"type": "tool_result", "id": "1", "name": "", "output": None}, ToolResult((), None, "1")),
        (
            {"type": "tool_result", "id": "1", "name": "f", "output": [{"type": "text", "text": "r"}]},
            ToolResult((Text("r"),), "f", "1"),
        ),
    ],
)
def test_a_block_is_a_part(block: Json, part: Part) -> None:
    [found] = parts_of(block)
    assert (replace(found, path="") if isinstance(found, Media | ToolCall) else found) == part


def test_media_and_calls_have_their_places() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    paths = [
        part.path
        for part in parts_of({"type": "text", "text": "t"}, image, {**image, "source": None, "url": PNG})
        if isinstance(part, Media)
    ]
    assert paths == ["messages[0].content[1].source.data", "messages[0].content[2].url"]


def test_a_result_is_a_message_of_the_tool_and_what_is_around_it_is_not() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "tool_result", "id": "1", "name": "f", "output": "r"},
        {"type": "text", "text": "b"},
    ]
    found = decoded(AGENTSCOPE, msg(blocks, "system"))
    assert [(one.role, one.name) for one in found] == [("system", "Friday"), ("tool", None), ("system", "Friday")]


def test_the_mark_of_a_result_is_on_the_last_part_of_its_output() -> None:
    mark = {"type": "ephemeral"}
    output = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    [result] = parts_of({"type": "tool_result", "id": "1", "name": "f", "output": output, "cache_control": mark})
    assert isinstance(result, ToolResult)
    assert result.content == (Text("a"), Text("b", CacheMark(mark, "messages[0].content[0].cache_control")))


def test_thinking_of_a_user_is_left_out_with_a_warning_and_a_call_is_refused() -> None:
    thinking, call = {"type": "thinking", "thinking": "r"}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    assert parse_messages([msg([thinking], "user")], Options()).messages[0].parts == ()
    assert warned(AGENTSCOPE, msg([thinking], "user")) == [
        "messages[0].content[0] was not sent: only an assistant message can have thinking"
    ]
    assert refused(AGENTSCOPE, msg([{"type": "text", "text": "t"}, call], "user")) == [
        ("messages[0].content[1]", "only an assistant message can have a tool_use")
    ]
    assert validate_and_read(msg([call], "user")) is None


def test_unknown_keys_of_a_message_are_named_but_for_those_of_0_1() -> None:
    assert warned(AGENTSCOPE, msg("t", mood="good", __module__="m", __name__="n")) == [
        "messages[0].mood is not a field of an AgentScope message and was ignored"
    ]


@each_case(("url", "media"), [("https://h/a.wav", "audio"), ("https://h/a", "image"), ("https://h/a.pdf", "file")])
def test_the_kind_of_a_link_is_that_of_its_extension(url: str, media: str) -> None:
    link = read_link(url, "p")
    assert (link.media, link.urls, link.path) == (media, (url,), "p")


@each_case(
    ("part", "blocks"),
    [
        (Media("file", ("https://h/a.pdf",)), [{"type": "text", "text": "[file: https://h/a.pdf]"}]),
        (
            Media("video", ("https://h/1", "https://h/2"), frames=True),
            [{"type": "image", "source": {"type": "url", "url": f"https://h/{at}"}} for at in (1, 2)],
        ),
        (
            Media("audio", ("UklGRg==",), format="mp3"),
            [{"type": "audio", "source": {"type": "base64", "media_type": "audio/mp3", "data": "UklGRg=="}}],
        ),
        (
            Text("t", CacheMark({"type": "ephemeral"}, "p")),
            [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}],
        ),
        (
            ToolCall("f", "{", "1"),
            [{"type": "tool_use", "id": "1", "name": "f", "input": {}, "raw_input": "{"}],
        ),
        (
            ToolResult((Text("r"),), "f", "1"),
            [{"type": "tool_result", "id": "1", "name": "f", "output": "r"}],
        ),
        (ToolResult((), "f", "1"), [{"type": "tool_result", "id": "1", "name": "f", "output": ""}]),
        (
            ToolResult((Text(""),), "f", "1"),
            [{"type": "tool_result", "id": "1", "name": "f", "output": [{"type": "text", "text": ""}]}],
        ),
    ],
)
def test_a_part_is_written_as_blocks(part: Part, blocks: list[Json]) -> None:
    assert write_blocks(Message("assistant", (part,))) == blocks


def test_links_of_01_come_after_the_text() -> None:
    thought: Json = msg([{"type": "thinking", "thinking": "r"}], url="https://h/a.png")
    found = decoded(AGENTSCOPE, thought)
    image = Media("image", ("https://h/a.png",), path="messages[0].url")
    assert [one.parts for one in found] == [(Reasoning("r"),), (image,)]
    assert encoded(AGENTSCOPE, found) == [thought]
    assert encoded(AGENTSCOPE, [replace(one, extra={}) for one in found])[0]["content"][1]["type"] == "image"
