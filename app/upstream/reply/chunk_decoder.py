"""Decode one JSON value of a reply into a typed chunk.

The strict decoder accepts what nearly all servers send and takes about a microsecond. What it refuses (a list of
content parts, an object for arguments, NaN, invalid UTF-8, half a surrogate pair) is decoded again by the lenient one.
"""

import json

import msgspec

from app.upstream.reply.chunk import MAX_NESTING, Chunk, is_too_deep
from app.upstream.reply.lenient_chunk import decode_leniently

_strict = msgspec.json.Decoder(Chunk).decode


def decode(data: bytes) -> Chunk | None:
    """Decode a chunk; None for JSON that is not an object (a number, `null`).

    Raises ValueError when `data` is not one whole JSON value, or is nested too deeply.
    """
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        return _strict(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    chunk = decode_leniently(json.loads(data.decode("utf-8", "replace"), parse_int=_integer))
    if chunk is not None:
        chunk.ragged = b"\\ud" in data.lower()
    return chunk


def _integer(digits: str) -> int:
    return int(digits) if len(digits) < 20 else 0
