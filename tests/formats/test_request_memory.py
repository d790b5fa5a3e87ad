"""What is remembered of requests changes nothing of how they are read, and no caller finds what another one sent."""

import gc
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agent_bodies import GEMINI, WRITERS, make_conversation
from app.chat.known_conversation import CHANGED_MESSAGES
from app.chat.messages import Text
from app.errors import ParleyError
from app.formats.anthropic.body import parse_count_tokens_body, parse_messages_body
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.gemini.body import GenerateTarget, parse_count_body, parse_generate_body
from app.formats.json_object import parse_object
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import (
    HELD_FOR_BYTE,
    MAX_STATES,
    MIN_BYTES,
    NOTHING_KNOWN,
    CallerMemory,
    FirstEntry,
    RememberedRequest,
    RequestMemory,
    keep,
    resume,
)
from app.formats.responses.body import parse_responses_body
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.effort import examples
from tests.session_edits import EDITS, FILL, Edit, edit, write_body

LIMITS = RequestLimits(max_messages=60, max_content_items=400, max_functions=8, max_nesting=12)
PARSERS: dict[str, Callable[..., Any]] = {
    "/v1/chat": parse_chat_body,
    "/v1/chat/completions": parse_completions_body,
    "/v1/messages": parse_messages_body,
    "/v1/messages/count_tokens": parse_count_tokens_body,
    "/v1/responses": parse_responses_body,
    GEMINI: partial(parse_generate_body, target=GenerateTarget("m")),
    f"{GEMINI}/count_tokens": partial(parse_count_body, target=GenerateTarget("m")),
}
MAX_BYTES = 64 * 1024 * 1024


def parse_and_remember(path: str, raw: bytes, memory: RequestMemory, limits: RequestLimits = LIMITS) -> Any:
    """Parse a body as an endpoint does, which remembers it if it is accepted."""
    opened = memory.open("a")
    parsed = PARSERS[path](raw, limits, opened)
    assert opened is not None
    if isinstance(parsed, RejectedRequest):
        opened.refuse()
    else:
        opened.remember()
    return parsed


def describe(parsed: Any) -> Any:
    """Return all that was read, or every word of the error."""
    if isinstance(parsed, RejectedRequest):
        return parsed.error.to_dict("r"), str(parsed.error)
    if not isinstance(parsed, ParsedRequest):
        return parsed.response_id, parsed.item_ids
    parsed = replace(parsed, request=replace(parsed.request, known=None))
    return parsed, re.sub(r"Raw object at 0x\w+", "Raw", repr(parsed))


@pytest.mark.parametrize("path", PARSERS)
@examples(30)
@given(edits=st.lists(EDITS, min_size=1, max_size=4))
def test_a_session_is_read_as_by_a_gateway_that_remembers_nothing(path: str, edits: list[list[Edit]]) -> None:
    body, whole = write_body(path, 4, 3), write_body(path, 8, 3)
    memory = RequestMemory(MAX_BYTES)
    for number, each in enumerate(edits):
        raw = json.dumps(body).encode()
        for _ in range(2):
            assert describe(parse_and_remember(path, raw, memory)) == describe(PARSERS[path](raw, LIMITS, None))
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
        parse_and_remember(path, raw, memory, LIMITS_OF_LONG)

    assert counted[0] == (0, len(bodies[0]))
    remembered, new = counted[1]
    assert remembered + new == len(bodies[1])
    assert remembered > 0.85 * len(bodies[0])


LIMITS_OF_LONG = RequestLimits(1000, 1000, 100, 64)


@pytest.mark.parametrize("path", PARSERS)
def test_the_messages_and_tools_of_a_continued_session_are_those_of_the_earlier_request(path: str) -> None:
    memory = RequestMemory(MAX_BYTES)
    write = WRITERS[path.removesuffix("/count_tokens")]
    conversation = make_conversation(21, 10)
    bodies = [write(conversation.until(rounds), "m") for rounds in (20, 21)]
    before, after = (parse_and_remember(path, raw, memory, LIMITS_OF_LONG).request for raw in bodies)

    same = [one is other for one, other in zip(before.messages, after.messages, strict=False)]
    assert sum(same) >= len(same) - CHANGED_MESSAGES
    assert [one is other for one, other in zip(before.tools, after.tools, strict=True)] == [True] * 10


