"""What a single item of AutoGen says."""

import pytest
from app.chat.messages import Media, Text, ToolCall

from tests.formats.autogen.recorded_cases import calls, read, results
from tests.formats.autogen.shown_messages import shown

CONTEXT = [
    {"type": "AssistantMessage", "source": "b", "content": calls("b", "1")["content"], "thought": "why"},
    {"type": "FunctionExecutionResultMessage", "content": results("b", "1")["content"]},
    {"type": "AssistantMessage", "source": "b", "content": "so", "thought": "hm"},
]


HANDOFF = {"type": "HandoffMessage", "source": "b", "content": "yours", "target": "a", "context": CONTEXT}


def test_another_agents_handoff_brings_its_context() -> None:
    assert shown(read([HANDOFF], "a")) == [
        "assistant:text:why",
        "assistant:tool_call:1",
        "tool:tool_result:1",
        "assistant:reasoning:hm",
        "assistant:text:so",
        "user:text:yours",
    ]


def test_an_own_handoff_says_nothing_that_its_result_does_not_say() -> None:
    assert shown(read([HANDOFF], "b")) == ["assistant:text:yours"]
    found = shown(read([calls("b", "9"), results("b", "9"), HANDOFF], "b"))
    assert found == ["assistant:tool_call:9", "tool:tool_result:9"]


def image(data: str) -> Media:
    items = [{"type": "MultiModalMessage", "source": "user", "content": ["see", {"data": data}]}]
    caption, media = read(items)[0].parts
    assert caption == Text("see") and isinstance(media, Media)
    assert media.path == "messages[0].content[1]"
    return media


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("iVBORw0KGgoAAAANSUhEUg==", "png"),
        ("/9j/4AAQSkZJRgABAQAAAQ==", "jpeg"),
        ("R0lGODlhAQABAAAAACw=", "gif"),
        ("Qk06AAAAAAAAADYAAAA=", "bmp"),
        ("UklGRiQAAABXRUJQVlA4IA==", "webp"),
        ("AAAA", "png"),
        ("AAAAA", "png"),
        ("iVBO\nRw0KGgoAAAANSUhEUg==", "png"),
    ],
)
def test_an_image_is_called_what_its_bytes_show(data: str, kind: str) -> None:
    assert image(data).urls == (f"data:image/{kind};base64,{data}",)


def test_arguments_given_as_an_object_become_their_text() -> None:
    call = {"id": "1", "arguments": {"city": "北京", "n": [1]}, "name": "f"}
    (message,) = read([{"type": "ToolCallRequestEvent", "source": "a", "content": [call]}])
    assert message.parts == (ToolCall("f", '{"city":"北京","n":[1]}', "1"),)


def test_what_an_item_says_of_itself_stands_in_extra() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    item = calls("a", "1", "2") | {
        "id": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "metadata": {"k": "v"},
        "models_usage": usage,
    }
    first, second = read([item])
    for message in (first, second):
        known = {key: message.extra[key] for key in ("message_id", "created_at", "metadata")}
        assert known == {"message_id": "m", "created_at": "2026-01-01T00:00:00Z", "metadata": {"k": "v"}}
    assert ("usage" in first.extra, second.extra["usage"]) == (False, usage)
