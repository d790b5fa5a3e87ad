"""A conversation as contents, which are read as the same."""

from typing import Any

from app.chat.messages import CacheMark, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.base import Options
from app.formats.gemini.parse import parse_messages
from app.formats.gemini.write import write_messages

from tests.each_case import each_case

OWN = {"google": {"thought_signature": "czE="}}
ASK = Message("user", (Text("Hi"),), path="messages[0]")


def write(*messages: Message) -> tuple[list[Any], list[str]]:
    found = write_messages((ASK, *messages), Options())
    return found.messages[1:], [loss.message for loss in found.losses]


def again(*messages: Message) -> list[Message]:
    found = parse_messages(write_messages((ASK, *messages), Options()).messages, Options())
    assert not found.violations
    return list(found.messages[1:])


def say(*parts: Any, **extra: Any) -> Message:
    return Message("assistant", parts, path="messages[1]", extra=extra)


def answer(id_: str, text: str = "x", **more: Any) -> Message:
    return Message("tool", (ToolResult((Text(text),), "f", id_, **more),), path="messages[2]")


def test_signatures_come_back_on_their_parts() -> None:
    calls = (ToolCall("f", "{}", "a", {"extra_content": OWN}), ToolCall("g", "{}", "b"))
    written, losses = write(say(*calls), answer("a"), answer("b"))
    assert [part.get("thoughtSignature") for part in written[0]["parts"]] == ["czE=", None]
    assert not losses


@each_case(
    "message",
    [
        say(Text("x"), extra_content=OWN),
        say(Text("x"), extra_content={"phase": "p"}),
        say(Reasoning("r"), Text("x"), reasoning_details=[{"d": 1}]),
        say(Reasoning("r"), reasoning_details=[{"d": 1}]),
        say(Text("x"), extra_content=OWN, reasoning_details=[{"d": 1}]),
    ],
)
def test_what_a_server_wants_back_is_kept(message: Message) -> None:
    [found] = again(message)
    assert (found.parts, found.extra) == (message.parts, message.extra)


def test_fields_of_calls_are_kept_beside_details() -> None:
    call = ToolCall("f", "{}", "a", {"extra_content": OWN})
    found = again(
        say(call, ToolCall("g", "{}", "b", {"extra_content": {"v": 1}}), reasoning_details=[{"d": 1}]),
        answer("a"),
        answer("b"),
    )
    assert found[0].extra == {"reasoning_details": [{"d": 1}]}
    assert [part.extra for part in found[0].parts if isinstance(part, ToolCall)] == [
        {"extra_content": OWN},
        {"extra_content": {"v": 1}},
    ]


@each_case(
    ("messages", "word"),
    [
        ((say(ToolCall("f", "{", "a")), answer("a")), "_raw"),
        ((say(ToolCall("f", "[1]", "a")), answer("a")), "_raw"),
        ((say(ToolCall("f", '{"a":1}', "a")), answer("a")), "white space"),
        ((say(ToolCall("f", "{}", "a", {"odd": 1})), answer("a")), "odd"),
        ((say(ToolCall("f", "{}", "a", awaits_approval=True)), answer("a")), "approval"),
        ((say(ToolCall("f", "{}", "a")), answer("a", is_error=True)), "is_error"),
        ((say(Text("a"), Text("b")),), "become one"),
        ((say(Text("")),), "left out"),
        ((Message("user", (Text("a"), Text(""))),), "an empty text"),
        ((Message("user", (Text("a"),), name="Al"),), "the name"),
        ((Message("user", (Text("a", CacheMark({}, "p")),)),), "cache_control"),
        ((Message("user", (Media("image", ("https://h/a",), detail="low"),)),), "detail"),
        ((Message("user", (Media("video", ("https://h/a", "https://h/b"), frames=True),)),), "frame"),
        ((Message("system", (Media("image", ("https://h/a",)),)),), "system message"),
        ((say(Text("a")), say(Text("b"))), "one turn"),
    ],
)
def test_what_is_lost_is_told(messages: tuple[Message, ...], word: str) -> None:
    assert any(word in loss for loss in write(*messages)[1]), write(*messages)[1]


@each_case(
    ("media", "part"),
    [
        (Media("image", ("data:image/png;base64,AAAA",)), {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        (Media("image", ("data:,A",)), {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}),
        (Media("audio", ("AAAA",), format="mp3"), {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}}),
        (Media("audio", ("AAAA",)), {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}),
        (Media("image", ("https://h/a.png",)), {"fileData": {"fileUri": "https://h/a.png"}}),
        (
            Media("image", ("https://h/a",), name="n"),
            {"fileData": {"fileUri": "https://h/a", "mimeType": "image/*", "displayName": "n"}},
        ),
    ],
)
def test_media_are_written_by_what_they_are(media: Media, part: Any) -> None:
    written = write_messages((Message("user", (media,)),), Options()).messages
    assert written == [{"role": "user", "parts": [part]}]
    [found] = write(say(media))[0]
    assert found == {"role": "model", "parts": [part]}
