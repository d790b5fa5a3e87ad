"""A conversation as Anthropic's messages, and what of it is lost."""

from typing import Any

from app.chat.messages import ERROR_TEXT, CacheMark, Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.anthropic.write import write_messages
from app.formats.base import Options
from app.formats.seal import Seal, read_seal

from tests.each_case import each_case

Json = dict[str, Any]
NO_FIELD = "cannot be written in Anthropic's format"


def message(role: Role, *parts: Part, **fields: Any) -> Message:
    return Message(role, parts, path="messages[0]", **fields)


def written(*messages: Message) -> list[Json]:
    return write_messages(messages, Options()).messages


def blocks(*parts: Part, role: Role = "user", **fields: Any) -> Any:
    [one] = written(message(role, *parts, **fields))
    assert one["role"] == role
    return one["content"]


def losses(*messages: Message) -> list[tuple[str, str]]:
    return [(loss.path, loss.message) for loss in write_messages(messages, Options()).losses]


def test_one_text_is_a_string_and_several_are_blocks() -> None:
    assert blocks(Text("a")) == "a"
    assert blocks(Text("a"), Text(""), Text("b")) == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@each_case(
    ("media", "block"),
    [
        (
            Media("image", ("data:image/gif;base64,R0lG",)),
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        ),
        (
            Media("image", ("data:;base64,R0lG",)),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "R0lG"}},
        ),
        (Media("image", ("https://h/a.png",)), {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}}),
        (
            Media("file", ("data:text/plain,hi",), name="a.txt"),
            {
                "type": "document",
                "title": "a.txt",
                "source": {"type": "base64", "media_type": "text/plain", "data": "aGk="},
            },
        ),
        (
            Media("file", ("data:;base64,aGk=",)),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/octet-stream", "data": "aGk="},
            },
        ),
        (Media("audio", ("https://h/a.wav",)), {"type": "text", "text": "[audio]"}),
        (Media("video", ("https://h/v",)), {"type": "text", "text": "[video]"}),
    ],
)
def test_a_medium_is_a_block_with_its_source_or_a_word(media: Media, block: Json) -> None:
    assert blocks(media, Text("a"))[0] == block


def test_each_frame_of_a_video_is_an_image_and_the_last_has_the_cache_mark() -> None:
    mark = CacheMark({"type": "ephemeral"}, "p")
    found = blocks(Media("video", ("https://h/1", "https://h/2"), frames=True, mark=mark))
    assert [block["source"]["url"] for block in found] == ["https://h/1", "https://h/2"]
    assert [block.get("cache_control") for block in found] == [None, {"type": "ephemeral"}]


def test_a_text_with_a_cache_mark_is_a_block_and_an_empty_one_is_left_out() -> None:
    mark = CacheMark({"type": "ephemeral"}, "p")
    assert blocks(Text("a", mark)) == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    assert written(message("user", Text("", mark))) == []


def test_calls_and_their_results_have_the_same_ids() -> None:
    call, result = written(
        message("assistant", Text("t"), ToolCall("f", '{"a": 1}', "c1"), ToolCall("g", "x")),
        message("tool", ToolResult((Text("r"),), "f", "c1")),
        message("tool", ToolResult((Text("s"), Text("t")), "g")),
    )
    assert call["content"][:2] == [
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ]
    assert call["content"][2]["input"] == {"_raw": "x"}
    assert result["role"] == "user"
    assert result["content"][0] == {"type": "tool_result", "tool_use_id": "c1", "content": "r"}
    assert result["content"][1]["tool_use_id"] == call["content"][2]["id"]
    assert [block["text"] for block in result["content"][1]["content"]] == ["s", "t"]


@each_case(
    ("content", "is_error", "block"),
    [
        ((), None, {"content": ""}),
        ((), True, {"content": ERROR_TEXT, "is_error": True}),
        ((Text("no"),), True, {"content": "no", "is_error": True}),
        ((Text("r"),), False, {"content": "r"}),
    ],
)
def test_an_error_needs_a_text(content: tuple[Text, ...], is_error: bool | None, block: Json) -> None:
    result = written(
        message("assistant", ToolCall("f", "{}", "c1")), message("tool", ToolResult(content, "f", "c1", is_error))
    )[1]
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "c1", **block}]


DETAILS = [{"type": "reasoning.text", "text": "r"}]


def test_reasoning_is_a_thinking_block_whose_signature_is_a_seal() -> None:
    thinking, call = blocks(
        Reasoning("r"),
        ToolCall("f", "{}", "c1", {"extra_content": {"google": 1}}),
        role="assistant",
        extra={"reasoning_details": DETAILS},
    )
    assert (thinking["type"], thinking["thinking"], call["type"]) == ("thinking", "r", "tool_use")
    assert read_seal(thinking["signature"]) == Seal(details=DETAILS, calls={"c1": {"google": 1}})


