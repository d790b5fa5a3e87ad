"""The stored form of a reply: a version byte, a checksum, and zstd-compressed msgpack.

Bytes that are damaged, or that another version wrote, are never decoded as a reply.
"""

import hashlib
import threading

import msgspec
import zstandard

from app.chat.events import Event

VERSION = 4
"""Increased whenever the events or this format change; older entries are then misses."""
LARGE_ENTRY = 256 * 1024
"""A log of more than this many bytes is encoded at its end, in a thread, or not at all."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The limit before compression. A larger reply is not written, and an entry that declares more is not unpacked."""

_CHECKSUM_BYTES = 16
_HEAD_BYTES = 1 + _CHECKSUM_BYTES
_LEVEL = -1
"""Replies become a twentieth larger than with level 3, in a third of the time."""


class CorruptEntry(Exception):
    """The bytes are not an entry of this version, or are damaged."""


class NotEncodable(ValueError):
    """The reply cannot be encoded exactly, or is too large."""


UNENCODABLE = (OverflowError, RecursionError, UnicodeEncodeError)
"""What msgpack raises for a value that it cannot encode exactly."""


class Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one socket read."""

    at: float
    """Seconds since the request was sent to the model server."""
    events: list[Event]


class StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    created: float
    """Unix seconds."""
    batches: list[Batch]


_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
encode_into = _encoder.encode_into
_PAIR = b"\x92"
_ARRAY_32 = b"\xdd"
"""How msgpack announces an array of two items, and one whose length follows as four bytes."""
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
    except UNENCODABLE as error:
        raise NotEncodable(f"the reply holds a value that msgpack cannot encode: {error}") from None
    return _compress(plain, max_bytes)


def _compress(plain: bytes, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """Return the entry of a `StoredEntry` that msgpack has encoded. Raises NotEncodable if it is too large."""
    if len(plain) > max_bytes:
        raise NotEncodable(f"the reply has {len(plain)} bytes; at most {max_bytes} can be stored")
    packed = _zstd.compress(plain)
    return bytes((VERSION,)) + _checksum(packed) + packed


def finish_entry(created: float, batches: int, encoded: bytearray) -> bytes:
    """Return the entry of so many batches, which `encode_into` has written one after the other. Raises NotEncodable if
    it is too large."""
    return _compress(_PAIR + _encode(created) + _ARRAY_32 + batches.to_bytes(4, "big") + encoded)


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