def test_the_first_content_and_the_first_tool_may_be_in_any_spelling_in_a_long_body_too() -> None:
    content = {"role": "user", "parts": {"text": "x" * MIN_BYTES, "thought_signature": None}}
    tool = {"function_declarations": {"name": "f", "parameters_json_schema": {"type": "object", "title": "T"}}}
    raw = json.dumps({"contents": [content], "tools": [tool]}).encode()
    memory = RequestMemory(MAX_BYTES)
    for _ in range(2):
        parsed = parse_and_remember(GEMINI, raw, memory)
        assert [message.parts for message in parsed.request.messages] == [(Text("x" * MIN_BYTES),)]
        assert [one.schema["parameters"].get("title") for one in parsed.request.tools] == ["T"]
        assert not parsed.warnings


def read(memory: RequestMemory, scope: str, body: dict[str, Any]) -> dict[str, Any]:
    opened = memory.open(scope)
    assert isinstance(opened, CallerMemory)
    found = opened.read_object(json.dumps(body).encode())
    assert found is not None
    opened.remember()
    return found


LONG: dict[str, Any] = {"messages": [FILL, {"role": "user", "content": "x"}]}


def test_a_caller_finds_its_own_messages_only() -> None:
    memory = RequestMemory(MAX_BYTES)
    mine, again, other = (read(memory, scope, LONG)["messages"] for scope in ("a", "a", "b"))

    assert mine[0] is again[0]
    assert mine[1] is again[1]
    assert other == mine
    assert not {id(entry) for entry in other} & {id(entry) for entry in mine}


def test_the_oldest_requests_are_dropped_above_the_limit() -> None:
    memory = RequestMemory(10 * HELD_FOR_BYTE * len(json.dumps(LONG)))
    first = read(memory, "a", LONG)["messages"][0]
    assert read(memory, "a", LONG)["messages"][0] is first
    for number in range(12):
        read(memory, f"b{number % 2}", {"messages": [{**FILL, "name": f"n{number}"}]})

    assert read(memory, "a", LONG)["messages"][0] is not first


def test_a_continued_request_is_remembered_instead_of_the_earlier_one() -> None:
    memory = RequestMemory(5 * HELD_FOR_BYTE * len(json.dumps(LONG)))
    other = read(memory, "a", {"messages": [{"role": "user", "content": "other"}, FILL]})["messages"][0]
    for number in range(20):
        read(memory, "a", {"messages": [*LONG["messages"], *[{"content": f"{one}"} for one in range(number)]]})

    assert read(memory, "a", {"messages": [{"role": "user", "content": "other"}, FILL]})["messages"][0] is other


def test_a_request_that_would_take_a_large_part_of_the_memory_is_not_remembered() -> None:
    opened = RequestMemory(3 * HELD_FOR_BYTE * len(json.dumps(LONG))).open("a")
    assert opened is not None
    raw = json.dumps(LONG).encode()
    for _ in range(2):
        assert opened.compare(raw) == 0
        assert opened.read_object(raw) is None


def test_the_request_with_the_longest_common_beginning_is_continued() -> None:
    memory = RequestMemory(MAX_BYTES)
    turns = [{"role": "user", "content": f"turn {number}"} for number in range(30)]
    short = read(memory, "a", {"messages": [FILL, *turns[:10], {"content": "a"}]})["messages"]
    long = read(memory, "a", {"messages": [FILL, *turns[:20], {"content": "b"}]})["messages"]
    read(memory, "a", {"messages": [FILL, *turns[:5], {"content": "c"}]})

    found = read(memory, "a", {"messages": [FILL, *turns]})["messages"]
    assert [id(one) for one in found[:21]] == [id(one) for one in long[:21]]
    assert [id(one) for one in found[:11]] == [id(one) for one in short[:11]]
    assert {**found[21]} == turns[20]


