"""A finished reply as the bytes that a store keeps: a version, a checksum, and zstd over msgpack.

Bytes that are damaged in any way, or that another version wrote, are never read as a reply.
"""

import hashlib
import threading
from collections.abc import Iterable

import msgspec
import zstandard

from app.chat.accumulator import is_json
from app.chat.events import Event, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

VERSION = 2
"""Raised whenever the events or the form below change: older entries are then misses."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Before compression. More is neither written nor, whatever an entry claims of itself, unpacked."""

_CHECKSUM_BYTES = 16
_HEAD_BYTES = 1 + _CHECKSUM_BYTES
_LEVEL = 3


class CorruptEntry(Exception):
    """These bytes are no entry that this version wrote."""


class NotEncodable(ValueError):
    """A reply that an entry cannot say exactly, or that is too large for one."""


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """What one read brought."""

    at: float
    """Seconds since the request went out to the model server."""
    events: list[Event]


class StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    created: float
    """Unix seconds."""
    batches: list[Batch]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredEntry).decode


class _Zstd(threading.local):
    """Contexts are costly to make, and each may be used by one thread at a time."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def dump(entry: StoredEntry) -> bytes:
    """Raises Unstorable."""
    try:
        plain = _encode(entry)
    except (OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise NotEncodable(f"the reply holds what msgpack cannot say: {error}") from None
    if len(plain) > MAX_REPLY_BYTES:
        raise NotEncodable(f"the reply has more than {MAX_REPLY_BYTES} bytes")
    packed = _zstd.compress(plain)
    return bytes((VERSION,)) + _checksum(packed) + packed


def load(data: bytes) -> StoredEntry:
    """Raises Damaged."""
    if not data or data[0] != VERSION:
        raise CorruptEntry("another version wrote it")
    packed = data[_HEAD_BYTES:]
    if data[1:_HEAD_BYTES] != _checksum(packed):
        raise CorruptEntry("its checksum is wrong")
    try:
        return _decode(_decompress(packed))
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptEntry(str(error)) from None


def _decompress(packed: bytes) -> bytes:
    """A frame that names its size is unpacked to that size whatever `max_output_size` says: it is asked first."""
    size = zstandard.frame_content_size(packed)
    if not 0 <= size <= MAX_REPLY_BYTES:
        raise CorruptEntry("it would unpack to more than any entry has")
    return _zstd.decompress(packed, max_output_size=MAX_REPLY_BYTES, allow_extra_data=False)


def _checksum(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_CHECKSUM_BYTES, person=b"parley-entry").digest()


def is_cacheable(batches: Iterable[Batch], *, length: bool) -> bool:
    """Whether a reply is whole: it came to its own end, says something, and all its calls can be made.

    `length`: one that ended at the token limit counts too.
    """
    last: Event | None = None
    said = False
    calls: dict[int, list[str]] = {}
    for batch in batches:
        for last in batch.events:
            if type(last) is ToolCallDelta:
                calls.setdefault(last.index, []).append(last.arguments)
            elif type(last) in (TextDelta, ReasoningDelta, MediaOutput):
                said = True
    if type(last) is not Finish or not last.cacheable or not _ended_normally(last, length):
        return False
    return (said or bool(calls)) and all(is_json("".join(pieces)) for pieces in calls.values())


def _ended_normally(finish: Finish, length: bool) -> bool:
    return finish.reason in ("stop", "tool_calls") or (length and finish.reason == "length")
