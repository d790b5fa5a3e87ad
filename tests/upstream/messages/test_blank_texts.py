"""Blank texts of a client's own body, which a Messages server refuses."""

from typing import Any

import pytest
from app.chat.messages import ChatRequest, PassedBody
from app.errors import InvalidInput
from app.profiles import find_profile
from app.upstream.messages.passed_body import build_passed
from msgspec.structs import replace

from tests.each_case import each_case
from tests.upstream.own_bodies import read, send, write

Json = dict[str, Any]
MARK: Json = {"cache_control": {"type": "ephemeral"}}
CALL: Json = {"type": "tool_use", "id": "c1", "name": "look", "input": {}, "future": 1}
RESULT: Json = {"type": "tool_result", "tool_use_id": "c1"}
SIGNED: Json = {"type": "thinking", "thinking": "Hm.", "signature": "native"}
HI: Json = {"role": "user", "content": "Hi"}
LOST = ["cache_control of a blank text was not sent: no block before it in the message can have it"]


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def ask(*blocks: Any) -> Json:
    return {"role": "user", "content": list(blocks)}


def say(*blocks: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)}


SO = text("So.", future=1)
EMPTY: list[Json] = [{"content": [text("")]}, {"content": ""}, {"content": []}, {}]
CASES: list[tuple[list[Json], list[Json], list[str]]] = [
    ([ask(text(""), SO)], [ask(SO)], []),
    ([HI, say(text("\n\n"), CALL), ask(RESULT)], [HI, say(CALL), ask(RESULT)], []),
    ([HI, say(SIGNED, text(" "), CALL), ask(RESULT)], [HI, say(SIGNED, CALL), ask(RESULT)], []),
    (
        [HI, say(CALL), ask({**RESULT, "content": [text(""), SO, text(" ")], "future": 2})],
        [HI, say(CALL), ask({**RESULT, "content": [SO], "future": 2})],
        [],
    ),
    ([HI, say(CALL), ask({**RESULT, "content": [text("")]})], [HI, say(CALL), ask({**RESULT, "content": []})], []),
    # An error that says nothing is refused as well.
    *(
        (
            [HI, say(CALL), ask({**RESULT, "is_error": True, **content})],
            [HI, say(CALL), ask({**RESULT, "is_error": True, "content": [text("Error")]})],
            [],
        )
        for content in EMPTY
    ),
    # A mark caches everything before it.
    ([ask(SO, text("", **MARK), text("b"))], [ask({**SO, **MARK}, text("b"))], []),
    (
        [ask({**SO, **MARK}, text("", cache_control={"type": "ephemeral", "ttl": "1h"}))],
        [ask({**SO, **MARK})],
        [],
    ),
    ([HI, say(CALL), ask(RESULT, text(" ", **MARK))], [HI, say(CALL), ask({**RESULT, **MARK})], []),
    (
        [HI, say(CALL), ask({**RESULT, "content": [text("", **MARK)]})],
        [HI, say(CALL), ask({**RESULT, "content": [], **MARK})],
        [],
    ),
    ([ask(text("", **MARK), SO)], [ask(SO)], LOST),
    ([HI, say(SIGNED, text("", **MARK), CALL), ask(RESULT)], [HI, say(SIGNED, CALL), ask(RESULT)], LOST),
]


@each_case(("given", "sent", "warned"), CASES)
def test_blank_texts_are_left_out_and_nothing_else(given: list[Json], sent: list[Json], warned: list[str]) -> None:
    body, warnings = send({"model": "m", "max_tokens": 5, "messages": given})
    assert body["messages"] == sent and warnings == warned
    passed = ChatRequest("m", (), passed=PassedBody("messages", {"messages": given, "max_tokens": 5}))
    body, warnings = build_passed(passed, "up", find_profile("anthropic", "messages"))
    assert body["messages"] == sent and warnings == warned


@each_case("empty", ["", [], [text("")], [text(" "), text("\n")]])
def test_a_turn_that_says_nothing_is_left_out(empty: Any) -> None:
    given = {"model": "m", "max_tokens": 5, "messages": [HI, {"role": "assistant", "content": empty}, ask(SO)]}
    body, warnings = send(given)
    assert body["messages"] == [HI, ask(SO)] and not warnings
    passed = ChatRequest("m", (), passed=PassedBody("messages", given))
    body, warnings = build_passed(passed, "up", find_profile("anthropic", "messages"))
    assert body["messages"] == [HI, ask(SO)] and not warnings


@each_case("empty", ["", [], [text("")]])
def test_an_empty_message_of_a_user_reaches_its_server_as_it_came(empty: Any) -> None:
    given = {"max_tokens": 5, "messages": [HI, say(SO), {"role": "user", "content": empty}]}
    body, _ = build_passed(
        ChatRequest("m", (), passed=PassedBody("messages", given)), "up", find_profile("anthropic", "messages")
    )
    assert body["messages"] == given["messages"]


@each_case(
    ("system", "sent", "warned"),
    [
        ([text(""), SO], [SO], []),
        ([SO, text(" ", **MARK)], [{**SO, **MARK}], []),
        ([text("", **MARK), SO], [SO], LOST),
        ([text("")], None, []),
        ("", None, []),
    ],
)
def test_blank_texts_of_the_system_are_left_out(system: Any, sent: Any, warned: list[str]) -> None:
    given = {"model": "m", "max_tokens": 5, "messages": [HI], "system": system}
    body, warnings = send(given)
    assert body.get("system") == sent and warnings == warned
    passed = ChatRequest("m", (), passed=PassedBody("messages", given))
    body, warnings = build_passed(passed, "up", find_profile("anthropic", "messages"))
    assert body.get("system") == sent and warnings == warned


def test_a_conversation_of_blank_texts_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no message has content"):
        send({"model": "m", "max_tokens": 5, "messages": [ask(text(" "))]})


def test_a_server_that_takes_blank_texts_gets_them() -> None:
    given = {"model": "m", "max_tokens": 5, "messages": [ask(text(""), SO)], "system": [text("")]}
    loose = find_profile("anthropic", "messages").model_copy(update={"blank_texts": True})
    request = read(given)
    assert request is not None
    for body, _ in (
        write(request, loose),
        build_passed(replace(request, passed=PassedBody("messages", given)), "up", loose),
    ):
        assert (body["messages"], body["system"]) == (given["messages"], given["system"])
