"""Decode the JSON values of a reply of the Gemini API: one chunk, or a list of chunks, as servers send them without
`alt=sse`."""

from typing import Any, TypeAlias

import msgspec

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep
from app.upstream.reply.odd_json import clean, load, read_as_object
from app.upstream.reply.surrogates import write_line

Json: TypeAlias = dict[str, Any]

_decode = msgspec.json.Decoder(Json | list[Json]).decode


class KeptChunk(dict[str, Any]):
    """A chunk and its JSON, in one line."""

    __slots__ = ("text",)

    text: str


def decode(data: bytes) -> list[Json]:
    """Decode one value into its chunks. Raises ValueError for anything else, and if it is nested too deeply."""
    return _decode_strictly(data) or _decode_odd(data)


def decode_kept(data: bytes) -> list[Json]:
    """Decode one value into its chunks, each a `KeptChunk`. Raises ValueError as `decode` does."""
    chunks = _decode_strictly(data)
    if chunks is not None and len(chunks) == 1 and data.lstrip()[:1] == b"{":
        return [_keep(chunks[0], write_line(data))]
    return [_keep(chunk, msgspec.json.encode(chunk).decode()) for chunk in chunks or _decode_odd(data)]


def _decode_strictly(data: bytes) -> list[Json] | None:
    """Return the chunks; None if a strict decoder does not take them."""
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, list) else [value]


def _decode_odd(data: bytes) -> list[Json]:
    value = clean(load(data))
    if not isinstance(value, list):
        value = read_as_object(value)
        return [] if value is None else [value]
    chunks = value
    if not all(isinstance(chunk, dict) for chunk in chunks):
        raise ValueError("not an object")
    return chunks


def _keep(chunk: Json, text: str) -> KeptChunk:
    kept = KeptChunk(chunk)
    kept.text = text
    return kept