@pytest.mark.parametrize(
    "write",
    [
        lambda entries: json.dumps({"model": "m", "messages": entries}, indent=2),
        lambda entries: json.dumps({"messages": entries, "metadata": {"messages": [1]}}, separators=(",", ":")),
        lambda entries: json.dumps({"metadata": {"messages": entries[:1]}, "messages": entries}),
        lambda entries: json.dumps({"metadata": {"x": '"messages": ['}, "messages": entries}),
    ],
)
def test_entries_are_found_however_the_body_is_written(write: Callable[[Any], str]) -> None:
    memory = RequestMemory(MAX_BYTES)
    entries = [FILL, *[{"role": "user", "content": f"{number}"} for number in range(20)]]
    for last in (10, 15, 20):
        raw = write(entries[:last]).encode()
        opened = memory.open("a")
        assert opened is not None
        known = opened.compare(raw)
        assert opened.read_object(raw) == json.loads(raw)
        opened.remember()
        assert known == 0 if last == 10 else known > len(json.dumps(FILL))


@pytest.mark.parametrize(
    "after",
    [
        ', "messages": [{"role": "user", "content": "another"}]}',
        ', "messages": "no list"}',
        ', "messages": []}',
    ],
)
def test_a_conversation_that_another_one_replaces_is_not_continued(after: str) -> None:
    memory = RequestMemory(MAX_BYTES)
    listed = json.dumps([FILL, {"role": "user", "content": "x"}])
    first = f'{{"messages": {listed}}}'.encode()
    second = f'{{"messages": {listed}{after}'.encode()
    for raw in (first, second, second, first):
        opened = memory.open("a")
        assert opened is not None
        expected = json.loads(raw)
        found = opened.read_object(raw)
        opened.remember()
        assert found == expected if expected["messages"] not in ("no list", []) else found in (None, expected)


def test_a_list_of_the_same_text_elsewhere_is_not_taken_for_the_conversation() -> None:
    memory = RequestMemory(MAX_BYTES)
    listed = json.dumps([FILL, {"role": "user", "content": "x"}])
    for _ in range(3):
        raw = f'{{"metadata": {{"messages": {listed}}}, "messages": {listed}}}'.encode()
        opened = memory.open("a")
        assert opened is not None
        assert opened.read_object(raw) == json.loads(raw)
        opened.remember()


def test_tools_are_remembered_as_long_as_they_stay_the_same() -> None:
    memory = RequestMemory(MAX_BYTES)
    tools = [{"name": "a"}, {"name": "b"}]
    first, second, third, fourth = (
        read(memory, "a", {**LONG, "tools": given})["tools"] for given in (tools, tools, tools[:1], tools)
    )
    assert first is second
    assert third == tools[:1]
    assert fourth == tools


def test_few_states_are_kept_of_a_conversation() -> None:
    entries = [FirstEntry({"number": 0}), *({"number": number} for number in range(1, 50))]
    for number in range(1, 51):
        keep(entries, number, "what", number)

    assert [number for number in range(1, 51) if resume(entries[:number], "what")[0] == number] == [47, 48, 49, 50]
    assert MAX_STATES == 4
    assert resume(entries, "what")[:2] == (50, 50)
    assert resume(entries[:46], "what")[:2] == (0, None)
    assert resume(entries, "else")[:2] == (0, None)


def test_a_state_counts_only_after_the_same_entries() -> None:
    entries: list[Any] = [FirstEntry({"number": 0}), {"number": 1}, {"number": 2}]
    keep(entries, 3, "what", "state")

    assert resume([FirstEntry({"number": 0}), *entries[1:]], "what")[:2] == (0, None)
    assert resume([*entries[:2], {"number": 2}], "what")[:2] == (0, None)
    assert resume([entries[0], {"number": 1}, entries[2]], "what")[:2] == (0, None)
    assert resume(entries[1:], "what")[:2] == (0, None)
    assert resume([*entries, "more"], "what")[:2] == (3, "state")
    keep([*entries, "more"], 4, "what", "after a text")
    assert resume([*entries, "more"], "what")[:2] == (4, "after a text")
    assert resume([*entries, "else"], "what")[:2] == (3, "state")


