"""The schema of items of the Responses API: what it accepts, and with which words it refuses the rest."""

from typing import Any

from app.formats.base import Options
from app.formats.responses import RESPONSES

from tests.each_case import each_case

Json = dict[str, Any]


def refusals(item: Any) -> list[tuple[str, str]]:
    return [(one.path, one.message) for one in RESPONSES.parse([item], Options()).violations]


@each_case(
    "item",
    [
        {"role": "user", "content": "t"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "t"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://h/a"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_video", "video_url": "https://h/a"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": None, "status": "completed"},
    ],
)
def test_an_item_of_the_api_is_accepted(item: Json) -> None:
    assert refusals(item) == []


@each_case(
    ("item", "path", "text"),
    [
        ("t", "messages[0]", "must be"),
        (
            {"type": "message", "role": "user", "content": 1},
            "messages[0].content",
            "must be a string or a list of parts",
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "odd"}]},
            "messages[0].content[0]",
            "must be a part with one of the types",
        ),
        (
            {"role": "tool", "content": "r", "tool_call_id": "c"},
            "messages[0].role",
            "here the result of a call is the item",
        ),
        (
            {"role": "assistant", "content": "t", "tool_calls": [{"id": "c"}]},
            "messages[0]",
            "here each call is an item",
        ),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "messages[0].name", "required"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(item: Any, path: str, text: str) -> None:
    [(place, message)] = refusals(item)
    assert place == path
    assert text in message
