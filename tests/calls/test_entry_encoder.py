"""A reply that is gathered while it arrives is the same entry as one that is encoded at its end."""

import pytest
from app.calls.entry import LARGE_ENTRY, MAX_REPLY_BYTES, Batch, EntryEncoder, NotEncodable, StoredEntry, dump, load
from app.calls.log import LogLimits, ReplyLog
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import given

from tests.cache.entries import ENTRIES, built
from tests.each_case import each_case


@given(ENTRIES)
def test_it_is_the_entry_that_is_encoded_at_once(entry: StoredEntry) -> None:
    data = built(entry.batches).finish(entry.created)
    assert data is not None and load(data) == entry == load(dump(entry))


@each_case("count", [0, 15, 16, 70_000])
def test_a_reply_has_any_number_of_batches(count: int) -> None:
    entry = StoredEntry(1.7e9, [Batch(0.5, []) for _ in range(count)])
    data = built(entry.batches).finish(entry.created)
    assert data is not None and load(data) == entry


UNENCODABLE: list[Event] = [TextDelta("\ud800"), Finish("stop", {"total_tokens": 2**70})]


@each_case("event", UNENCODABLE)
def test_what_cannot_be_encoded_is_left_to_the_end(event: Event) -> None:
    encoder = built([Batch(0.0, [TextDelta("Hi")]), Batch(0.0, [event]), Batch(0.0, [Finish("stop")])])
    assert encoder.finish(1.0) is None
    assert encoder.is_cacheable(length=False)


def test_a_large_reply_is_left_to_the_end() -> None:
    batch = Batch(0.0, [TextDelta("a")])
    encoder = EntryEncoder()
    encoder.add(batch, LARGE_ENTRY)
    assert encoder.finish(1.0) is not None
    encoder.add(batch, LARGE_ENTRY + 1)
    assert encoder.finish(1.0) is None


def test_a_reply_whose_other_fields_are_too_large_is_refused() -> None:
    """Its size is that of its texts alone."""
    encoder = built([Batch(0.0, [Extra({"citations": "a" * MAX_REPLY_BYTES})]), Batch(0.0, [Finish("stop")])])
    with pytest.raises(NotEncodable, match=f"at most {MAX_REPLY_BYTES} can be stored"):
        encoder.finish(1.0)


def test_a_log_that_lost_its_start_is_not_cacheable() -> None:
    log = ReplyLog(limits=LogLimits(max_bytes=300))
    for event in (TextDelta("a" * 100), TextDelta("b" * 100), Finish("stop")):
        log.append(0.0, [[event]])
    assert log.truncated and not log.is_cacheable(length=True)


@pytest.mark.parametrize("text", ["short", "a" * LARGE_ENTRY])
def test_a_log_is_encoded_however_large_it_is(text: str) -> None:
    log = ReplyLog()
    batches: list[list[Event]] = [[TextDelta(text)], [MediaOutput("image", "data:,x")], [Finish("stop")]]
    log.append(0.5, batches)
    log.finished_at = 5.0
    assert load(log.dump()) == StoredEntry(5.0, [Batch(0.5, events) for events in batches])


CALL = ToolCallDelta(0, '{"a":', "c1", "f")
REST = ToolCallDelta(0, "1}")
STORABLE: dict[str, tuple[list[Event], bool, bool]] = {
    # events, storable, storable where ends at the token limit are
    "text": ([TextDelta("Hi"), Finish("stop")], True, True),
    "a thought alone": ([ReasoningDelta("Hm"), Finish("stop")], True, True),
    "a call": ([CALL, REST, Finish("tool_calls")], True, True),
    "a call whose server says stop": ([CALL, REST, Finish("stop")], True, True),
    "two calls in turns": ([CALL, ToolCallDelta(1, "{}", "c2", "g"), REST, Finish("tool_calls")], True, True),
    "broken arguments": ([CALL, Finish("tool_calls")], False, False),
    "one of two calls broken": ([CALL, REST, ToolCallDelta(1, "{", "c2", "g"), Finish("tool_calls")], False, False),
    "no arguments": ([ToolCallDelta(0, "", "c1", "f"), Finish("tool_calls")], False, False),
    "the token limit": ([TextDelta("Hi"), Finish("length")], False, True),
    "a call at the token limit": ([CALL, Finish("length")], False, False),
    "filtered": ([TextDelta("Hi"), Finish("content_filter")], False, False),
    "failed": ([TextDelta("Hi"), Failed(Fault("upstream_incomplete", "cut", True))], False, False),
    "no end": ([TextDelta("Hi")], False, False),
    "nothing said": ([Finish("stop")], False, False),
    "nothing at all": ([], False, False),
    "something behind the end": ([TextDelta("Hi"), Finish("stop"), TextDelta("!")], False, False),
}


@each_case("name", STORABLE)
def test_only_whole_replies_are_storable(name: str) -> None:
    events, plain, with_length = STORABLE[name]
    for batches in ([Batch(0.0, events)], [Batch(0.0, [event]) for event in events]):
        assert built(batches).is_cacheable(length=False) is plain
        assert built(batches).is_cacheable(length=True) is with_length
