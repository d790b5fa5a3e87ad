"""Entries of the cache: what went in comes out, and nothing else is ever read as a reply."""

import hashlib
import threading

import msgspec
import pytest
import zstandard
from app.calls.entry import (
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
from app.chat.events import Finish, TextDelta
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.entries import ENTRIES

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
