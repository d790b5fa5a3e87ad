"""Decode one JSON value of a reply into a typed chunk.

The strict decoder accepts what nearly all servers send and takes about a microsecond. What it refuses (a list of
content parts, an object for arguments, a call without `function`, NaN, invalid UTF-8, half a surrogate pair) is decoded
again by the lenient one.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from typing_extensions import override

from app.chat.events import ReasoningDelta, TextDelta
from app.upstream.chat_completions.lenient_chunk import decode_leniently, find_inner_reply, find_object
from app.upstream.reply.chunk import (
    MAX_NESTING,
    Chunk,
    ChunkText,
    FunctionFragment,
    ToolCallFragment,
    get_text,
    is_too_deep,
)
from app.upstream.reply.odd_json import load, read_as_object
from app.upstream.reply.usual_decoder import PROBE, STRING, UsualDecoder

_CHANGES = re.compile(
    rb'"(?:content|reasoning_content|arguments)"\s*:\s*'
    + STRING % b"text"
    + rb'|"obfuscation"\s*:\s*'
    + STRING % b"string",
    re.DOTALL,
)

_strict = msgspec.json.Decoder(Chunk).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def decode(data: bytes) -> Chunk | None:
    """Decode a chunk; None for JSON that is not an object (a number, `null`). A text is an object with that message.

    Raises ValueError when `data` is not one whole JSON value, or is nested too deeply.
    """
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        chunk = _strict(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value = load(data)
        if isinstance(value, str):
            message = read_as_object(value)
            return None if message is None else Chunk(whole=message)
        read = decode_leniently(value)
        if read is None:
            return None
        chunk = read
        chunk.ragged = b"\\ud" in data.lower()
    if not chunk.choices or chunk.error or chunk.object == "error":
        whole = chunk.whole = _decode_object(data)
        if chunk.choices is None and whole is not None and (inner := find_inner_reply(whole)) is not None:
            inner.ragged = b"\\ud" in data.lower()
            return inner
    return chunk


def _decode_object(data: bytes) -> dict[str, Any] | None:
    try:
        return _decode_any(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return find_object(load(data))


class ChunkDecoder(UsualDecoder[Chunk | None, ChunkText]):
    """Decodes the chunks of one reply: those like an earlier one into their text alone."""

    def __init__(self) -> None:
        super().__init__(decode, _CHANGES)
        self._make_text: Callable[[str], ChunkText] = TextDelta

    @override
    def _is_like(self, value: Chunk | None, data: bytes) -> bool:
        text = None if value is None or value.usage else get_text(value)
        other = decode(data)
        if text is None or other is None or other.usage:
            return False
        if type(text) is ToolCallFragment:
            make: Callable[[str], ChunkText] = partial(_make_fragment, text.index)
            if not text.function or text != make(text.function.arguments or ""):
                return False  # it has more than arguments
        else:
            make = TextDelta if type(text) is TextDelta else ReasoningDelta
        if get_text(other) != make(PROBE):
            return False
        self._make_text = make
        return True

    @override
    def decode_event(self, event: bytes) -> ChunkText | None:
        text = self._read_text(event)
        return self._make_text(text) if text else None

    @override
    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[list[ChunkText], int]:
        texts, size = self._read_texts(frames, start)
        return list(map(self._make_text, texts)), size


def _make_fragment(index: int | None, arguments: str) -> ToolCallFragment:
    return ToolCallFragment(index, function=FunctionFragment(arguments=arguments))


class EachChunkDecoder(ChunkDecoder):
    """Decodes every chunk whole, where what else it has is read, too."""

    @override
    def _is_like(self, value: Chunk | None, data: bytes) -> bool:
        return False
