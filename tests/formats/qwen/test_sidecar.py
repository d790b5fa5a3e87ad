"""What Qwen-Agent's keys cannot say rides in `extra.parley`, and counts only where it fits."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Text, ToolCall, ToolResult
from app.formats.base import Options
from app.formats.qwen import QWEN

FILE = "data:application/pdf;base64,AAAA"
CONTENT = [{"text": "See"}, {"file": FILE}]


def read(**fields: Any) -> Message:
    decoded = QWEN.parse([{"role": "user", "content": CONTENT, **fields}], Options())
    assert not decoded.violations and not decoded.warnings
    return decoded.messages[0]


def written(*messages: Message) -> list[Any]:
    return QWEN.write(messages, Options()).messages


def test_the_name_of_a_file_comes_back() -> None:
    (item,) = written(Message("user", (Text("See"), Media("file", (FILE,), name="a.pdf"))))
    assert item == {"role": "user", "content": CONTENT, "extra": {"parley": {"media": [{"at": 1, "name": "a.pdf"}]}}}
    message = read(extra=item["extra"])
    assert [part.name for part in message.parts if isinstance(part, Media)] == ["a.pdf"]
    assert message.extra == {}
    assert written(message) == [item]


@pytest.mark.parametrize("at", [0, 2, 9])
def test_a_note_on_no_media_does_not_count(at: int) -> None:
    message = read(extra={"parley": {"media": [{"at": at, "name": "a.pdf"}]}})
    assert [part.name for part in message.parts if isinstance(part, Media)] == [None]


@pytest.mark.parametrize("side_car", [None, 3, [], {"media": [{"at": -1}]}, {"media": 1}, {"odd": 1}, {"call": []}])
def test_what_is_no_bag_of_ours_stays_where_it_is(side_car: Any) -> None:
    message = read(extra={"parley": side_car})
    assert message.extra == {"parley": side_car}
    assert written(message)[0]["extra"] == {"parley": side_car}


def test_keys_of_a_call_come_back() -> None:
    call = ToolCall("f", "{}", "c", {"extra_content": {"s": 1}, "cache_control": {"type": "ephemeral"}})
    (item,) = written(Message("assistant", (call,)))
    assert item["extra"] == {
        "extra_content": {"s": 1},
        "function_id": "c",
        "parley": {"call": {"cache_control": {"type": "ephemeral"}}},
    }
    decoded = QWEN.parse([{"role": "user", "content": "q"}, item], Options()).messages
    assert decoded[1].parts == (call,)
    assert decoded[1].extra == {}


def test_a_result_without_a_name_has_that_of_its_call() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "f", "arguments": "{}"},
            "extra": {"function_id": "c"},
        },
        {"role": "function", "content": "ok", "extra": {"function_id": "c", "is_error": False, "k": 1}},
    ]
    messages = QWEN.parse(items, Options()).messages
    assert messages[2].extra == {"k": 1}
    assert written(*messages)[2] == {**items[2], "name": "f"}


def test_a_translation_that_breaks_rules_of_order_warns() -> None:
    messages = [
        Message("system", (Text("a"),), path="messages[0]"),
        Message("assistant", (Text("b"),), path="messages[1]"),
        Message("system", (Text("c"),), path="messages[2]"),
    ]
    assert [one.path for one in QWEN.write(messages, Options()).losses] == ["messages[2]", "messages[1]"]


def test_sound_with_a_format_is_an_object_and_a_result_without_a_name_is_a_loss() -> None:
    sound = Media("audio", ("https://e.com/a.bin",), format="wav")
    found = QWEN.write(
        [Message("user", (sound,)), Message("tool", (ToolResult((Text("x"),), None, "c9"),), path="messages[1]")],
        Options(),
    )
    assert found.messages[0]["content"] == [{"audio": {"data": "https://e.com/a.bin", "format": "wav"}}]
    assert [(loss.path, loss.message) for loss in found.losses] == [
        ("messages[1]", "Qwen-Agent requires a function name on a result")
    ]
