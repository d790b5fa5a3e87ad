"""`VectorEncoder`: writes vectors that a server has sent as lists of numbers as base64, which the client asked for.

OpenAI's packages ask for base64 where their user names no encoding. That for Node, and those for .NET and Java, decode
whatever comes: of a server that does not know `encoding_format` they read a quarter of each vector, or none
(BerriAI/litellm#42421, garrytan/gbrain#220, lmstudio-ai/lmstudio-bug-tracker#756). The form is that of OpenAI: the
bytes of 32-bit floats, the least byte first.
"""

import base64
import re
import struct

import msgspec

MAX_VECTOR_BYTES = 256 * 1024
"""A longer list of numbers is no vector: it is passed on as it came."""
_NAME = b'"embedding"'
_NAME_BYTES = 64
"""With white space."""
_VECTOR = re.compile(rb'"embedding"\s*:\s*(\[[^\[\]{}"]*\])')
_BEGUN = re.compile(rb'"embedding"\s*(?::\s*(?:\[[^\[\]{}"]*)?)?\Z')
_decode = msgspec.json.Decoder(list[float]).decode


class VectorEncoder:
    """Call `feed` for each part of an answer, and `close` at its end. Both return what may be passed on."""

    def __init__(self) -> None:
        self._held = b""
        """The beginning of a vector, or of its name."""

    def feed(self, data: bytes) -> bytes:
        data = _VECTOR.sub(_encode, self._held + data)
        begun = _find_begun(data)
        self._held = data[begun:] if len(data) - begun <= MAX_VECTOR_BYTES + _NAME_BYTES else b""
        return data[: len(data) - len(self._held)]

    def close(self) -> bytes:
        held, self._held = self._held, b""
        return held


def _encode(match: "re.Match[bytes]") -> bytes:
    """Return the name and the value; as they came if these numbers are no vector."""
    if len(match[1]) > MAX_VECTOR_BYTES:
        return match[0]
    try:
        numbers = _decode(match[1])
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
    except (msgspec.DecodeError, OverflowError):
        return match[0]
    return b'%b:"%b"' % (_NAME, base64.b64encode(packed)) if numbers else match[0]


def _find_begun(data: bytes) -> int:
    """Return where a vector begins that has not ended; the length of the data if there is none."""
    place = data.rfind(_NAME)
    if place >= 0 and _BEGUN.match(data, place):
        return place
    cut = next((size for size in range(len(_NAME) - 1, 0, -1) if data.endswith(_NAME[:size])), 0)
    return len(data) - cut
