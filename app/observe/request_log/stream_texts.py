"""`join_texts`: the texts of a stream as a client joins them, because a value may be cut by deltas.

The frames are not parsed one by one. The whole stream is split at its quotes, and neighbouring frames with as many
quotes, and the same names, are columns: what stands behind a name is every nth part. That takes a few operations for
each kind of frame instead of some for each frame. A short stream has few frames that are alike.
"""

from collections.abc import Sequence
from itertools import groupby

_END = b"\n\n"
_SHORT = 4096
_LONGEST = 64
"""Values with equal parts, such as numbers of cards, are shorter."""


def join_texts(data: bytes) -> bytes:
    """Return the strings of a stream, those with one name as one text. Escapes stay as they are."""
    if data.find(b"\r") >= 0:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if data.find(b"\\") >= 0:
        data = data.replace(b"\\\\", b"\x7f\x7f").replace(b'\\"', b"''")  # as long, and no quotes
    by_name: dict[bytes, list[bytes]] = {}
    if len(data) < _SHORT:
        for frame in data.split(_END):
            _add_strings(frame.split(b'"'), by_name)
    else:
        _add_columns(data, by_name)
    return b"\n".join([b"".join(texts) for texts in by_name.values()])


def _add_strings(parts: Sequence[bytes], by_name: dict[bytes, list[bytes]]) -> None:
    """Add the strings of a frame: every second part."""
    texts = by_name.setdefault(b"", [])
    for text, behind in zip(parts[1::2], parts[2::2], strict=False):
        if behind[:1] == b":" or behind.lstrip()[:1] == b":":
            texts = by_name.setdefault(text, [])
        else:
            texts.append(text)


def _add_columns(data: bytes, by_name: dict[bytes, list[bytes]]) -> None:
    parts = data.split(b'"')
    counts = [frame.count(b'"') for frame in data.split(_END)]
    place = 0
    for count, frames in groupby(counts):
        size = count * sum(1 for _ in frames)
        if count:
            _add_frames(parts[place : place + size + 1], count, by_name)
        place += size


def _add_frames(parts: Sequence[bytes], count: int, by_name: dict[bytes, list[bytes]]) -> None:
    """Add the strings of frames with `count` quotes each."""
    if len(parts) == count + 1:
        _add_strings(parts, by_name)
        return
    strings = range(1, count, 2)
    names = [number for number in strings if parts[number + 1].lstrip()[:1] == b":"]
    border = min([_count_equal(parts[number::count]) for number in names], default=len(parts)) * count
    if border < len(parts) - 1:
        _add_frames(parts[: border + 1], count, by_name)
        _add_frames(parts[border:], count, by_name)
        return
    name = b""
    for number in strings:
        if number in names:
            name = parts[number]
            continue
        texts = parts[number::count]
        if texts.count(texts[0]) == len(texts):
            texts = texts[: _LONGEST // (len(texts[0]) + 1) + 1]
        by_name.setdefault(name, []).extend(texts)


def _count_equal(values: Sequence[bytes]) -> int:
    """Return how many values are the same as the first, up to the first other one."""
    if values.count(values[0]) == len(values):
        return len(values)
    return next(number for number, value in enumerate(values) if value != values[0])
