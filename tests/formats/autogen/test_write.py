"""A conversation of any format as AutoGen's items."""

import json
from typing import Any

import pytest
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.formats.autogen import AUTOGEN
from app.formats.autogen.schema import all_items
from app.formats.autogen.sidecar import normalize_message
from app.formats.base import Options
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import calls, read, results, text, thought, written

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP8z8DAwMAAAAYIAQHLR3Z1AAAAAElFTkSuQmCC"


def make_message(role: Any, *parts: Part, name: str | None = None, **fields: Any) -> Message:
    return Message(role, parts, name, **fields)


def answer(*parts: Part, **fields: Any) -> Message:
    return make_message("assistant", *parts, name="a", **fields)


def result(id_: str | None, *content: Text | Media, name: str = "f") -> Message:
    return Message("tool", (ToolResult(content, name, id_),), name)


def kinds(items: list[Any]) -> list[str]:
    return [one["type"] for one in items]


TURN = (
    make_message("system", Text("be kind")),
    make_message("user", Text("q"), name="user"),
    answer(Reasoning("hm")),
    answer(Text("now")),
    answer(ToolCall("f", "{}", "1")),
    answer(ToolCall("f", "{}", "2")),
    result("1", Text("r1")),
    result("2", Text("r2")),
    answer(Text("done")),
)


def test_a_turn_is_written_as_autogens_agents_write_it() -> None:
    items = written(TURN)
    assert kinds(items) == [
        *("SystemMessage", "TextMessage", "ThoughtEvent", "ThoughtEvent"),
        *("ToolCallRequestEvent", "ToolCallExecutionEvent", "TextMessage"),
    ]
    assert items[0] == {"content": "be kind", "type": "SystemMessage"}
    assert [one["metadata"] for one in items[1:]] == [{}, {"kind": "reasoning"}, {"kind": "content"}, {}, {}, {}]
    assert [one["id"] for one in items[4]["content"]] == ["1", "2"]
    assert [one["call_id"] for one in items[5]["content"]] == ["1", "2"]
    assert items[5]["source"] == "a"
    all_items.validate_python(items)
    assert [normalize_message(one) for one in read(items)] == [normalize_message(one) for one in TURN]


def test_equal_histories_are_written_equally_with_ids_of_their_own() -> None:
    once, again = written((*TURN, TURN[-1])), written((*TURN, TURN[-1]))
    assert once == again
    ids = [one["id"] for one in once if "id" in one]
    assert len(set(ids)) == len(ids)


def test_a_message_without_a_name_gets_user_or_agent_and_comes_back_without() -> None:
    messages = (make_message("user", Text("q")), make_message("assistant", Text("x")))
    items = AUTOGEN.write(messages, Options(agent_name="Friday")).messages
    assert [one["source"] for one in items] == ["user", "Friday"]
    assert [one.name for one in read(items)] == [None, None]


def test_calls_of_two_turns_are_two_events() -> None:
    messages = (answer(ToolCall("f", "{}", "1"), turn="t1"), answer(ToolCall("f", "{}", "2"), turn="t2"))
    items = written(messages)
    assert kinds(items) == ["ToolCallRequestEvent"] * 2
    assert [one.turn for one in read(items)] == ["t1", "t2"]


def test_messages_of_several_payloads_are_split() -> None:
    message = answer(Reasoning("hm"), Text("now"), ToolCall("f", "", "1"), turn="t", extra={"k": "v"})
    items = written((message, result("1")))
    assert kinds(items) == ["ThoughtEvent", "ThoughtEvent", "ToolCallRequestEvent", "ToolCallExecutionEvent"]
    assert items[2]["content"] == [{"id": "1", "arguments": "{}", "name": "f"}]
    parsed = read(items)
    assert [part for one in parsed[:3] for part in one.parts] == list(message.parts)
    assert all((one.turn, one.extra["k"]) == ("t", "v") for one in parsed[:3])


def test_a_call_without_an_id_gets_one_and_its_result_names_it() -> None:
    messages = (
        answer(ToolCall("f", "{}")),
        answer(ToolCall("g", "{}")),
        result(None, name="g"),
        result(None, name="?"),
    )
    request, execution = written(messages)
    first, second = (one["id"] for one in request["content"])
    assert first and second and first != second
    assert [one["call_id"] for one in execution["content"]] == [second, first]
    assert [normalize_message(one) for one in read([request, execution])] == [
        normalize_message(one) for one in messages
    ]


def test_an_image_is_carried_and_other_media_leave_a_word() -> None:
    image = Media("image", (f"data:image/png;base64,{PNG}",))
    far, sound = Media("image", ("https://h/x.png",)), Media("audio", ("data:audio/wav;base64,AAAA",))
    message = make_message("user", Text("see"), image, far, sound, name="user", path="messages[0]")
    encoded = AUTOGEN.write([message], Options())
    assert encoded.messages[0]["type"] == "MultiModalMessage"
    assert encoded.messages[0]["content"] == ["see", {"data": PNG}, "[image: https://h/x.png]", "[audio]"]
    assert [one.path for one in encoded.losses] == ["messages[0]"] * 2
    assert read(encoded.messages)[0].parts == tuple(
        replace(one, path="messages[0]") if isinstance(one, Media) else one for one in message.parts
    )


def test_media_alone_become_a_text() -> None:
    (item,) = written((make_message("user", Media("file", ("https://h/x.pdf",)), name="user"),))
    assert (item["type"], item["content"]) == ("TextMessage", "[file: https://h/x.pdf]")


def test_media_in_a_result_leave_a_word_and_come_back() -> None:
    messages = (answer(ToolCall("f", "{}", "1")), result("1", Text("see"), Media("image", ("https://h/x",))))
    items = written(messages)
    assert items[1]["content"][0]["content"] == "see\n[image: https://h/x]"
    assert [normalize_message(one) for one in read(items)] == [normalize_message(one) for one in messages]


