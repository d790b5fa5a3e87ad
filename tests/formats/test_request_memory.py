"""What is remembered of requests changes nothing of how they are read, and nobody finds what another one sent."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from agent_bodies import WRITERS, make_conversation
from app.formats.anthropic.body import parse_count_tokens_body, parse_messages_body
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import MAX_FOUND, MIN_BYTES, CallerMemory, Entry, RequestMemory
from app.formats.responses.body import parse_responses_body
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.session_edits import EDITS, FILL, Edit, edit, write_body

LIMITS = RequestLimits(max_messages=60, max_content_items=400, max_functions=8, max_nesting=12)
PARSERS: dict[str, Callable[..., Any]] = {
    "/v1/chat": parse_chat_body,
    "/v1/chat/completions": parse_completions_body,
    "/v1/messages": parse_messages_body,
    "/v1/messages/count_tokens": parse_count_tokens_body,
    "/v1/responses": parse_responses_body,
}
MAX_BYTES = 64 * 1024 * 1024


def describe(parsed: Any) -> Any:
    """Return all that was read, or every word of the error."""
    if isinstance(parsed, RejectedRequest):
        return parsed.error.to_dict("r"), str(parsed.error)
    if not isinstance(parsed, ParsedRequest):
        return parsed.response_id, parsed.item_ids
    return parsed, repr(parsed)


@pytest.mark.parametrize("path", PARSERS)
@examples(30)
@given(edits=st.lists(EDITS, min_size=1, max_size=4))
def test_a_session_is_read_as_by_a_gateway_that_remembers_nothing(path: str, edits: list[list[Edit]]) -> None:
    parse, body, whole = PARSERS[path], write_body(path, 4, 3), write_body(path, 8, 3)
    memory = RequestMemory(MAX_BYTES)
    for number, each in enumerate(edits):
        raw = json.dumps(body).encode()
        for _ in range(2):
            assert describe(parse(raw, LIMITS, memory.open("a"))) == describe(parse(raw, LIMITS, None))
        for kind, first, second in each:
            edit(body, whole, kind, first, second + number)


@pytest.mark.parametrize("path", PARSERS)
def test_a_continued_session_is_remembered_but_for_its_end(path: str) -> None:
    counted: list[tuple[int, int]] = []
    memory = RequestMemory(MAX_BYTES, lambda *sizes: counted.append(sizes))
    write = WRITERS[path.removesuffix("/count_tokens")]
    conversation = make_conversation(21, 10)
    bodies = [write(conversation.until(rounds), "m") for rounds in (20, 21)]
    for raw in bodies:
        PARSERS[path](raw, LIMITS_OF_LONG, memory.open("a"))

    assert counted[0] == (0, len(bodies[0]))
    remembered, new = counted[1]
    assert remembered + new == len(bodies[1])
    assert remembered > 0.85 * len(bodies[0])


LIMITS_OF_LONG = RequestLimits(1000, 1000, 100, 64)


def read(memory: RequestMemory, scope: str, body: dict[str, Any]) -> dict[str, Any]:
    opened = memory.open(scope)
    assert isinstance(opened, CallerMemory)
    found = opened.read_object(json.dumps(body).encode())
    assert found is not None
    return found


LONG: dict[str, Any] = {"messages": [FILL, {"role": "user", "content": "x"}]}


def test_a_caller_finds_its_own_messages_only() -> None:
    memory = RequestMemory(MAX_BYTES)
    mine, again, other = (read(memory, scope, LONG)["messages"] for scope in ("a", "a", "b"))

    assert mine[0] is again[0]
    assert mine[1] is again[1]
    assert other == mine
    assert not {id(entry) for entry in other} & {id(entry) for entry in mine}


def test_the_least_recently_used_messages_are_dropped_above_the_limit() -> None:
    memory = RequestMemory(9 * 5 * len(json.dumps(FILL)))
    first = read(memory, "a", LONG)["messages"][0]
    assert read(memory, "a", LONG)["messages"][0] is first
    for number in range(12):
        read(memory, "a", {"messages": [{**FILL, "name": f"n{number}"}]})

    assert read(memory, "a", LONG)["messages"][0] is not first


def test_a_message_larger_than_a_part_of_the_memory_is_not_remembered() -> None:
    memory = RequestMemory(8 * 5 * len(json.dumps(FILL)))
    first = read(memory, "a", LONG)["messages"]

    again = read(memory, "a", LONG)["messages"]
    assert again[0] is not first[0]
    assert again[1] is first[1]


def test_little_is_remembered_of_a_message_at_many_places() -> None:
    memory = RequestMemory(MAX_BYTES)
    same = {"role": "assistant", "content": "yes"}
    raw = json.dumps({"model": "m", "messages": [FILL, *[same] * 50]}).encode()
    for _ in range(2):
        assert isinstance(parse_completions_body(raw, LIMITS, memory.open("a")), ParsedRequest)

    [entry] = {id(one): one for one in read(memory, "a", {"messages": [same, FILL]})["messages"][:1]}.values()
    assert len(entry.found) <= MAX_FOUND


def test_a_message_of_many_small_values_counts_for_what_they_take() -> None:
    memory = RequestMemory(8 * 1024 * 1024)
    dense: dict[str, Any] = {"messages": [{"content": [{}] * MIN_BYTES}]}

    assert read(memory, "a", dense)["messages"][0] is not read(memory, "a", dense)["messages"][0]


def test_without_memory_nothing_is_remembered() -> None:
    assert RequestMemory(0).open("a") is None


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages": [{"a": 1}]}',
        b"[]" + b" " * MIN_BYTES,
        b'{"messages": [{"a": 1},]}' + b" " * MIN_BYTES,
        b'{"messages": [{"a": "\xff"}]}' + b" " * MIN_BYTES,
        b'{"messages": [{"a": "\\ud800"}]}' + b" " * MIN_BYTES,
        b'{"messages": [{"a": ' + b"[" * 199 + b"]" * 199 + b"}]}" + b" " * MIN_BYTES,
    ],
)
def test_a_body_that_is_short_or_not_valid_is_left_to_be_read_as_a_whole(raw: bytes) -> None:
    opened = RequestMemory(MAX_BYTES).open("a")
    assert opened is not None
    assert opened.read_object(raw) is None


def test_an_entry_is_an_object_like_any_other() -> None:
    entry = Entry({"a": [1]})
    assert entry == {"a": [1]}
    assert json.dumps(entry) == '{"a": [1]}'
    assert type(entry.copy()) is dict
