"""Which keys an SQLite file may hold, so that a look-up of a key that it does not hold needs no other thread.

The rows of other processes are found in the reader's thread. SQLite's `data_version` says cheaply whether there are
any. While requests come, it is read every CHECK_SECONDS; an answer that relies on an older check than MAX_AGE_SECONDS
is not given.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from app.cache.stores import sqlite_schema
from app.cache.stores.worker import SqliteWorker

CHECK_SECONDS = 0.1
MAX_AGE_SECONDS = 0.4
_LEAST_BITS = 1 << 20
_BITS_A_KEY = 8
"""With fewer bits for each key, a larger filter is made: otherwise too many missing keys would be looked up."""


class KeyFilter:
    """A set of keys that may wrongly contain a key, but never wrongly lacks one. It has one bit for each hash: unlike
    a set it is small, and the garbage collector does not look into it."""

    def __init__(self, keys: int = 0) -> None:
        """Make room for twice as many keys."""
        bits = max(_LEAST_BITS, 1 << (2 * keys * _BITS_A_KEY).bit_length())
        self._bits = bytearray(bits // 8)
        self._mask = bits - 1
        self.count = 0
        """The number of keys, without those that share a bit."""

    def __contains__(self, key: bytes) -> bool:
        bit = hash(key) & self._mask
        return bool(self._bits[bit >> 3] & (1 << (bit & 7)))

    def add(self, key: bytes) -> None:
        if key not in self:
            bit = hash(key) & self._mask
            self._bits[bit >> 3] |= 1 << (bit & 7)
            self.count += 1

    @property
    def full(self) -> bool:
        return self.count * _BITS_A_KEY > self._mask


class _Position(NamedTuple):
    """How far the rows of a file were read."""

    connection: sqlite3.Connection
    version: int
    last_id: int


class _NewKeys(NamedTuple):
    position: _Position
    keys: list[tuple[int, bytes]]
    from_start: bool
    """The file was read from its first row: it is another file than before."""


class KnownKeys:
    def __init__(self, reader: SqliteWorker[Callable[[sqlite3.Connection], Any]]) -> None:
        self._reader = reader
        self._filter: KeyFilter | None = None
        """None until the file was read to its end."""
        self._growing = KeyFilter()
        """The filter that is filled; the same as `_filter` after that."""
        self._position: _Position | None = None
        self._checking = False
        self._checked_at = float("-inf")

    def may_contain(self, key: bytes) -> bool:
        """Whether the file may hold this key; False only if it does not."""
        now = asyncio.get_running_loop().time()
        age = now - self._checked_at
        if age > CHECK_SECONDS and not self._checking:
            self._check(now)
        return self._filter is None or age > MAX_AGE_SECONDS or key in self._filter

    def add(self, key: bytes) -> None:
        """Add the key of a row that this process writes."""
        self._growing.add(key)

    def _check(self, now: float) -> None:
        self._checking = True
        position = self._position
        answer = self._reader.submit(lambda connection: _find_new_keys(connection, position))
        answer.add_done_callback(lambda answer: self._on_checked(answer, now))

    def _on_checked(self, answer: "asyncio.Future[_NewKeys]", asked_at: float) -> None:
        self._checking = False
        if answer.cancelled() or answer.exception() is not None:
            self._start_again(0)
            return
        found = answer.result()
        if found.from_start and self._position is not None:
            self._start_again(0)
        self._position = found.position
        for _, key in found.keys:
            self._growing.add(key)
        if self._growing.full:
            self._start_again(self._growing.count)
        elif not found.keys:
            self._filter, self._checked_at = self._growing, asked_at
            return
        self._check(asyncio.get_running_loop().time())

    def _start_again(self, keys: int) -> None:
        """Read the file from its first row, into a new filter with room for more than `keys`."""
        self._filter, self._growing, self._position = None, KeyFilter(keys), None


def _find_new_keys(connection: sqlite3.Connection, position: _Position | None) -> _NewKeys:
    """Return some keys after this position; no keys at the end of the file."""
    from_start = position is None or position.connection is not connection
    if position is None or position.connection is not connection:
        position = _Position(connection, -1, 0)
    version = sqlite_schema.data_version(connection)
    if version == position.version:
        return _NewKeys(position, [], from_start)
    # If all rows were deleted and the clock was set back, the next ids are smaller.
    last_id = min(position.last_id, sqlite_schema.last_id(connection))
    keys = sqlite_schema.keys_after(connection, last_id)
    # Only at the end is nothing left to be read that this version has.
    return _NewKeys(_Position(connection, -1 if keys else version, keys[-1][0] if keys else last_id), keys, from_start)
