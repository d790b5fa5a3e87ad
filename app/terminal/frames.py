"""Parse a Parley event stream: from bytes to the JSON object of each event."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

Frame = dict[str, Any]

_LINE_END = re.compile(rb"\r\n|\r|\n")


class NotParley(Exception):
    """The response is not an event stream of Parley."""


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split chunks into lines, which end with LF, CR or CRLF only. An unfinished last line is dropped."""
    held = b""
    after_return = False
    for chunk in chunks:
        if not chunk:
            continue
        rest = chunk[1:] if after_return and chunk[:1] == b"\n" else chunk
        after_return = rest.endswith(b"\r")
        *whole, held = _LINE_END.split(held + rest)
        yield from (line.decode("utf-8", "replace") for line in whole)


def frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the JSON object of each event. Raises NotParley."""
    data: list[str] = []
    for line in lines(chunks):
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield _object("\n".join(data))
            data = []


def _object(text: str) -> Frame:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NotParley("an event is not JSON") from exc
    if not isinstance(value, dict):
        raise NotParley("an event is not a JSON object")
    return value
