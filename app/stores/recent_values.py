"""Values that were read from an SQLite file a short time ago, so that reading one again needs no other thread.

A value is returned only while the file has the same version. The version is read once in a turn of the event loop,
because all requests that are answered in that turn had arrived before it.
"""

import asyncio
from collections import OrderedDict

from app.stores.file_version import FileVersion, VersionReader
from app.stores.sqlite_schema import FoundRow

MAX_VALUE_BYTES = 64 * 1024
"""A larger value is not kept."""
MAX_BYTES = 8 * 1024 * 1024
"""Of all values that are kept."""


class RecentValues:
    """They belong to the event loop."""

    def __init__(self, version_reader: VersionReader, max_bytes: int = MAX_BYTES) -> None:
        self._version_reader = version_reader
        self._max_bytes = max_bytes
        self._rows: OrderedDict[bytes, FoundRow] = OrderedDict()
        """The most recently used last."""
        self._bytes = 0
        self._version: FileVersion | None = None
        """The version of the file that all rows were read from."""
        self._checked = False
        """The file was checked in this turn of the event loop, and was unchanged."""
        self.changes = 0
        """How many changes of the file were noticed."""

    def get(self, key: bytes, now: float) -> FoundRow | None:
        """Return the row of a key, if it is known to be what the file has. `now` is the Unix time."""
        row = self._rows.get(key)
        if row is None or not self._is_unchanged_this_turn():
            return None
        if row.expires_at <= now:
            self._drop(key)
            return None
        self._rows.move_to_end(key)
        return row

    def add(self, key: bytes, row: FoundRow, changes: int) -> None:
        """Keep a row for which the reader was asked when `changes` had this value. It is not kept if the file may have
        changed since then."""
        if len(row.stored.value) > MAX_VALUE_BYTES or not self._is_unchanged() or changes != self.changes:
            return
        self._drop(key)
        self._rows[key] = row
        self._bytes += len(row.stored.value)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._rows)))

    def _drop(self, key: bytes) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            self._bytes -= len(row.stored.value)

    def _is_unchanged_this_turn(self) -> bool:
        """`_is_unchanged`, checked once in a turn of the event loop."""
        if not self._checked and self._is_unchanged():
            self._checked = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        return self._checked

    def _end_turn(self) -> None:
        self._checked = False

    def _is_unchanged(self) -> bool:
        """Whether the file is as it was at the last call; if it is not, all rows are dropped."""
        version = self._version_reader.read()
        if version is not None and version == self._version:
            return True
        self._version = version
        self._rows.clear()
        self._bytes = 0
        self.changes += 1
        return False
