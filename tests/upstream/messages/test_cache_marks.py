"""How many cache marks a request of the Messages API has."""

from typing import Any

from app.upstream.messages.cache_marks import MAX_MARKS, count_marks, count_marks_of_messages, limit_marks

from tests.each_case import each_case

Json = dict[str, Any]


def text(*, marked: bool = True) -> Json:
    return {"type": "text", "text": "a"} | ({"cache_control": {"type": "ephemeral"}} if marked else {})


def user(*blocks: Any) -> Json:
    return {"role": "user", "content": list(blocks)}


@each_case(
    ("body", "messages", "count"),
    [
        ({}, [], 0),
        ({"cache_control": {"type": "ephemeral"}}, [], 1),
        ({"tools": [text(), text(marked=False)], "system": [text()]}, [user(text())], 3),
        ({"system": "s", "tools": None}, [{"role": "user", "content": "Hi"}, "odd", user("odd", None)], 0),
        ({}, [user({"type": "tool_result", "content": [text(), "odd"], **text()})], 1),
        ({}, [user({**text(), "type": "tool_result", "content": [text(), "odd"]})], 2),
        ({}, [user({"type": "text", "text": "a", "cache_control": None})], 0),
    ],
)
def test_marks_are_counted_wherever_they_are(body: Json, messages: list[Any], count: int) -> None:
    assert count_marks(body, messages) == count
    assert count_marks_of_messages(messages) + count_marks(body) == count


def test_the_last_marks_stay() -> None:
    body: Json = {"tools": [text()], "system": [text()]}
    messages = [user(text(), text()), user(text())]
    marked, warnings = limit_marks(body, messages)
    assert len(marked) == MAX_MARKS == count_marks(body, messages)
    assert body["tools"] == [text(marked=False)]
    assert warnings == ["cache_control was sent with the last 4 of 5 places: the server takes no more"]
    assert limit_marks(body, messages) == (marked, [])
