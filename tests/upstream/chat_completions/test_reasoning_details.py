"""`reasoning_details` go back to the model server whole, unchanged and in their order, however a stream cut them."""

import json
from typing import Any

from app.chat.events import Extra
from app.upstream.chat_completions.reasoning_details import ReasoningDetails, RepeatedTexts

from tests.each_case import each_case
from tests.linear_time import linear
from tests.upstream.reply.assembled_events import events

Item = dict[str, Any]


def text(text: str | None, index: int | None = 0, **more: Any) -> Item:
    item: Item = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": index, **more}
    return {key: value for key, value in item.items() if value is not None}


def summary(text: str, index: int) -> Item:
    return {"type": "reasoning.summary", "summary": text, "format": "openai-responses-v1", "index": index}


def encrypted(data: str, index: int, **more: Any) -> Item:
    return {"type": "reasoning.encrypted", "data": data, "format": "openai-responses-v1", "index": index, **more}


def returned(*deltas: Item) -> list[Item]:
    """The items that the client gets to send back."""
    lines = (json.dumps({"choices": [{"delta": delta}]}).encode() for delta in deltas)
    return [
        item
        for event in events(*lines, b"[DONE]")
        if isinstance(event, Extra)
        for item in event.fields["reasoning_details"]
    ]


def detail(*items: Item) -> Item:
    return {"reasoning_details": list(items)}


CONTENT = {"content": "Done"}
CALL = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}

STREAMS: dict[str, tuple[list[Item], list[Item]]] = {
    "a text in pieces and its signature alone (Claude at OpenRouter)": (
        [detail(text("Let ")), detail(text("me")), detail(text(None, signature="s1")), CALL],
        [text("Let me", signature="s1")],
    ),
    "the signature comes after the content began": (
        [detail(text("Plan")), CONTENT, detail(text(None, signature="s1"))],
        [text("Plan", signature="s1")],
    ),
    "the signature comes with the first content": (
        [detail(text("Plan")), {**detail(text("", signature="s1")), **CONTENT}],
        [text("Plan", signature="s1")],
    ),
    "several thoughts between texts and calls": (
        [
            detail(text("A")),
            detail(text("a", signature="s1")),
            CONTENT,
            detail(text("B", 1)),
            detail(text(None, 1, signature="s2")),
            CALL,
        ],
        [text("Aa", signature="s1"), text("B", 1, signature="s2")],
    ),
    "several thoughts with one index": (
        [detail(text("A", signature="s1")), detail(text("B")), detail(text(None, signature="s2")), CALL],
        [text("A", signature="s1"), text("B", signature="s2")],
    ),
    "several thoughts without an index": (
        [detail(text("A", None)), detail(text("a", None, signature="s1")), detail(text("B", None, signature="s2"))],
        [text("Aa", None, signature="s1"), text("B", None, signature="s2")],
    ),
    "a thought without words (Claude with display: omitted)": (
        [detail(text("")), detail(text("", signature="s1")), CALL],
        [text("", signature="s1")],
    ),
    "a redacted thought between others": (
        [
            detail(text("A", signature="s1")),
            detail(encrypted("x", 1)),
            detail(text("B", 2)),
            detail(text(None, 2, signature="s2")),
        ],
        [text("A", signature="s1"), encrypted("x", 1), text("B", 2, signature="s2")],
    ),
    "summaries beside encrypted data (GPT-5 at OpenRouter)": (
        [
            detail(summary("**Loo", 0)),
            detail(summary("king**", 0)),
            detail(encrypted("x", 1, id="rs_1")),
            detail(summary("**Th", 2)),
            detail(summary("en**", 2)),
            detail(encrypted("y", 3, id="rs_2")),
            CALL,
        ],
        [
            summary("**Looking**", 0),
            encrypted("x", 1, id="rs_1"),
            summary("**Then**", 2),
            encrypted("y", 3, id="rs_2"),
        ],
    ),
    "a summary after the last encrypted data": (
        [detail(encrypted("x", 0)), detail(summary("Sum", 1)), CONTENT],
        [encrypted("x", 0), summary("Sum", 1)],
    ),
    "an unsigned text before encrypted data (Gemini at OpenRouter)": (
        [detail(text("Th")), {"reasoning": "ink", **detail(text("ink"))}, detail(encrypted("x", 0, id="a")), CALL],
        [text("Think"), encrypted("x", 0, id="a")],
    ),
    "encrypted data of two calls with one index": (
        [detail(encrypted("x", 0, id="a"), encrypted("y", 0, id="b")), CALL],
        [encrypted("x", 0, id="a"), encrypted("y", 0, id="b")],
    ),
    "texts of two ids with one index": (
        [detail(text("A", id="t1")), detail(text("B", id="t2")), detail(encrypted("x", 1))],
        [text("A", id="t1"), text("B", id="t2"), encrypted("x", 1)],
    ),
    "fields that come late": (
        [
            detail({"type": "reasoning.text", "text": "A", "signature": None, "format": None, "index": 0}),
            detail(text("a", signature="s1")),
        ],
        [text("Aa", signature="s1")],
    ),
    "an item of a type that is not known": (
        [detail({"type": "reasoning.server_tool_call", "call": {"a": [1]}, "index": 0}), CONTENT],
        [{"type": "reasoning.server_tool_call", "call": {"a": [1]}, "index": 0}],
    ),
    "unsigned texts alone, which are the reasoning itself": (
        [detail(text("Let ")), {"reasoning": "me", **detail(text("me", signature=None))}, CONTENT],
        [],
    ),
    "types and indices of other types": (
        [detail({"type": [], "index": {}, "text": "A"}), detail({"type": 1, "index": True, "data": "x"})],
        [{"type": [], "index": {}, "text": "A"}, {"type": 1, "index": True, "data": "x"}],
    ),
}


