"""Ways to cut a body into reads: any cut must give the same reply."""

import random
from collections.abc import Iterator
from typing import Any

from app.upstream.chat_completions import chunk_decoder
from app.upstream.reply.sse import EventReader

from tests.effort import LONG

MEDIUM, LARGE = 4_000, 200_000


def whole(data: bytes) -> list[bytes]:
    """Everything in one read; no read at all for an empty body."""
    return [data] if data else []


def bytewise(data: bytes) -> list[bytes]:
    """One byte per read."""
    return [data[place : place + 1] for place in range(len(data))]


def finely(data: bytes) -> list[bytes]:
    """One byte per read; a larger body in pieces of an odd size, but for `FUZZ=long`."""
    if len(data) < (LARGE if LONG else MEDIUM):
        return bytewise(data)
    size = 7 if len(data) < LARGE else 997
    return [data[at : at + size] for at in range(0, len(data), size)]


def random_cuts(data: bytes, seed: int, n: int) -> list[bytes]:
    """At most `n` cuts at places that follow from the seed alone; no part is empty."""
    places = random.Random(seed).sample(range(1, len(data)), min(n, len(data) - 1)) if data else []
    edges = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False) if start < end]


def every_cut(data: bytes) -> Iterator[list[bytes]]:
    """Every way to cut the body into two parts, none of them empty."""
    return ([data[:place], data[place:]] for place in range(1, len(data)))


def distinct_cuts(data: bytes) -> list[list[bytes]]:
    """Of all ways to cut the body into two reads, one for each way that `EventReader` can tell from the others.

    `UpstreamStream` and what follows it get a reply only through the reader: its items after each read and at the end,
    `saw_line` and `junk`. Two cuts with the same of these give the same reply, so every cut is tried, and the whole
    path of a reply runs once for each event instead of once for each byte. `FUZZ=long` gives all cuts.
    """
    if LONG:
        return list(every_cut(data))
    return list({_read_in_parts(parts): parts for parts in every_cut(data)}.values())


def _read_in_parts(parts: list[bytes]) -> tuple[Any, ...]:
    reader = EventReader(_check)
    steps = [(_name(reader.feed(part)), reader.saw_line, reader.junk) for part in parts]
    return (*steps, _name(reader.close(clean=True)))


def _check(data: bytes) -> bytes:
    chunk_decoder.decode(data)
    return data


def _name(items: list[Any]) -> tuple[Any, ...]:
    return tuple(item if isinstance(item, bytes) else (type(item), getattr(item, "data", b"")) for item in items)
