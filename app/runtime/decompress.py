"""Decompress bodies, within limits: those of model servers, of which some compress although the request asks them not
to, and those of requests (Codex sends zstd when its user is signed in)."""

import zlib
from collections.abc import Iterator
from typing import Protocol

import zstandard

PLAIN = ("", "identity", "none", "utf-8")
"""Values of Content-Encoding that mean no compression; servers send `none` and `utf-8` although they are not valid."""

_GZIP_OR_ZLIB, _BARE = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS

MAX_INFLATED = 8 * 1024 * 1024
"""What one socket read may expand to. Text compresses to about a tenth of its size, a zip bomb to a thousandth."""

MAX_MEMBERS = 256
"""How many gzip members one socket read may hold: the data behind each member is copied."""


REQUEST_ENCODINGS = ("gzip", "deflate", "zstd")
"""What the body of a request may be compressed with."""
PIECE_BYTES = 1024 * 1024
"""The pieces in which the body of a request is decompressed."""
_SLICE_BYTES = 64 * 1024
_MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""The window that a decoder of zstd must offer in HTTP, and need not exceed (RFC 9659)."""


class ExpandsTooFar(ValueError):
    """The next bytes expand to more than the limit."""


class NotCompressed(ValueError):
    """The body does not begin like its encoding."""


class Decompressor(Protocol):
    @property
    def complete(self) -> bool:
        """Whether the body may end here."""

    def feed(self, data: bytes, max_bytes: int = MAX_INFLATED) -> bytes:
        """Decompress the next bytes. Raises ExpandsTooFar if they become more than `max_bytes`, and ValueError for
        bytes that are not in the declared encoding."""


class IdentityDecompressor:
    complete = True

    def feed(self, data: bytes, max_bytes: int = MAX_INFLATED) -> bytes:
        return data


class ZlibDecompressor:
    """Decompress gzip, including several members in a row, and deflate, with or without the zlib header.

    The first two bytes tell which one it is, so a single first byte is buffered.
    """

    def __init__(self, encoding: str = "deflate") -> None:
        self._encoding = encoding
        self._head = b""
        self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)

    @property
    def complete(self) -> bool:
        return self._inflate.eof

    def feed(self, data: bytes, max_bytes: int = MAX_INFLATED) -> bytes:
        if len(self._head) < 2:
            data = self._head + data
            self._head = data[:2]
            if len(data) < 2:
                return b""
            if self._encoding != "deflate" and not _has_header(data):
                name = self._encoding
                raise NotCompressed(f"a body that is not compressed, although its Content-Encoding is {name!r}")
            self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB if _has_header(data) else _BARE)
        try:
            return self._decompress(data, max_bytes)
        except zlib.error as error:
            raise ValueError(f"a body that cannot be decompressed: {error}") from None

    def _decompress(self, data: bytes, max_bytes: int) -> bytes:
        out = b""
        for _ in range(1 + MAX_MEMBERS):
            room = max_bytes - len(out)
            out += self._inflate.decompress(data, max(room, 1))
            if self._inflate.unconsumed_tail or room < 1:
                raise ExpandsTooFar(f"a compressed body that expands to more than {max_bytes} bytes in one read")
            data = self._inflate.unused_data
            if not data:
                return out
            self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        raise ValueError(f"a compressed body of more than {MAX_MEMBERS} gzip members in one read")


def _has_header(data: bytes) -> bool:
    """Whether the data begins with a gzip header (RFC 1952) or a zlib header (RFC 1950)."""
    return data[:2] == b"\x1f\x8b" or (data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0)


def decompressor_for(encoding: str | None) -> Decompressor:
    """Return a decompressor for a Content-Encoding. Raises ValueError for an unknown one."""
    name = (encoding or "").strip().lower()
    if name in PLAIN:
        return IdentityDecompressor()
    if name in ("gzip", "x-gzip", "deflate"):
        return ZlibDecompressor(name)
    raise ValueError(f"a body with Content-Encoding {name!r}; only identity, gzip and deflate can be read")


def decompress_pieces(data: bytes | bytearray, encoding: str) -> Iterator[bytes]:
    """Yield a whole body, compressed with one of REQUEST_ENCODINGS, in pieces of at most PIECE_BYTES.

    Raises ValueError for bytes that are not in this encoding. Of zstd that ends too early, what there is comes without
    an error; the JSON of a request is then not whole.
    """
    try:
        yield from _expand_zstd(data) if encoding == "zstd" else _inflate(data, encoding)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(f"it cannot be decompressed: {error}") from None


def _expand_zstd(data: bytes | bytearray) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    reader = decompressor.stream_reader(data, read_across_frames=True)
    while piece := reader.read(PIECE_BYTES):
        yield piece


def _inflate(data: bytes | bytearray, encoding: str) -> Iterator[bytes]:
    """Yield what gzip, with one or several members, or deflate expands to."""
    wbits = _GZIP_OR_ZLIB if len(data) > 1 and _has_header(bytes(data[:2])) else _BARE
    if wbits == _BARE and encoding == "gzip":
        raise ValueError("it does not begin like gzip")
    inflate, members = zlib.decompressobj(wbits=wbits), 1
    for start in range(0, len(data), _SLICE_BYTES):
        rest = bytes(data[start : start + _SLICE_BYTES])
        while rest:
            if inflate.eof:
                inflate, members = zlib.decompressobj(wbits=wbits), members + 1
                if members > MAX_MEMBERS:
                    raise ValueError(f"it has more than {MAX_MEMBERS} gzip members")
            if piece := inflate.decompress(rest, PIECE_BYTES):
                yield piece
            rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    while piece := inflate.decompress(b"", PIECE_BYTES):
        yield piece
    if not inflate.eof:
        raise ValueError("it ends too early")