def test_the_seal_of_a_call_is_in_the_reasoning_before_it_and_details_in_the_first() -> None:
    found = blocks(
        Reasoning("r"),
        ToolCall("f", "{}", "c1", {"extra_content": 1}),
        Reasoning("s"),
        ToolCall("g", "{}", "c2", {"extra_content": 2}),
        ToolCall("h", "{}", "c3", {"extra_content": 3}),
        role="assistant",
        extra={"reasoning_details": DETAILS},
    )
    seals = [read_seal(block["signature"]) for block in found if block["type"] == "thinking"]
    assert seals == [Seal(details=DETAILS, calls={"c1": 1}), Seal(calls={"c2": 2, "c3": 3})]


def test_without_reasoning_the_seal_is_a_block_of_its_own() -> None:
    redacted, text = blocks(Text("t"), role="assistant", extra={"reasoning_details": DETAILS})
    assert (redacted["type"], text) == ("redacted_thinking", {"type": "text", "text": "t"})
    assert read_seal(redacted["data"]) == Seal(details=DETAILS)
    redacted, call = blocks(ToolCall("f", "{}", "c1", {"extra_content": 1}), role="assistant")
    assert (redacted["type"], call["type"]) == ("redacted_thinking", "tool_use")
    assert read_seal(redacted["data"]) == Seal(calls={"c1": 1})


def test_empty_reasoning_is_left_out() -> None:
    assert blocks(Reasoning(""), Text("t"), role="assistant") == "t"


CALL = ToolCall("f", '{"a": 1}', "c1", path="messages[0].content[0]")
RESULT = message("tool", ToolResult((Text("r"),), "f", "c1"))


@each_case(
    ("messages", "lost"),
    [
        ((message("user", Text("a")),), []),
        ((message("user", Text("a"), name="Ada"),), [("messages[0]", f"the name 'Ada' {NO_FIELD}")]),
        ((message("user", Text("")),), [("messages[0]", "has no content, and is left out")]),
        ((message("assistant", Reasoning("")),), [("messages[0]", "has no content, and is left out")]),
        ((message("assistant", extra={"reasoning_details": DETAILS}),), []),
        ((message("user", Text("a"), extra={"mine": 1}),), [("messages[0]", f"mine {NO_FIELD}")]),
        ((message("user", Text("a"), extra={"arguments_valid": False}),), []),
        ((message("assistant", CALL), RESULT), []),
        (
            (message("assistant", ToolCall("f", "x", "c1", path="p")), RESULT),
            [("p", "the arguments are not a JSON object, and are written as {'_raw': …}")],
        ),
        (
            (message("assistant", ToolCall("f", '{"a":1}', "c1")), RESULT),
            [("messages[0]", "the arguments are written as an object: their white space and spelling may change")],
        ),
        (
            (message("assistant", ToolCall("f", "{}", "c1", {"extra_content": 1, "mine": 2}, "p")), RESULT),
            [("p", f"mine {NO_FIELD}")],
        ),
        (
            (message("assistant", CALL), message("tool", ToolResult((), "f", "c1", is_error=True))),
            [("messages[0]", f"the result is written with the text {ERROR_TEXT!r}")],
        ),
        (
            (message("user", Media("video", ("https://h/1",), frames=True, path="p")),),
            [("p", "the frames of a video are written as images")],
        ),
        (
            (message("user", Media("audio", ("https://h/a",))),),
            [("messages[0]", "is written as the text '[audio]': this format has no audio")],
        ),
        (
            (message("user", Media("image", ("https://h/a",), detail="low", name="a.png", path="p")),),
            [("p", f"detail {NO_FIELD}"), ("p", f"the name of the file {NO_FIELD}")],
        ),
        ((message("user", Media("file", ("https://h/a",), name="a.txt")),), []),
        (
            (
                message("assistant", CALL),
                message("tool", ToolResult((Media("video", ("https://h/v",), path="p"),), "f", "c1")),
            ),
            [("p", "is written as the text '[video]': this format has no video")],
        ),
    ],
)
def test_what_the_format_cannot_keep_is_a_loss_at_its_place(
    messages: tuple[Message, ...], lost: list[tuple[str, str]]
) -> None:
    assert losses(*messages) == lost


def test_neighbouring_turns_of_the_assistant_are_read_as_one_unless_results_are_between() -> None:
    def turn(number: int, *parts: Part) -> Message:
        return Message("assistant", parts, turn=str(number), path=f"messages[{number}]")

    merged = "becomes one turn with the assistant message before it"
    assert losses(turn(0, Text("a")), turn(1, Text("b"))) == [("messages[1]", merged)]
    assert losses(turn(0, Text("a")), message("user", Text("?")), turn(2, Text("b"))) == []
    assert losses(turn(0, CALL), RESULT, turn(2, Text("b"))) == []


def test_a_result_in_a_message_of_the_assistant_is_no_block() -> None:
    """Results are messages of the role `tool`: no parser puts them elsewhere."""
    assert blocks(ToolResult((Text("x"),)), Text("So"), role="assistant") == "So"


def test_a_call_without_arguments_has_an_empty_input() -> None:
    messages = (message("assistant", ToolCall("f", "", "c1")), RESULT)
    assert written(*messages)[0]["content"] == [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]
    assert [text for _, text in losses(*messages)] == [
        "the arguments are written as an object: their white space and spelling may change"
    ]