def test_a_state_is_worth_keeping_once_and_only_of_a_list_that_is_remembered() -> None:
    entries: list[Any] = [FirstEntry({"number": 0}), *({"number": number} for number in range(1, CHANGED_MESSAGES + 5))]
    assert resume(entries, "what") == (0, None, [5, CHANGED_MESSAGES + 5])
    keep(entries, 5, "what", "state")
    assert resume(entries, "what") == (5, "state", [CHANGED_MESSAGES + 5])
    keep(entries, CHANGED_MESSAGES + 5, "what", "whole")
    assert resume(entries, "what") == (CHANGED_MESSAGES + 5, "whole", [])
    assert resume(["text", *entries], "what") == resume([], "what") == NOTHING_KNOWN


def test_what_is_known_of_a_conversation_outlives_others_that_begin_as_it_does() -> None:
    first, second = (
        {"messages": [{"content": "x" * MIN_BYTES}, *[{"content": text}] * (CHANGED_MESSAGES + 1)]} for text in "ab"
    )
    others = [{"messages": [{"content": f"{number}" * MIN_BYTES}]} for number in range(5)]
    memory = RequestMemory(5 * HELD_FOR_BYTE * len(json.dumps(first)))
    dropped = read(memory, "a", first)["messages"]
    kept = read(memory, "a", second)["messages"]
    assert kept[0] is dropped[0]
    keep(kept, 2, "what", "state")
    for other in others[:3]:
        read(memory, "b", other)
    assert resume(kept, "what")[:2] == (2, "state")
    for other in others:
        read(memory, "c", other)
    assert resume(kept, "what")[:2] == (0, None)


def test_marks_that_move_on_leave_the_rest_of_the_conversation_known() -> None:
    memory, known = RequestMemory(MAX_BYTES), []
    for rounds in range(10, 16):
        opened = memory.open("a")
        assert opened is not None
        raw = WRITERS["/v1/messages"](make_conversation(rounds, 0), "m")
        known.append(opened.compare(raw) / len(raw))
        assert isinstance(parse_messages_body(raw, LIMITS_OF_LONG, opened), ParsedRequest)
        opened.remember()
    assert known[0] == 0
    assert min(known[1:]) > 0.6


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
        b'{"messages": [], "model": "m"}' + b" " * MIN_BYTES,
    ],
)
def test_a_body_that_is_short_or_not_valid_is_left_to_be_read_as_a_whole(raw: bytes) -> None:
    opened = RequestMemory(MAX_BYTES).open("a")
    assert opened is not None
    assert opened.read_object(raw) is None


def test_an_entry_is_an_object_like_any_other() -> None:
    entry = FirstEntry({"a": [1]})
    assert entry == {"a": [1]}
    assert json.dumps(entry) == '{"a": [1]}'
    assert type(entry.copy()) is dict


def test_a_conversation_may_have_the_word_that_stands_in_its_place() -> None:
    memory = RequestMemory(MAX_BYTES)
    turns = [{"role": "user", "content": "the entries that are known"}, "the entries that are known"]
    for number in range(4):
        body = {"messages": [FILL, *turns * number], "x": turns}
        assert read(memory, "a", body) == body


def test_a_body_whose_conversation_cannot_be_found_is_read_as_a_whole() -> None:
    memory = RequestMemory(MAX_BYTES)
    written = json.dumps(LONG).replace('"messages"', '"mess\\u0061ges"').encode()
    for _ in range(3):
        opened = memory.open("a")
        assert opened is not None
        assert opened.compare(written) == 0
        assert opened.read_object(written) == LONG
        opened.remember()


def test_a_request_whose_marks_were_found_takes_as_much_memory_as_any_other() -> None:
    raw = json.dumps({**LONG, "tools": ["a", {"name": "b"}]}).encode()
    sizes = []
    for finds_marks in (False, True):
        memory = RequestMemory(MAX_BYTES)
        opened = memory.open("a")
        assert opened is not None
        if finds_marks:
            assert len(opened.find_marks(raw)) == sum(map(raw.count, (b",", b"{", b"[")))
        assert opened.read_object(raw) == json.loads(raw)
        opened.remember()
        found, _ = memory.find("a", raw)
        assert found is not None
        sizes.append(found.size)
    assert sizes[0] == sizes[1] > HELD_FOR_BYTE * len(raw)


