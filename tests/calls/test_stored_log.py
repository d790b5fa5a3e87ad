"""A reply that has ended is packed as its entry, and read again from it."""

from typing import Any

import pytest
from app.calls.entry import LARGE_ENTRY, Batch, StoredEntry, dump, load
from app.calls.log import ReplyLog, events_size
from app.calls.stored_log import StoredLog
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

from tests.cache.fake_calls import FakeCaller
from tests.cache.manual_clock import Listener, run
from tests.cache.replies_of_modes import WAYS, send_reply
from tests.each_case import each_case

FAULT = Fault("upstream_incomplete", "the model server broke off", True, detail={"a": [1]})
REPLIES: dict[str, list[list[Event]]] = {
    "words": [[ReasoningDelta("hm")], [], [TextDelta("Hello"), TextDelta("no", True)], [Finish("stop", {"n": 1})]],
    "call": [[ToolCallDelta(0, "{", "id", "f")], [ToolCallDelta(0, "}"), Extra({"k": [1]}, 0)], [Finish("tool_calls")]],
    "media": [[MediaOutput("image", "data:,x", {"id": "1"})], [Finish("stop", None, "eos", ("a warning",), False)]],
    "failure": [[TextDelta("Hel")], [Failed(FAULT)]],
}


def log_of(reply: list[list[Event]], finished_at: float | None = 5.0) -> ReplyLog:
    log = ReplyLog()
    for number, events in enumerate(reply):
        log.append(float(number), [events])
    log.finished_at = finished_at
    log.end()
    return log


@pytest.mark.parametrize("name", REPLIES)
def test_what_is_packed_is_read_again_event_by_event(name: str) -> None:
    async def scenario(_: Any) -> None:
        packed = log_of(REPLIES[name]).pack()
        assert packed is not None
        caller = FakeCaller()
        caller.listen(StoredLog(load(packed), cached=False).add_reader())
        assert caller.batches == REPLIES[name]

    run(scenario)


def test_a_reply_that_cannot_be_packed_stays_as_it_is() -> None:
    crashed = log_of(REPLIES["words"])
    crashed.defect = ValueError()
    too_large_a_number: list[list[Event]] = [[Finish("stop", {"n": 1 << 70})]]
    large = log_of(REPLIES["words"])
    large.size = LARGE_ENTRY + 1
    assert crashed.pack() is None
    assert log_of([]).pack() is None
    assert large.pack() is None
    assert log_of(too_large_a_number).pack() is None


ENTRY = StoredEntry(5.0, [Batch(0.0, [TextDelta("Hi")]), Batch(1.0, [Finish("stop", {"n": 1})])])


@each_case("data", [None, dump(ENTRY)])
def test_a_stored_reply_is_read_with_its_usage_marked_and_packed_as_it_was_stored(data: bytes | None) -> None:
    async def scenario(_: Any) -> None:
        stored = StoredLog(ENTRY, data=data)
        caller = FakeCaller()
        caller.listen(await stored.open())
        assert caller.batches[-1] == [Finish("stop", {"n": 1, "cached": True})]
        assert stored.pack() == dump(ENTRY)

    run(scenario)


def test_a_stored_reply_is_read_at_the_original_pace_but_resumed_at_once() -> None:
    async def scenario(loop: Any) -> None:
        stored = StoredLog(ENTRY, data=dump(ENTRY), pace="original")
        slow, fast = Listener(), Listener()
        stored.add_reader("original").start(slow)
        (await stored.open()).start(fast)
        assert fast.ended.is_set() and not slow.ended.is_set()
        await slow.ended.wait()
        assert slow.at == pytest.approx([100.0, 101.0], abs=0.002)
        assert slow.received == fast.received

    run(scenario)


def test_any_number_of_readers_read_a_stored_reply() -> None:
    async def scenario(_: Any) -> None:
        stored = StoredLog(ENTRY)
        listeners = [Listener() for _ in range(3)]
        for listener in listeners:
            stored.add_reader().start(listener)
        assert listeners[0].ended.is_set()
        assert listeners[0].received == listeners[1].received == listeners[2].received

    run(scenario)


def test_a_large_stored_reply_and_one_that_cannot_be_encoded_are_not_packed() -> None:
    large = StoredLog(ENTRY)
    large.size = LARGE_ENTRY + 1
    assert large.pack() is None
    assert StoredLog(StoredEntry(5.0, [Batch(0.0, [Finish("stop", {"n": 1 << 70})])])).pack() is None


@each_case("data", [None, dump(ENTRY)])
def test_the_size_of_a_stored_reply_counts_its_events_and_texts(data: bytes | None) -> None:
    words = StoredEntry(5.0, [Batch(0.0, [TextDelta("x" * 1000)] * 10), *ENTRY.batches])
    exact = sum(events_size(batch.events) for batch in words.batches)
    assert StoredLog(words, data=data and dump(words)).size == pytest.approx(exact, rel=0.1)


def test_a_stored_reply_is_not_changed_by_those_who_read_it() -> None:
    opaque = {"reasoning_details": [{"data": "s"}], "annotations": [{"url_citation": {"url": "u"}}]}
    batches: list[Batch] = [
        Batch(0.0, [ReasoningDelta("a"), ReasoningDelta("b"), Extra(opaque)]),
        Batch(0.0, [TextDelta("c"), Extra(opaque), Extra({"extra_content": {"google": {"k": ["v"]}}})]),
        Batch(0.0, [MediaOutput("audio", "data:,x", {"id": "1", "transcript": "t"})]),
        Batch(0.0, [ToolCallDelta(0, '{"a": ', "id", "f"), Extra({"extra_content": {"k": ["v"]}}, 0)]),
        Batch(0.0, [ToolCallDelta(0, "[1]"), ToolCallDelta(0, "}")]),
        Batch(0.0, [Finish("tool_calls", {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}})]),
    ]
    before = dump(StoredEntry(5.0, batches))

    async def scenario(_: Any) -> None:
        stored = StoredLog(StoredEntry(5.0, batches))
        for form, mode in WAYS:
            first = await send_reply(stored.add_reader(), form, mode)
            assert await send_reply(stored.add_reader(), form, mode) == first, (form.name, mode)
        assert dump(StoredEntry(5.0, batches)) == before

    run(scenario)
