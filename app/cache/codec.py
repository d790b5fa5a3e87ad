"""Encode a finished reply for a store: a version byte, a checksum, and zstd-compressed msgpack.

Bytes that are damaged, or that another version wrote, are never decoded as a reply.
"""

import hashlib
import threading
from collections.abc import Iterable
from itertools import chain

import msgspec
import zstandard

from app.chat.accumulator import is_json
from app.chat.events import Event, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

VERSION = 2
"""Increased whenever the events or this format change; older entries are then misses."""
LARGE_ENTRY = 256 * 1024
"""A log of more than this many bytes is encoded in a thread, or not at all."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The limit before compression. A larger reply is not written, and an entry that declares more is not unpacked."""

_CONTENT_TYPES = {TextDelta, ReasoningDelta, MediaOutput}
_CHECKSUM_BYTES = 16
_HEAD_BYTES = 1 + _CHECKSUM_BYTES
_LEVEL = -1
"""Replies become a twentieth larger than with level 3, in a third of the time."""


class CorruptEntry(Exception):
    """The bytes are not an entry of this version, or are damaged."""


class NotEncodable(ValueError):
    """The reply cannot be encoded exactly, or is too large."""


class Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one socket read."""

    at: float
    """Seconds since the request was sent to the model server."""
    events: list[Event]


class StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    created: float
    """Unix seconds."""
    batches: list[Batch]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredEntry).decode


class _Zstd(threading.local):
    """Compression contexts: costly to create, and usable by one thread at a time."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def dump(entry: StoredEntry, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """Encode an entry. Raises NotEncodable."""
    try:
        plain = _encode(entry)
    except (OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise NotEncodable(f"the reply holds a value that msgpack cannot encode: {error}") from None
    if len(plain) > max_bytes:
        raise NotEncodable(f"the reply has {len(plain)} bytes; at most {max_bytes} can be stored")
    packed = _zstd.compress(plain)
    return bytes((VERSION,)) + _checksum(packed) + packed


def load(data: bytes) -> StoredEntry:
    """Decode an entry. Raises CorruptEntry."""
    if not data or data[0] != VERSION:
        raise CorruptEntry("another version wrote it")
    packed = data[_HEAD_BYTES:]
    if data[1:_HEAD_BYTES] != _checksum(packed):
        raise CorruptEntry("its checksum is wrong")
    try:
        return _decode(_decompress(packed))
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptEntry(str(error)) from None


def plain_size(data: bytes) -> int:
    """Return the size of an entry before compression, which is about that of its events."""
    return int(zstandard.frame_content_size(data[_HEAD_BYTES:]))


def _decompress(packed: bytes) -> bytes:
    """Check the declared size before unpacking, because zstd ignores `max_output_size` when a frame declares one."""
    size = zstandard.frame_content_size(packed)
    if not 0 <= size <= MAX_REPLY_BYTES:
        raise CorruptEntry(f"its declared size is not between 0 and {MAX_REPLY_BYTES} bytes")
    return _zstd.decompress(packed, max_output_size=MAX_REPLY_BYTES, allow_extra_data=False)


def _checksum(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_CHECKSUM_BYTES, person=b"parley-entry").digest()


def is_cacheable(batches: Iterable[Batch], *, length: bool) -> bool:
    """Whether a reply may be stored: it ended normally, is not empty, and the arguments of all its calls are JSON.

    With `length`, a reply that ended at the token limit may be stored too.
    """
    events = list(chain.from_iterable([batch.events for batch in batches]))
    last = events[-1] if events else None
    if type(last) is not Finish or not last.cacheable or not _ended_normally(last, length):
        return False
    kinds = set(map(type, events))
    if ToolCallDelta not in kinds:
        return not kinds.isdisjoint(_CONTENT_TYPES)
    calls: dict[int, list[str]] = {}
    for event in events:
        if type(event) is ToolCallDelta:
            calls.setdefault(event.index, []).append(event.arguments)
    return all(is_json("".join(fragments)) for fragments in calls.values())


def _ended_normally(finish: Finish, length: bool) -> bool:
    return finish.reason in ("stop", "tool_calls") or (length and finish.reason == "length")