def test_the_values_of_a_continued_request_are_bounded() -> None:
    memory = RequestMemory(MAX_BYTES)
    read(memory, "a", {**LONG, "tools": [{"name": "a"}]})
    raw = json.dumps({"messages": [*LONG["messages"], {"content": ["y"]}], "tools": [{"name": "b"}]}).encode()
    opened = memory.open("a")
    assert opened is not None
    assert opened.compare(raw) > 0
    assert opened.max_values(raw) >= raw.count(b"{")
    assert opened.max_values(raw) <= 2 * (raw.count(b"{") + raw.count(b",") + raw.count(b"["))


def test_what_is_invalid_after_a_known_beginning_is_refused_as_in_the_whole() -> None:
    memory = RequestMemory(MAX_BYTES)
    valid: dict[str, Any] = {"model": "m", "messages": [FILL, *[{"role": "user", "content": "x"}] * 20]}
    for body in (valid, {**valid, "messages": [*valid["messages"], {"role": "nobody", "content": 7}]}):
        raw = json.dumps(body).encode()
        with_memory = parse_and_remember("/v1/chat/completions", raw, memory)
        without = parse_completions_body(raw, LIMITS)
        assert describe(with_memory) == describe(without)
    assert isinstance(with_memory, RejectedRequest)


def test_a_request_that_is_not_remembered_has_plain_objects() -> None:
    memory = RequestMemory(8 * 1024 * 1024)
    dense = {"role": "user", "content": [{}] * MIN_BYTES}
    given = {
        "messages": [dense, {"role": "user", "content": "x"}, "y"],
        "model": "m",
        "tools": [{"name": "a"}, {"b": 1}],
    }
    body = read(memory, "a", given)
    assert body == given
    assert {type(one) for one in (*body["messages"][:2], *body["tools"])} == {dict}


def test_a_refused_request_leaves_nothing_behind() -> None:
    memory, entries = RequestMemory(MAX_BYTES), [FILL, *[{"role": "user", "content": "x"}] * 20]
    raw = json.dumps({"model": "m", "messages": entries, "temperature": "hot"}).encode()
    for _ in range(2):
        assert isinstance(parse_and_remember("/v1/chat/completions", raw, memory), RejectedRequest)
        assert memory.find("a", raw) == (None, 0)


def test_what_was_known_before_a_refused_request_is_known_after_it() -> None:
    memory = RequestMemory(MAX_BYTES)
    entries = [FILL, *[{"role": "user", "content": f"{number}"} for number in range(20)]]
    parse_and_remember("/v1/messages", json.dumps(write_messages(entries)).encode(), memory)
    known = read_first_states(memory)
    for number in range(3 * MAX_STATES):
        more = [{"role": "user", "content": f"more {number}"}] * (number + 1)
        raw = json.dumps(write_messages([*entries, *more], temperature="hot")).encode()
        assert isinstance(parse_and_remember("/v1/messages", raw, memory), RejectedRequest)
    assert known and read_first_states(memory) == known


