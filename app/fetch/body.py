"""A body that somebody else's server sends, held to a number of bytes, before and after inflating."""

import zlib

import httpx

from app.errors import MediaRefused, TooLarge


async def collected(response: httpx.Response, max_bytes: int) -> bytes:
    """Raises TooLarge as soon as it is known, MediaRefused for an encoding that was not asked for."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise MediaRefused(f"is sent in the encoding {encoding[:40]!r}, which was not asked for")
    body = bytearray()
    inflate = None if encoding in ("identity", "") else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    async for data in response.aiter_raw():
        body += data if inflate is None else _inflated(inflate, data, max_bytes - len(body) + 1)
        if len(body) > max_bytes:
            raise TooLarge(f"is larger than {max_bytes} bytes")
    if inflate is not None and not inflate.eof:
        raise MediaRefused("its compressed body is broken")
    return bytes(body)


def _inflated(inflate: "zlib._Decompress", data: bytes, at_most: int) -> bytes:
    try:
        return inflate.decompress(data, at_most)
    except zlib.error:
        raise MediaRefused("its compressed body is broken") from None
