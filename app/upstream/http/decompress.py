"""Compressed bodies: asked not to, some proxies compress all the same."""

import zlib
from typing import Protocol

PLAIN = ("", "identity", "none", "utf-8")
"""Headers that name no compression, right or wrong."""

_GZIP_OR_ZLIB, _BARE = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS


class Decompressor(Protocol):
    def feed(self, data: bytes) -> bytes:
        """Raises ValueError for bytes that are not what the header said."""


class IdentityDecompressor:
    def feed(self, data: bytes) -> bytes:
        return data


MAX_INFLATED = 8 * 1024 * 1024
"""What one read of a socket may expand to: text shrinks to a tenth, a bomb to a thousandth."""


MAX_MEMBERS = 256
"""Of gzip in one read of a socket; what follows each of them is copied."""


class ZlibDecompressor:
    """gzip and deflate, with zlib's own frame or without; several gzip members in a row.

    Which of them it is shows in the first two bytes, so that one byte alone is held.
    """

    def __init__(self) -> None:
        self._head = b""
        self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)

    def feed(self, data: bytes) -> bytes:
        if len(self._head) < 2:
            data = self._head + data
            self._head = data[:2]
            if len(data) < 2:
                return b""
            self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB if _has_header(data) else _BARE)
        try:
            return self._decompress(data)
        except zlib.error as error:
            raise ValueError(f"a broken compressed body: {error}") from None

    def _decompress(self, data: bytes) -> bytes:
        out = self._decompress_limited(data, MAX_INFLATED)
        members = 0
        while self._inflate.eof and self._inflate.unused_data:
            members += 1
            if members > MAX_MEMBERS:
                raise ValueError("a compressed body of too many small pieces")
            data = self._inflate.unused_data
            self._inflate = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
            out += self._decompress_limited(data, MAX_INFLATED - len(out))
        return out

    def _decompress_limited(self, data: bytes, room: int) -> bytes:
        out = self._inflate.decompress(data, max(room, 1))
        if self._inflate.unconsumed_tail or room < 1:
            raise ValueError("a compressed body that expands too far")
        return out


def _has_header(data: bytes) -> bool:
    """Whether the data begins with the header of gzip (RFC 1952) or of zlib (RFC 1950)."""
    return data[:2] == b"\x1f\x8b" or (data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0)


def decompressor_for(encoding: str | None) -> Decompressor:
    """What undoes a Content-Encoding. Raises ValueError for one that is not known."""
    name = (encoding or "").strip().lower()
    if name in PLAIN:
        return IdentityDecompressor()
    if name in ("gzip", "x-gzip", "deflate"):
        return ZlibDecompressor()
    raise ValueError(f"a body in the encoding {name!r}, which was not asked for")
