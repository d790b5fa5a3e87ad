"""Compressed bodies: asked not to, some proxies compress all the same."""

import zlib
from typing import Protocol


class Inflater(Protocol):
    def feed(self, data: bytes) -> bytes:
        """Raises ValueError for bytes that are not what the header said."""


class Identity:
    def feed(self, data: bytes) -> bytes:
        return data


class Zlib:
    """gzip and deflate, with zlib's own frame or without; several gzip members in a row."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self._first = True

    def feed(self, data: bytes) -> bytes:
        out = b""
        while data:
            try:
                out += self._inflate.decompress(data)
            except zlib.error as error:
                if not self._first:
                    raise ValueError(f"a broken compressed body: {error}") from None
                self._first = False
                self._inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
                continue
            self._first = False
            if not self._inflate.eof:
                break
            data = self._inflate.unused_data
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        return out


def inflater(encoding: str | None) -> Inflater:
    """What undoes a Content-Encoding. Raises ValueError for one that is not known."""
    name = (encoding or "identity").strip().lower()
    if name in ("identity", ""):
        return Identity()
    if name in ("gzip", "x-gzip", "deflate"):
        return Zlib()
    raise ValueError(f"a body in the encoding {name!r}, which was not asked for")
