"""Entries of the cache: what went in comes out, and nothing else is ever read as a reply."""

import hashlib
import threading

import msgspec
import pytest
import zstandard
from app.calls.entry import (
    LARGE_ENTRY,
    MAX_REPLY_BYTES,
    VERSION,
    Batch,
    CorruptEntry,
    NotEncodable,
    StoredEntry,
    dump,
    load,
    plain_size,
)
from app.calls.log import EntryEncoder, LogLimits, ReplyLog
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.entries import ENTRIES, built
from tests.each_case import each_case

SHORT = StoredEntry(1.7e9, [Batch(0.25, [TextDelta("Hello")]), Batch(0.5, [Finish("stop", {"total_tokens": 3})])])


@given(ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: StoredEntry) -> None:
    assert load(dump(entry)) == entry


def test_an_entry_with_any_byte_changed_is_damaged() -> None:
    data = dump(SHORT)
    for place in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            with pytest.raises(CorruptEntry):
                load(bytes(broken))


@given(ENTRIES, st.data())
def test_an_entry_with_any_bit_flipped_or_any_cut_is_damaged(entry: StoredEntry, data: st.DataObject) -> None:
    whole = dump(entry)
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    for broken in (bytes(flipped), whole[:place], whole + whole[: place + 1]):
        with pytest.raises(CorruptEntry):
            load(broken)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_entry_are_damaged(data: bytes) -> None:
    for body in (data, bytes((VERSION,)) + data):
        with pytest.raises(CorruptEntry):
            load(body)


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1, 255])
def test_an_entry_of_another_version_is_damaged(version: int) -> None:
    with pytest.raises(CorruptEntry, match="version"):
        load(bytes((version,)) + dump(SHORT)[1:])


def _sealed(packed: bytes) -> bytes:
    """Bytes whose checksum is right, as one would write them who knows how."""
    return bytes((VERSION,)) + hashlib.blake2b(packed, digest_size=16, person=b"parley-entry").digest() + packed


def test_a_seal_alone_makes_no_entry() -> None:
    assert load(_sealed(zstandard.compress(msgspec.msgpack.encode(SHORT)))) == SHORT
    deep = b"\x91" * 100_000 + b"\xc0"
    extra = b"\x92\xcb" + bytes(8) + b"\x91\x92\xcb" + bytes(8) + b"\x91\x82\xa4kind\xa5extra\xa6fields\x81\xa1a" + deep
    for plain in (b"", b"\xc1", msgspec.msgpack.encode([1.0, [[0.0, [{"kind": "no such"}]]]]), deep, extra):
        with pytest.raises(CorruptEntry):
            load(_sealed(zstandard.compress(plain)))
    for packed in (b"", b"no frame", zstandard.compress(b"x")[:-1]):
        with pytest.raises(CorruptEntry):
            load(_sealed(packed))


def test_what_would_unpack_to_more_than_an_entry_has_is_not_unpacked() -> None:
    huge = zstandard.compress(bytes(MAX_REPLY_BYTES + 1))
    with pytest.raises(CorruptEntry, match="its declared size"):
        load(_sealed(huge))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"\x00" * 10)
    with pytest.raises(CorruptEntry, match="its declared size"):
        load(_sealed(unsized))


def test_a_number_that_cannot_be_kept_exactly_is_refused() -> None:
    with pytest.raises(NotEncodable):
        dump(StoredEntry(0.0, [Batch(0.0, [Finish("stop", {"total_tokens": 2**70})])]))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(NotEncodable):
        dump(StoredEntry(0.0, [Batch(0.0, [TextDelta("\ud800")])]))


def test_a_reply_above_the_limit_is_refused() -> None:
    with pytest.raises(NotEncodable, match="at most 10 can be stored"):
        dump(SHORT, max_bytes=10)


def test_threads_do_not_disturb_each_other() -> None:
    entries = [StoredEntry(float(n), [Batch(0.0, [TextDelta(f"{n} " * 2000)])]) for n in range(4)]
    wrong: list[StoredEntry] = []

    def turn(entry: StoredEntry) -> None:
        wrong.extend(entry for _ in range(50) if load(dump(entry)) != entry)

    threads = [threading.Thread(target=turn, args=(entry,)) for entry in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_size_of_an_entry_is_that_of_its_events() -> None:
    small, large = (dump(StoredEntry(1.7e9, [Batch(0.0, [TextDelta("a" * size)])])) for size in (10, 10_000))
    assert 10_000 < plain_size(large) < plain_size(small) + 10_000
    assert len(large) < 1_000


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
