"""Frames of server-sent events, and JSON that is safe inside them."""

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()
encode_json = _encoder.encode
encode_json_lines = _encoder.encode_lines
"""Encodes each value of a list to a line. All lines end with a newline, and have no other."""
MAX_TEXT_CHARS = 8000
"""Six bytes a character at worst, so that no frame of text reaches 60 KB, where line readers of some clients end."""


def escape_line_separators(data: bytes) -> bytes:
    """U+2028, U+2029 and U+0085 as escapes: line readers of many clients split at them.

    Their first bytes are searched for before: to find one byte takes a fraction of the time that three take."""
    if data.isascii():
        return data
    if data.find(0xE2) >= 0:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    if data.find(0xC2) >= 0:
        data = data.replace(b"\xc2\x85", b"\\u0085")
    return data


def write_named(name: str, text: str) -> bytes:
    """One event of this name whose data is JSON."""
    data = text.encode()
    if len(data) > len(text):  # it is not ASCII
        data = escape_line_separators(data)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def write_frame(body: Any) -> bytes:
    """One event whose data is this JSON."""
    return b"data: %b\n\n" % escape_line_separators(encode_json(body))


def split_text(text: str) -> list[str]:
    return [text[start : start + MAX_TEXT_CHARS] for start in range(0, len(text), MAX_TEXT_CHARS)]
