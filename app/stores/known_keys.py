"""Which keys an SQLite file may hold, so that a look-up of a key that it does not hold needs no other thread.

New rows are read in the reader's thread: after each commit of this process, and while requests come, whenever the
file's version has changed. That is checked every CHECK_SECONDS. An answer that relies on an older check than
MAX_AGE_SECONDS is not given.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from app.stores import sqlite_schema
from app.stores.file_version import FileVersion, VersionReader
from app.stores.worker import SqliteWorker

CHECK_SECONDS = 0.1
MAX_AGE_SECONDS = 0.4
_KEYS_AT_ONCE = 500
"""The most keys in one answer of the reader, so that neither the look-ups that wait for the reader nor the event loop,
which adds the keys to the filter, are held up for more than about a millisecond."""
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

    def update(self, keys: Iterable[bytes]) -> None:
        bits, mask = self._bits, self._mask
        for key in keys:
            bit = hash(key) & mask
            flag = 1 << (bit & 7)
            if not bits[bit >> 3] & flag:
                bits[bit >> 3] |= flag
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
    at_end: bool
    """No row follows these keys."""


class KnownKeys:
    """A filter of the keys of one file, and how far the file was read into it. It belongs to the event loop."""

    def __init__(
        self, reader: SqliteWorker[Callable[[sqlite3.Connection], Any]], version_reader: VersionReader
    ) -> None:
        self._reader = reader
        self._version_reader = version_reader
        self._filter: KeyFilter | None = None
        """None until the file was read to its end."""
        self._growing = KeyFilter()
        """The filter that is filled; the same as `_filter` after that."""
        self._version: FileVersion | None = None
        """A version of which `_filter` has all keys."""
        self._position: _Position | None = None
        self._row_count = 0
        """About how many rows the file had when all of them were read last."""
        self._reading = False
        self._check_again = False
        """`on_commit` was called since the reader was asked."""
        self._checked_at = float("-inf")

    def may_contain(self, key: bytes) -> bool:
        """Whether the file may hold this key; False only if it does not."""
        now = asyncio.get_running_loop().time()
        if now - self._checked_at > CHECK_SECONDS and not self._reading:
            self._check(now)
        return self._filter is None or now - self._checked_at > MAX_AGE_SECONDS or key in self._filter

    def on_commit(self, keys: Iterable[bytes] = ()) -> None:
        """This process has changed the file, and has added rows with these keys: a reading that began before lacks
        them. The new rows are read at once, so that no request has to wait for that."""
        self._growing.update(keys)
        if self._reading:
            self._check_again = True
        else:
            self._check(asyncio.get_running_loop().time())

    def _check(self, now: float) -> None:
        version = self._version_reader.read()
        if version is not None and version == self._version:
            self._checked_at = now
        else:
            self._ask_reader(now, version)

    def _ask_reader(self, now: float, version: FileVersion | None) -> None:
        self._reading, self._check_again = True, False
        position = self._position
        answer = self._reader.submit(lambda connection: _find_new_keys(connection, position))
        answer.add_done_callback(lambda answer: self._on_answer(answer, now, version))

    def _on_answer(
        self, answer: "asyncio.Future[_NewKeys | None]", asked_at: float, version: FileVersion | None
    ) -> None:
        """`version` is what the file had at that time."""
        self._reading, now = False, asyncio.get_running_loop().time()
        found = None if answer.cancelled() or answer.exception() is not None else answer.result()
        if found is None:
            # The new filter lacks the keys that `add` has added to this one. A reading that begins later finds them:
            # `may_contain` asks for it.
            self._start_again()
            return
        self._position = found.position
        self._growing.update([key for _, key in found.keys])
        if self._filter is None:
            # Later, `_growing` also counts new rows, and any number of them may have been deleted.
            self._row_count = self._growing.count
        if self._growing.full:
            self._start_again()
        elif found.at_end:
            self._filter, self._version, self._checked_at = self._growing, version, asked_at
            if self._check_again:
                self._check(now)
            return
        self._ask_reader(now, self._version_reader.read())

    def _start_again(self) -> None:
        """Read the file from its first row, into a new filter with room for twice as many rows as it had."""
        self._filter, self._growing, self._version, self._position = None, KeyFilter(self._row_count), None, None


def _find_new_keys(connection: sqlite3.Connection, position: _Position | None) -> _NewKeys | None:
    """Return some keys after this position, or None if the position is one of another file."""
    if position is None:
        position = _Position(connection, -1, 0)
    elif position.connection is not connection:
        return None
    version = sqlite_schema.data_version(connection)
    if version == position.version:
        return _NewKeys(position, [], True)
    # If all rows were deleted and the clock was set back, the next ids are smaller.
    last_id = min(position.last_id, sqlite_schema.last_id(connection))
    keys = sqlite_schema.keys_after(connection, last_id, _KEYS_AT_ONCE)
    at_end = len(keys) < _KEYS_AT_ONCE
    # Only at the end is nothing left to be read that this version has.
    position = _Position(connection, version if at_end else -1, keys[-1][0] if keys else last_id)
    return _NewKeys(position, keys, at_end)
