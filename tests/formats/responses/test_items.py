"""Items of the Responses API: what they become, how they are written, and what is refused at which place."""

from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.base import Options, ParsedMessages, ResponsesOptions
from app.formats.responses import RESPONSES
from app.formats.responses.paths import rename_paths
from app.formats.responses.schema import LOCAL, STORED_FILE

from tests.each_case import each_case

Json = dict[str, Any]


def parse(*items: Json) -> ParsedMessages:
    return RESPONSES.parse(list(items), Options())


def of_user(*parts: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(parts)}


@each_case(
    ("part", "url"),
    [
        ({"file_data": "JVBERi0=", "filename": "a.pdf"}, "data:application/pdf;base64,JVBERi0="),
        ({"file_data": "JVBERi0="}, "data:application/octet-stream;base64,JVBERi0="),
        ({"file_data": "data:text/plain;base64,aGk="}, "data:text/plain;base64,aGk="),
        ({"file_url": "https://e.com/a.pdf"}, "https://e.com/a.pdf"),
    ],
)
def test_a_file_is_bare_base64_a_data_uri_or_a_url(part: Json, url: str) -> None:
    [message] = parse(of_user({"type": "input_file", **part})).messages
    [file] = message.parts
    assert isinstance(file, Media)
    assert (file.media, file.urls, file.path.rpartition(".")[2]) == ("file", (url,), next(iter(part)))


@each_case(
    ("part", "message"),
    [
        ({"type": "input_image"}, "must have its content in image_url"),
        ({"type": "input_file", "filename": "a.pdf"}, "must have its content in file_data or file_url"),
    ],
)
def test_a_part_without_content_is_refused_at_its_place(part: Json, message: str) -> None:
    [violation] = parse(of_user(part)).violations
    assert (violation.path, violation.message) == ("messages[0].content[0]", message)


def test_paths_are_those_of_the_callers_request() -> None:
    stored = ResponsesOptions(first_item=3, tool_paths=("tools[1]",))
    assert rename_paths("messages[1].content", stored) == "previous_response_id.content"
    assert rename_paths("messages[0]", ResponsesOptions(first_item=1)) == "instructions"
    assert rename_paths("messages[3].content", stored) == "input[0].content"
    assert rename_paths("messages", stored) == "input"
    assert rename_paths("tools[0].function.name", stored) == "tools[1].name"
    assert rename_paths("tools[1].function.name", stored) == "tools[1].function.name"
    assert rename_paths("generate_cfg.max_tokens", stored) == "max_output_tokens"


def write(*messages: Message) -> list[Json]:
    return RESPONSES.write(messages, Options()).messages


def test_an_assistant_message_is_its_reasoning_texts_and_calls_in_order() -> None:
    parts = (Reasoning("Hm."), Text("So:"), ToolCall("f", "{}", "c1"), Text("Done."))
    items = write(Message("assistant", parts))
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "message"]
    assert items[2] == {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def test_opaque_fields_of_a_message_are_on_its_last_text() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "x"}}}
    parts = (Text("a"), ToolCall("f", "{}", "c1"), Text("b"))
    items = write(Message("assistant", parts, extra=extra))
    assert [item.get("extra_content") for item in items] == [None, None, extra["extra_content"]]


def test_an_assistant_message_that_is_empty_or_shows_an_image_is_a_message() -> None:
    [empty] = write(Message("assistant", ()))
    [image] = write(Message("assistant", (Media("image", ("https://e.com/a.png",)),)))
    assert (empty["role"], empty["content"]) == ("assistant", [])
    assert image["content"] == [{"type": "input_image", "image_url": "https://e.com/a.png", "detail": "auto"}]


def test_a_result_in_a_message_of_the_assistant_is_no_item() -> None:
    """Results are messages of the role `tool`; the parsers put them nowhere else."""
    items = write(Message("assistant", (Text("a"), ToolResult((Text("b"),), "f", "c1"), Text("c"))))
    assert [item["content"][0]["text"] for item in items] == ["a", "c"]


def test_a_result_without_content_is_an_empty_string() -> None:
    [item] = write(Message("tool", (ToolResult((), "f", "c1"),)))
    assert item == {"type": "function_call_output", "call_id": "c1", "output": ""}


@each_case(
    ("part", "key", "message"),
    [
        ({"type": "input_image", "image_url": "file:///etc/passwd"}, "image_url", LOCAL),
        ({"type": "input_image", "file_id": "file-1"}, "file_id", STORED_FILE),
        (
            {"type": "input_file", "file_data": "no base64!"},
            "file_data",
            "must be base64, an http(s) URL or a data URI",
        ),
    ],
)
def test_what_the_gateway_cannot_read_is_refused_at_its_place(part: Json, key: str, message: str) -> None:
    violations = parse(of_user(part)).violations
    assert (f"messages[0].content[0].{key}", message) in [(one.path, one.message) for one in violations]


def test_a_reference_to_an_item_that_is_not_stored_says_what_to_do() -> None:
    [violation] = parse({"type": "item_reference", "id": "rs_1"}).violations
    assert violation.path == "messages[0].id"
    assert "rs_1" in violation.message and "send the item itself" in violation.message


def test_a_file_id_may_be_null() -> None:
    image = {"type": "input_image", "image_url": "https://e.com/a.png", "file_id": None}
    [message] = parse(of_user(image)).messages
    assert [part.urls for part in message.parts if isinstance(part, Media)] == [("https://e.com/a.png",)]
