"""`RequestMemory`: what was read of the requests of a caller, because an agent sends its conversation again each time.

An entry of a conversation or of the functions is remembered under its bytes, which are compared, and under the scope of
its caller, who alone finds it. It holds what depends on nothing but these bytes and its place: its JSON value, the
results of checks, and what a format made of it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from app.runtime.bounded_map import BoundedMap

T = TypeVar("T")

MIN_BYTES = 16 * 1024
"""Shorter bodies are read as a whole: to look up their entries would cost as much as it saves."""
HELD_FOR_BYTE = 5
"""How many bytes are counted for each byte of an entry: its bytes, its JSON value, and what was made of it."""
HELD_FOR_OBJECT = 250
"""How many bytes are counted in addition for each object and list in an entry."""
HELD_FOR_ENTRY = 2000
"""How many bytes are counted in addition for an entry itself."""
MAX_FOUND = 6
"""How many things are remembered of an entry: one that stands at many places would otherwise take much more than what
is counted for it."""
_MAX_ENTRIES = 1_000_000
_LARGEST_SHARE = 8
"""An entry that would take more than this part of the memory is not remembered: others would be dropped for it."""
_LISTS = ("messages", "input", "tools", "functions")
"""The fields whose entries are remembered."""


class Entry(dict[str, Any]):
    """An object in a list of a body, which is never changed, and what was found out about it."""

    __slots__ = ("found",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.found: dict[Any, Any] = {}
        """What was found out about it, by what it was found for. Requests in several threads may write to it: each
        would write an equal value."""


class RequestMemory:
    def __init__(self, max_bytes: int, count: Callable[[int, int], None] | None = None) -> None:
        """`max_bytes` bounds the estimated size of what is remembered of all callers; 0: nothing is. `count` is called
        for each body, in any thread, with how many bytes of it were remembered, and how many were not."""
        self._max_bytes = max_bytes
        self.max_entry_bytes = max_bytes // _LARGEST_SHARE // HELD_FOR_BYTE
        self._entries: BoundedMap[tuple[str, bytes], Entry] = BoundedMap(max_bytes, _MAX_ENTRIES)
        self._lock = Lock()
        self._count = count

    def open(self, scope: str) -> "CallerMemory | None":
        """Return the memory of one caller; None if nothing is remembered."""
        return CallerMemory(self, scope) if self._max_bytes else None

    def find(self, scope: str, raws: list[bytes]) -> list[Entry | None]:
        with self._lock:
            return [self._entries.get((scope, raw)) for raw in raws]

    def add(self, scope: str, entries: list[tuple[bytes, Entry]]) -> None:
        with self._lock:
            for raw, entry in entries:
                size = len(raw) * HELD_FOR_BYTE + _count_objects(raw) * HELD_FOR_OBJECT + HELD_FOR_ENTRY
                if size <= self._max_bytes // _LARGEST_SHARE:
                    self._entries.put((scope, raw), entry, size)

    def count(self, remembered: int, new: int) -> None:
        if self._count is not None:
            self._count(remembered, new)


class CallerMemory:
    """The memory of one caller."""

    def __init__(self, memory: RequestMemory, scope: str) -> None:
        self._memory = memory
        self._scope = scope

    def read_object(self, raw: bytes | bytearray) -> dict[str, Any] | None:
        """Return the object that a body is, whose entries of lists may be `Entry`.

        None if it must be read as a whole: it is short, is not valid JSON, or has an entry that is too large to be
        remembered, of which a copy costs too much.
        """
        if len(raw) < MIN_BYTES:
            return None
        try:
            fields = _read_fields(raw)
            remembered = 0
            body: dict[str, Any] = {}
            for name, field in fields.items():
                if name in _LISTS and memoryview(field)[0] == _OPEN:
                    entries = _read_entries(field)
                    if any(memoryview(entry).nbytes > self._memory.max_entry_bytes for entry in entries):
                        return None
                    body[name], found = self._read_list([bytes(entry) for entry in entries])
                    remembered += found
                else:
                    body[name] = _read_value(bytes(field))
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None
        self._memory.count(remembered, len(raw) - remembered)
        return body

    def _read_list(self, raws: list[bytes]) -> tuple[list[Any], int]:
        """Return (the entries, how many bytes of them were remembered)."""
        values: list[Any] = []
        added: list[tuple[bytes, Entry]] = []
        remembered = 0
        for raw, entry in zip(raws, self._memory.find(self._scope, raws), strict=True):
            if entry is not None:
                values.append(entry)
                remembered += len(raw)
                continue
            value = _read_entry(raw)
            if isinstance(value, dict):
                value = Entry(value)
                added.append((raw, value))
            values.append(value)
        self._memory.add(self._scope, added)
        return values, remembered


def _read_value(raw: bytes) -> Any:
    return from_json(raw, cache_strings="keys")


def _count_objects(raw: bytes) -> int:
    """Return at least the number of objects and lists of a JSON value."""
    return raw.count(b"{") + raw.count(b"[")


def _read_entry(raw: bytes) -> Any:
    """Read an entry of a list of the body. What msgspec accepts, it reads like `from_json`, but for the depth, which
    `from_json` counts from the outside."""
    if _count_objects(raw) > _SURELY_READ:
        return from_json(b"[[%b]]" % raw, cache_strings="keys")[0][0]
    return msgspec.json.decode(raw)


_OPEN = ord("[")
_SURELY_READ = 150
"""`from_json` refuses values that are nested deeper than about 200."""
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_entries = msgspec.json.Decoder(list[msgspec.Raw]).decode


def recall(value: Any, what: Any, make: Callable[[], T]) -> T:
    """Return what was found out about a value for `what`, else make it. It is kept if the value is an `Entry`."""
    if type(value) is not Entry:
        return make()
    found = value.found.get(what, value)
    if found is value:
        found = make()
        if len(value.found) >= MAX_FOUND:
            value.found.clear()
        value.found[what] = found
    return found  # type: ignore[no-any-return]  # `what` says of which type it is


def validate_entries(entries: Any, whole: TypeAdapter[Any], each: TypeAdapter[Any]) -> Any:
    """Validate a list by the schema of the `whole`, or those entries that are not known to be valid by that of `each`.

    Raises ValidationError, the same as for the list as a whole.
    """
    if not isinstance(entries, list) or not any(type(entry) is Entry for entry in entries):
        return whole.validate_python(entries)
    try:
        return [recall(entry, id(each), partial(each.validate_python, entry)) for entry in entries]
    except ValidationError:
        return whole.validate_python(entries)
