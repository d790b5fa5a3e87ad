"""Cut the body of a request into pieces, so that what its conversation has in common with earlier ones is kept once.

A piece is an entry of a list at the top of the body (messages, tools, input), a long value there (the system prompt),
or what stands between them. The pieces of a body, joined, are the body, wherever it is cut.
"""

from collections.abc import Iterable, Iterator

import msgspec

MIN_BYTES = 512
"""Shorter values stay with what is around them."""
GROUPED = 16
"""So many pieces are kept as one list, which the next round of the conversation has too."""
_PROBE = 48
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def cut(body: bytes) -> list[list[bytes]]:
    """Return the pieces in groups; none if the body is not a JSON object. A group of a long list begins again with each
    list, so that tools which stand behind the messages are the same groups in each round."""
    try:
        members = _members.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    groups: list[list[bytes]] = []
    done = 0
    for begin, end, is_list in _find_long_values(body, members.values()):
        if is_list:
            items = _cut_items(body, begin, end)
            groups += [[body[done : begin + 1]], *_group(items)]
            done = begin + 1 + sum(map(len, items))
        else:
            groups.append([piece for piece in (body[done:begin], body[begin:end]) if piece])
            done = end
    return [*groups, [body[done:]]]  # with the brace that ends the object


def _group(items: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(items), GROUPED):
        yield items[start : start + GROUPED]


def _find_long_values(body: bytes, values: Iterable[msgspec.Raw]) -> Iterator[tuple[int, int, bool]]:
    """Yield where the long values of an object begin and end, and whether they are lists."""
    done = 0
    for raw in values:
        value = bytes(raw)
        if len(value) < MIN_BYTES:
            continue
        begin = _find(body, value, done)
        if begin < 0:  # the key was there twice, so its first value is not among the members
            continue
        done = begin + len(value)
        yield begin, done, value[:1] == b"["


def _cut_items(body: bytes, begin: int, end: int) -> list[bytes]:
    """Cut a list behind each of its items: the comma before an item belongs to it, because the next round adds one
    behind the last."""
    pieces, done = [], begin + 1
    for raw in _items.decode(body[begin:end]):
        item = bytes(raw)
        stop = _find(body, item, done) + len(item)
        pieces.append(body[done:stop])
        done = stop
    return pieces


def _find(body: bytes, value: bytes, start: int) -> int:
    """Find a value that may be long: only its beginning is searched for."""
    probe = value[:_PROBE]
    at = body.find(probe, start)
    while at >= 0 and not body.startswith(value, at):
        at = body.find(probe, at + 1)
    return at