def test_what_messages_say_of_themselves_has_its_own_place() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    extra = {"message_id": "m", "created_at": "2026-01-01T00:00:00Z", "metadata": {"k": "v"}, "usage": usage}
    (item,) = written((make_message("user", Text("q"), name="user", extra=extra),))
    assert item == text("user", "q", id="m", created_at=extra["created_at"], metadata={"k": "v"}, models_usage=usage)


@pytest.mark.parametrize(("turn", "notes"), [(None, set()), ("t", {"parley"})])
def test_an_edited_item_says_what_it_says(turn: str | None, notes: set[str]) -> None:
    (item,) = written((make_message("user", Text("q"), turn=turn),))
    assert set(item["metadata"]) == notes
    assert (read([item])[0].name, read([item])[0].turn) == (None, turn)
    (message,) = read([item | {"content": "edited"}])
    assert (message.name, message.turn, message.parts) == ("user", None, (Text("edited"),))


def test_an_item_with_another_source_is_of_that_source() -> None:
    (item,) = written((make_message("user", Text("q")),))
    assert read([item | {"source": "Bob"}])[0].name == "Bob"


def test_an_item_that_autogen_stored_again_keeps_what_it_carries() -> None:
    (item,) = written((make_message("user", Text("q"), turn="t"),))
    stored = item | {"created_at": "2026-01-01T00:00:00Z"}
    (message,) = read([stored])
    assert (message.name, message.turn) == (None, "t")
    assert written((message,)) == [stored]


def edited(message: Message, new: str) -> Message:
    return replace(message, parts=(Text(new),))


def test_an_edited_message_says_what_it_says() -> None:
    asides = [{"type": "SelectorEvent", "source": "m", "content": "x"}]
    items = [text("user", "q", id="m1"), *asides, thought("a", "now"), calls("a", "1"), results("a", "1"), *asides]
    messages = read(items)
    changed = written((messages[0], edited(messages[1], "then"), *messages[2:]))
    assert kinds(changed) == kinds(items)
    assert (changed[2]["content"], changed[2]["metadata"]) == ("then", {"kind": "content"})
    assert [*changed[:2], *changed[3:]] == [*items[:2], *items[3:]]


def test_a_message_that_is_gone_takes_its_item_with_it() -> None:
    messages = read([text("user", "q"), calls("a", "1", "2"), results("a", "1", "2")])
    items = written((messages[0], *messages[2:4]))
    assert [len(one["content"]) for one in items[1:]] == [1, 1]
    assert [one["id"] for one in items[1]["content"]] == ["2"]


def test_asides_between_results_keep_their_place() -> None:
    aside = {"type": "SelectorEvent", "source": "m", "content": "x"}
    first, second = result("1", Text("r")), result("2", Text("r"))
    messages = (answer(ToolCall("f", "{}", "1")), first, replace(second, extra={"autogen_before": [aside]}))
    assert kinds(written(messages)) == [
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
        "SelectorEvent",
        "ToolCallExecutionEvent",
    ]


def test_metadata_hold_json_that_other_readers_can_read() -> None:
    (item,) = written((make_message("user", Text("q"), extra={"k": "é"}),))
    assert json.loads(item["metadata"]["parley"])["messages"] == [{"extra": {"k": "é"}}]


QUERY = text("user", "q")
UNTRUSTED: list[tuple[Any, str]] = [
    (None, "no bag"),
    ({"k": 0, "as": "user"}, "nothing kept"),
    ({"raw": {"type": "Nonsense"}, "k": 0, "as": "user"}, "no item of AutoGen"),
    ({"raw": QUERY, "k": 1, "as": "user"}, "another piece"),
    ({"raw": QUERY, "k": 0, "as": "guess"}, "no verdict"),
    ({"raw": QUERY, "k": 0, "as": 5}, "no word"),
    ({"raw": QUERY, "k": 0, "as": "own"}, "another side"),
    ({"raw": QUERY, "k": 0, "as": "calls"}, "a verdict of other items"),
    ({"raw": QUERY, "k": 0, "as": "core"}, "a verdict of the core's messages"),
    ({"raw": QUERY, "k": 0, "as": "kept"}, "metadata that hold nothing"),
    ({"raw": thought("user", "q"), "k": 0, "as": "user"}, "a verdict that no thought has"),
    ({"raw": text("user", "p"), "k": 0, "as": "user"}, "another text"),
]


@each_case(("kept", "why"), UNTRUSTED, ids=[why for _, why in UNTRUSTED])
def test_what_was_kept_counts_only_where_it_says_the_same(kept: Any, why: str) -> None:
    trusted = {"raw": QUERY, "k": 0, "as": "user"}
    assert written((make_message("user", Text("q"), name="user", extra={"autogen": trusted}),)) == [QUERY]
    (item,) = written((make_message("user", Text("q"), name="user", extra={"autogen": kept}),))
    assert (item["content"], item["id"][:7]) == ("q", "parley-")


def test_a_result_that_lost_its_content_is_not_what_was_kept() -> None:
    messages = read([calls("a", "1"), results("a", "1")])
    items = written((messages[0], replace(messages[1], parts=())))
    assert items[0] == calls("a", "1")
    assert items[1] != results("a", "1")


@each_case("notes", ["no JSON", '{"seal": 1}', '{"seal": "another", "messages": []}'])
def test_notes_that_are_not_valid_are_ignored(notes: Any) -> None:
    [message] = read([text("user", "q") | {"metadata": {"parley": notes}}])
    assert message.parts == (Text("q"),)