def write_messages(entries: list[Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": entries, **fields}


def read_first_states(memory: RequestMemory) -> dict[Any, list[int]]:
    """Return the states of the only request of a caller, by what they were kept for, as the ids of the objects."""
    [request] = memory._requests["a"].values()
    return {what: [id(kept) for kept in states] for what, states in request.entries[0].found.items()}


def test_a_refused_request_is_freed_without_the_garbage_collector() -> None:
    memory, entries = RequestMemory(MAX_BYTES), [FILL, *[{"role": "user", "content": "x"}] * 20]
    raw = json.dumps(write_messages(entries, temperature="hot")).encode()
    parse_and_remember("/v1/messages", raw, memory)
    gc.collect()
    gc.disable()
    try:
        parse_and_remember("/v1/messages", raw, memory)
        assert gc.collect() < 20  # it has more messages than that
    finally:
        gc.enable()


class Broken(RememberedRequest):
    """What is remembered is of no use."""

    def __init__(self, request: RememberedRequest, method: str) -> None:
        super().__init__(request.raw, request.field, {request.field: request.entries})
        self.method = method

    def find_places(self) -> Any:
        self._fail("find_places")
        return super().find_places()

    def read_after(self, count: int, raw: bytes) -> Any:
        self._fail("read_after")
        return super().read_after(count, raw)

    def _fail(self, method: str) -> None:
        if method == self.method:
            raise KeyError(f"content of the body in {method}")


@pytest.mark.parametrize("method", ["find_places", "read_after"])
def test_a_body_is_read_as_a_whole_where_what_is_remembered_cannot_be_used(method: str) -> None:
    failures: list[Exception] = []
    memory = RequestMemory(MAX_BYTES, report=failures.append)
    read(memory, "a", LONG)
    [request] = memory._requests["a"].values()
    memory.remove("a", request)
    memory.add("a", Broken(request, method))
    longer = {"messages": [*LONG["messages"], {"role": "user", "content": "y"}]}

    assert read(memory, "a", longer) == longer
    assert [type(error) for error in failures] == [KeyError]
    [other] = memory._requests["a"].values()
    assert type(other) is RememberedRequest
    assert read(memory, "a", longer)["messages"][1] is other.entries[1]
    assert len(failures) == 1


MUTATED = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 3),
        st.sampled_from(
            [
                *(b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 30, b"9" * 5000, b"01", b"1.", b"\\ud800", b"\\udc00"),
                *(
                    b"\xff",
                    b"\xed\xa0\x80",
                    b"\xef\xbb\xbf",
                    b"\x00",
                    b"\x01",
                    b"\\x",
                    b"\\u12",
                    b"[",
                    b"]",
                    b"{",
                    b"}",
                ),
                *(b",", b":", b'"', b'"a":1,', b'"messages":[],', b"[" * 210 + b"]" * 210, b"\n ", b"\xc2\xa0", b""),
            ]
        ),
    ),
    max_size=3,
)
"""Where something is put, how many bytes it replaces, and what it is."""


@examples(60)
@given(changes=MUTATED)
def test_a_body_that_goes_on_is_read_or_refused_as_a_whole_one(changes: list[tuple[int, int, bytes]]) -> None:
    memory = RequestMemory(MAX_BYTES)
    tools = [{"name": "f", "parameters": {"x": 1.5}}]
    read(memory, "a", {**LONG, "tools": tools})
    raw = json.dumps({"messages": [*LONG["messages"], {"content": ["y", {"z": None}]}], "tools": tools}).encode()
    start = raw.index(b'"x"}')
    for place, size, text in changes:
        at = start + place % (len(raw) - start)
        raw = raw[:at] + text + raw[at + size :]

    assert read_or_refuse(raw, memory.open("a")) == read_or_refuse(raw, None)


def read_or_refuse(raw: bytes, opened: CallerMemory | None) -> str:
    try:
        return repr(parse_object(raw, opened))
    except ParleyError as error:
        return repr(error.to_dict("r"))


@pytest.mark.parametrize("place", ["messages", "tools", "x"])
def test_an_entry_may_be_nested_as_deeply_as_in_a_whole_body(place: str) -> None:
    memory = RequestMemory(MAX_BYTES)
    read(memory, "a", LONG)
    found = set()
    for depth in range(190, 205):
        nested = b"[" * depth + b"]" * depth
        entry = b',{"x":%b}' % nested if place == "messages" else b""
        other = b',"%b":%b' % (place.encode(), nested) if place != "messages" else b""
        raw = json.dumps(LONG).encode()[:-2] + entry + b"]" + other + b"}"
        assert read_or_refuse(raw, memory.open("a")) == read_or_refuse(raw, None)
        found.add("nested too deeply" in read_or_refuse(raw, None))
    assert found == {True, False}