@each_case("name", STREAMS)
def test_a_stream_gives_back_the_items_whole_and_in_order(name: str) -> None:
    deltas, items = STREAMS[name]
    assert returned(*deltas) == items


@each_case("name", STREAMS)
def test_texts_may_be_cut_anywhere(name: str) -> None:
    deltas, items = STREAMS[name]
    assert returned(*(piece for delta in deltas for piece in _cut_texts(delta))) == items


def _cut_texts(delta: Item) -> list[Item]:
    """The delta with each letter of a detail's text in a delta of its own, and all else in the last one."""
    pieces: list[Item] = []
    last = []
    for item in delta.get("reasoning_details", ()):
        key = "summary" if "summary" in item else "text"
        head = {name: value for name, value in item.items() if name != "signature"}
        if item.get(key) and len(delta["reasoning_details"]) == 1:
            pieces += (detail({**head, key: letter}) for letter in item[key][:-1])
            item = {**item, key: item[key][-1]}
        last.append(item)
    return [*pieces, {**delta, **({"reasoning_details": last} if last else {})}]


def test_a_whole_message_gives_back_its_items_unchanged() -> None:
    items = [text("A"), text("B", signature="s1"), summary("C", 0), summary("D", 0), encrypted("x", 1)]
    message = {"choices": [{"message": {"reasoning": "AB", "reasoning_details": items}, "finish_reason": "stop"}]}
    found = [event.fields for event in events(json.dumps(message).encode()) if isinstance(event, Extra)]
    assert found == [{"reasoning_details": items}]


def test_a_closing_message_does_not_repeat_the_items() -> None:
    items = [encrypted("x", 0)]
    closing = {"choices": [{"message": {"reasoning_details": items, "content": "Done"}, "finish_reason": "stop"}]}
    delta = {"choices": [{"delta": detail(*items)}]}
    read = events(json.dumps(delta).encode(), json.dumps(closing).encode(), b"[DONE]")
    assert [event.fields for event in read if isinstance(event, Extra)] == [{"reasoning_details": items}]


def test_the_work_for_a_long_thought_is_linear() -> None:
    def work(size: int) -> list[Item]:
        details = ReasoningDetails()
        for place in range(size):
            details.add([text("a", place % 2)])
        return details.add([text("b", signature="s")])

    assert work(10)[0]["text"] == "aaaaab"
    assert linear(work, 5000)


@each_case(
    ("texts", "new"),
    [
        (["The", "The user", "The user said"], ["The", " user", " said"]),
        (["The", " user", "The user said"], ["The", " user", " said"]),
        (["ha", "haha"], ["ha", "haha"]),
        (["The", "The"], ["The", "The"]),
    ],
)
def test_a_fragment_with_all_of_the_text_so_far_adds_only_what_is_new(texts: list[str], new: list[str]) -> None:
    repeated = RepeatedTexts()
    assert [repeated.cut([text(one, id="r1")])[0]["text"] for one in texts] == new


@each_case("item", [text("The user", index=None, id="r"), text("The user"), encrypted("AA", 0, id="r"), "x"])
def test_a_fragment_without_id_and_index_is_new(item: Any) -> None:
    repeated = RepeatedTexts()
    assert [repeated.cut([item]), repeated.cut([item])] == [[item], [item]]


def test_a_long_text_is_compared_in_linear_time() -> None:
    def cut(size: int) -> None:
        repeated = RepeatedTexts()
        for _ in range(size):
            repeated.cut([text("abcd", id="r1")])

    assert linear(cut, 2000)
