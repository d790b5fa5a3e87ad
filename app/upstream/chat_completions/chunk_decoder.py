"""Decode one JSON value of a reply into a typed chunk.

The strict decoder accepts what nearly all servers send and takes about a microsecond. What it refuses (a list of
content parts, an object for arguments, a call without `function`, NaN, invalid UTF-8, half a surrogate pair) is decoded
again by the lenient one.

Nearly all chunks of a long reply differ from each other only in one text. `ChunkDecoder` remembers the bytes before and
after the text of such a chunk. Where a later one has the same bytes there, and one JSON string between them, only that
string is decoded; the strings of several such chunks are decoded together, as one JSON list.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from app.chat.events import ReasoningDelta, TextDelta
from app.upstream.chat_completions.lenient_chunk import decode_leniently, find_object, join_surrogates
from app.upstream.reply.chunk import (
    MAX_NESTING,
    Chunk,
    ChunkText,
    FunctionFragment,
    ToolCallFragment,
    get_text,
    is_too_deep,
)

MIN_WAIT, MAX_WAIT = 6, 4096
"""After how many chunks the bytes around a text are searched for. That takes as long as decoding three chunks, and may
be wasted, because some servers send chunks that all differ: so the wait doubles each time, until it was not."""
_PROBE, _PROBE_JSON = "another text", b'"another text"'
MAX_PATTERN_BYTES = 4096
_MAX_DIGITS = 4000
"""An integer with more digits is read as 0: Python refuses it, and it takes quadratic time."""
_EMPTY_TEXTS = ("", "[DONE]")
_PREFIX, _SUFFIX = b"data: ", b"\n\n"
_CONTENT, _REASONING, _ARGUMENTS = (
    re.compile(rb'"%b"\s*:\s*("(?:[^"\\]|\\.)*+")' % key, re.DOTALL)
    for key in (b"content", b"reasoning_content", b"arguments")
)

_strict = msgspec.json.Decoder(Chunk).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode


def decode(data: bytes) -> Chunk | None:
    """Decode a chunk; None for JSON that is not an object (a number, `null`). A text is an object with that message.

    Raises ValueError when `data` is not one whole JSON value, or is nested too deeply.
    """
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        chunk = _strict(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value = _load(data)
        if isinstance(value, str) and value.strip() not in _EMPTY_TEXTS:
            return Chunk(whole={"message": join_surrogates(value)})
        read = decode_leniently(value)
        if read is None:
            return None
        chunk = read
        chunk.ragged = b"\\ud" in data.lower()
    if not chunk.choices or chunk.error or chunk.object == "error":
        chunk.whole = _decode_object(data)
    return chunk


def _decode_object(data: bytes) -> dict[str, Any] | None:
    try:
        return _decode_any(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return find_object(_load(data))


def _load(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "replace"), parse_int=_integer)


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else 0


class ChunkDecoder:
    """Decodes the chunks of one reply."""

    def __init__(self) -> None:
        self._before = self._after = b""
        """What comes before and after the text in a whole event; empty if nothing is remembered."""
        self._begin = self._end = 0
        """Where the JSON of the text begins and ends in a whole event; the end counts back from that of the event."""
        self._make: Callable[[str], ChunkText] = TextDelta
        self._chunks = 0
        """How many chunks were decoded whole since the last search."""
        self._wait = MIN_WAIT

    def decode_event(self, data: bytes) -> ChunkText | None:
        """Decode an event of one line, if it has the remembered bytes around a text. See `UsualDecoder`.

        It has one line if there is a string between them: JSON allows no line break in a string.
        """
        begin, end = self._begin, self._end
        if not self._before or data[end:] != self._after or data[:begin] != self._before:
            return None
        string = data[begin:end]
        if string[-1:] != b'"' or string[:1] != b'"':
            return None
        try:
            text = _decode_text(string)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if not text:
            return None
        self._wait = MIN_WAIT
        return self._make(text)

    def decode(self, data: bytes) -> Chunk | ChunkText | None:
        """Decode a chunk like the function `decode`. Where it has only a text, return that, if it was recognised."""
        if self._before:
            text = self.decode_event(b"%b%b%b" % (_PREFIX, data, _SUFFIX))
            if text is not None:
                return text
        chunk = decode(data)
        self._chunks += 1
        if self._chunks >= self._wait and chunk is not None:
            self._remember(data, chunk)
        return chunk

    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[list[ChunkText], int]:
        """Decode the chunks from `start` on that have the remembered bytes around a text. See `UsualDecoder`.

        JSON allows no line break in a string, so where the list has as many strings as there are chunks, each of them
        is the text of one chunk.
        """
        before, after = self._before, self._after[: -len(_SUFFIX)]
        if not before:
            return [], 0
        begin, end = len(before), -len(after)
        strings: list[bytes] = []
        for frame in islice(frames, start, None):
            if frame[:begin] != before or frame[end:] != after:
                break
            strings.append(frame[begin:end])
        size = len(strings)
        if size > 1:
            joined = b"[%b]" % b",\n".join(strings)
            try:
                texts = _decode_texts(joined)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return [], size
            if len(texts) == size and joined.count(b"\n") == size - 1 and "" not in texts:
                self._wait = MIN_WAIT
                return list(map(self._make, texts)), size
        return [], size

    def _remember(self, data: bytes, chunk: Chunk) -> None:
        """Remember the bytes around the text of a chunk, if it has only a text."""
        self._chunks, self._wait = 0, min(self._wait * 2, MAX_WAIT)
        text = get_text(chunk)
        if text is None or chunk.usage or len(data) > MAX_PATTERN_BYTES or b"\n" in data:
            return
        key, make = _get_key(text)
        places = list(key.finditer(data))
        if make is None or len(places) != 1:
            return
        before, after = data[: places[0].start(1)], data[places[0].end(1) :]
        other = decode(before + _PROBE_JSON + after)
        if after and other is not None and not other.usage and get_text(other) == make(_PROBE):
            self._before, self._after, self._make = _PREFIX + before, after + _SUFFIX, make
            self._begin, self._end = len(self._before), -len(self._after)


def _get_key(text: ChunkText) -> tuple[re.Pattern[bytes], Callable[[str], ChunkText] | None]:
    """Return the pattern of the key at which a chunk has this text, and what makes a `ChunkText` of another text; None
    if a call fragment has more than arguments."""
    if type(text) is TextDelta:
        return _CONTENT, TextDelta
    if type(text) is ReasoningDelta:
        return _REASONING, ReasoningDelta
    assert type(text) is ToolCallFragment
    index, arguments = text.index, text.function.arguments if text.function else None
    make = partial(_make_fragment, index)
    return _ARGUMENTS, make if arguments and text == make(arguments) else None


def _make_fragment(index: int | None, arguments: str) -> ToolCallFragment:
    return ToolCallFragment(index, function=FunctionFragment(arguments=arguments))
