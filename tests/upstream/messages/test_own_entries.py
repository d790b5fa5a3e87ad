"""The order of blocks and the cache marks of a client's own body, of which servers refuse some."""

from typing import Any

import pytest

from tests.each_case import each_case
from tests.upstream.own_bodies import send

Json = dict[str, Any]
HI: Json = {"role": "user", "content": "Hi"}
LONG: Json = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
SHORT: Json = {"type": "ephemeral"}
SIGNED: Json = {"type": "thinking", "thinking": "Hm.", "signature": "native"}


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def call(id_: str, **fields: Any) -> Json:
    return {"type": "tool_use", "id": id_, "name": "look", "input": {}, **fields}


def result(id_: str, **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id_, "content": "sunny", **fields}


def ask(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **fields}


@pytest.mark.parametrize("kind", ["anthropic", "anthropic_compatible"])
@each_case(
    ("given", "sent"),
    [
        ([text("Look:", future=1), result("a")], [result("a"), text("Look:", future=1)]),
        (
            [result("a"), text("and"), result("b", is_error=True), text("go on")],
            [result("a"), result("b", is_error=True), text("and"), text("go on")],
        ),
        ([result("b"), result("a")], [result("b"), result("a")]),
    ],
)
def test_results_stand_before_the_other_blocks(kind: str, given: list[Json], sent: list[Json]) -> None:
    calls = [call(block["tool_use_id"]) for block in sent if block["type"] == "tool_result"]
    body = ask(HI, {"role": "assistant", "content": calls}, {"role": "user", "content": given, "future": 1})
    assert send(body, kind)[0]["messages"][2] == {"role": "user", "content": sent, "future": 1}


@pytest.mark.parametrize("kind", ["anthropic", "anthropic_compatible"])
def test_results_stand_before_what_an_earlier_message_of_the_user_has(kind: str) -> None:
    calls = {"role": "assistant", "content": [call("a"), call("b")]}
    later = [{"role": "user", "content": [result("a")]}, {"role": "user", "content": [text("and"), result("b")]}]
    sent, _ = send(ask(HI, calls, {"role": "user", "content": "Wait."}, *later, HI), kind)
    turn = {"role": "user", "content": [result("a"), result("b"), text("Wait."), text("and")]}
    assert sent["messages"] == [HI, calls, turn, HI]


def test_results_stand_directly_behind_calls_of_a_divided_turn() -> None:
    turns = [{"role": "assistant", "content": [call("a")]}, {"role": "assistant", "content": [call("b")]}]
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": " ", "signature": ""}]}
    results = [{"role": "user", "content": [result(id_)]} for id_ in "ab"]
    body = ask(HI, *turns, results[0], thought, results[1], HI)
    sent = send(body, "anthropic_compatible")[0]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert [one["type"] for one in sent[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert send(body, "anthropic")[0]["messages"] == body["messages"]


def test_a_mark_on_thinking_is_left_out_with_a_warning() -> None:
    turn = {"role": "assistant", "content": [{**SIGNED, "cache_control": SHORT}, call("a", cache_control=SHORT)]}
    body, warnings = send(ask(HI, turn, {"role": "user", "content": [result("a")]}))
    assert body["messages"][1]["content"] == [SIGNED, call("a", cache_control=SHORT)]
    assert warnings == ["cache_control of thinking was not sent: blocks of thinking cannot have it"]


def mark_places(mark: Json, places: str) -> Json:
    def hold(place: str) -> Json:
        return {"cache_control": mark} if place in places else {}

    return ask(
        {"role": "user", "content": [text("Hi", **hold("text"))]},
        {"role": "assistant", "content": [call("a", input={"cache_control": mark})]},
        {"role": "user", "content": [result("a", content=[text("sunny", **hold("inner"))], **hold("result"))]},
        system=[text("S", **hold("system"))],
        tools=[{"name": "look", "input_schema": {"type": "object", "properties": {}}, **hold("tool")}],
        **hold("body"),
    )


@each_case("places", ["system tool body", "text inner result"])
def test_a_mark_has_only_what_the_server_knows_of_it(places: str) -> None:
    body, warnings = send(mark_places(LONG, places), "anthropic_compatible")
    expected, none = send(mark_places(SHORT, places), "anthropic_compatible")
    expected["messages"][1]["content"][0]["input"] = {"cache_control": LONG}  # the model's own arguments
    assert body == expected and none == []
    assert [warning.partition(" was not sent")[0] for warning in warnings] == [
        "scope of cache_control",
        "ttl of cache_control",
    ]
    assert send(mark_places(LONG, places))[0]["messages"] == mark_places(LONG, places)["messages"]
    assert send(mark_places(LONG, places), "anthropic_compatible", takes="all")[1] == []


@each_case("kind", ["anthropic", "anthropic_compatible"])
def test_of_more_than_four_marks_the_last_are_sent(kind: str) -> None:
    everything = "text inner result system tool body"
    body, warnings = send(mark_places(SHORT, everything), kind)
    assert body == send(mark_places(SHORT, "inner result text body"), kind)[0]
    assert warnings == ["cache_control was sent with the last 3 of 5 places: the server takes no more"]
    four = mark_places(SHORT, "system tool text inner")
    assert send(four, kind) == ({**four, "model": "up"}, [])


def test_ids_that_are_used_again_or_have_other_characters_are_replaced() -> None:
    turns = [
        HI,
        {"role": "assistant", "content": [SIGNED, call("Bash:0")]},
        {"role": "user", "content": [result("Bash:0", content="one")]},
        {"role": "assistant", "content": [call("Bash:0")]},
        {"role": "user", "content": [result("Bash:0", content="two"), text("go on")]},
        {"role": "assistant", "content": [call("a", future=1)]},
        {"role": "user", "content": [result("a")]},
    ]
    messages = send(ask(*turns))[0]["messages"]
    calls = [messages[place]["content"][-1]["id"] for place in (1, 3)]
    results = [messages[place]["content"][0] for place in (2, 4)]
    assert len(set(calls)) == 2 and all(id_.replace("_", "").isalnum() for id_ in calls)
    assert [block["tool_use_id"] for block in results] == calls
    assert [block["content"] for block in results] == ["one", "two"]
    assert messages[1]["content"][0] == SIGNED and messages[5:] == turns[5:]
