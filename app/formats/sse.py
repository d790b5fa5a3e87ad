"""JSON as it may stand in a frame of a stream."""

import msgspec

encode_json = msgspec.json.Encoder().encode


def escape_line_separators(data: bytes) -> bytes:
    """U+2028, U+2029 and U+0085 as escapes: line readers of many clients split at them."""
    if not data.isascii():
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
        data = data.replace(b"\xc2\x85", b"\\u0085")
    return data
