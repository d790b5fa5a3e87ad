"""`UsageLedger`: adds up the usage of requests in memory, and writes the totals to a store once a second.

Requests only add numbers to a row in memory. One thread writes all rows that changed in one transaction, so a process
that is killed loses at most the last second. While the store cannot be used, the rows stay in memory, whose size is
bounded: there is one row for each day, key and model, and at most `max_rows` of them. A row that the store cannot
hold is dropped.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain

from msgspec import Struct

from app.background_thread import start_background_thread
from app.usage.stores import UsageRowError, UsageStore, UsageStoreError
from app.usage.totals import RowKey, Totals, UsageQuery, UsageRow, add_totals

log = logging.getLogger("parley.usage")

OTHER_MODELS = "(other models)"
"""The model of the row that takes what exceeds `max_rows`: behind a pass-through, callers may name any model."""
MAX_NAME = 200
"""Longer names of models are cut, in characters."""
_MAX_RESULT_ROWS = 10_000
_DAY_SECONDS = 86_400.0
_MOST_ADDENDS = 256
"""As many numbers of one row are added up at the latest."""


class LedgerRules(Struct, frozen=True):
    flush_seconds: float = 1.0
    max_retry_seconds: float = 60.0
    """While the store cannot be used, the wait between two attempts doubles up to this time."""
    max_rows: int = 10_000
    """Rows that wait to be written."""
    clock: Callable[[], float] = time.time
    """Returns the Unix time in seconds."""


_RULES = LedgerRules()


class TooManyRows(Exception):
    """A query has more results than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"the result has more than {most} rows: ask for fewer days, for one key or model, or group them"
        )


class UsageLedger:
    """`add` may be called from any thread. `read` and `close` block."""

    def __init__(self, store: UsageStore, rules: LedgerRules = _RULES) -> None:
        self._store = store
        self._rules = rules
        self._waiting: dict[RowKey, list[Totals]] = {}
        """What was counted for each row; to add it up at once costs less than to add to a sum each time."""
        self._lock = threading.Lock()
        """Held while `_waiting` changes."""
        self._store_lock = threading.Lock()
        """Held while the store is used."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._day_begin, self._day_end, self._day = 0.0, 0.0, ""
        """The day of the last request, between two Unix times: to format it costs more than to add the numbers."""

    def add(self, caller: str, model: str, totals: Totals) -> None:
        """Add the numbers of one request to the row of today, its caller and its model."""
        key = RowKey(self._today(), caller, model[:MAX_NAME])
        with self._lock:
            self._add_row(key, totals)
            if self._thread is None:
                self._thread = start_background_thread("parley-usage", self._write_rows)

    def _add_row(self, key: RowKey, totals: Totals) -> None:
        found = self._waiting.get(key)
        if found is None and len(self._waiting) >= self._rules.max_rows:
            key = RowKey(key.day, key.key, OTHER_MODELS)
            found = self._waiting.get(key)
        if found is None:
            self._waiting[key] = [totals]
            return
        found.append(totals)
        if len(found) >= _MOST_ADDENDS:
            found[:] = [add_totals(found)]

    def _today(self) -> str:
        now = self._rules.clock()
        if not self._day_begin <= now < self._day_end:
            self._day_begin = now // _DAY_SECONDS * _DAY_SECONDS
            self._day_end, self._day = self._day_begin + _DAY_SECONDS, utc_day(now)
        return self._day

    def read(self, query: UsageQuery, most: int = _MAX_RESULT_ROWS) -> list[UsageRow]:
        """Return totals, with what this process has counted until now. Raises UsageStoreError and TooManyRows."""
        self._flush()
        with self._store_lock:
            rows = self._store.read(query, most + 1)
        if len(rows) > most:
            raise TooManyRows(most)
        return rows

    def close(self) -> None:
        """Write all rows, and close the store. Nothing may be added afterwards."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._flush()
        except UsageStoreError as error:
            requests = sum(add_totals(counted).requests for counted in self._waiting.values())
            log.error("usage: the totals of %d requests are lost: %s", requests, error)
        with self._store_lock:
            self._store.close()

    # The thread.

    def _write_rows(self) -> None:
        while not self._closing.wait(self._next_wait_seconds()):  # then `close` writes the rest
            try:
                self._flush()
            except UsageStoreError as error:
                self._failures += 1
                if self._failures == 1:
                    log.error("usage: the totals cannot be written, and are kept in memory until they can: %s", error)
            except Exception:
                log.exception("usage: defect while writing the totals")
            else:
                if self._failures:
                    log.info("usage: the totals are written again")
                self._failures = 0

    def _next_wait_seconds(self) -> float:
        return min(self._rules.flush_seconds * 2.0 ** min(self._failures, 30), self._rules.max_retry_seconds)

    def _flush(self) -> None:
        """Write the rows that wait. Raises UsageStoreError, and then keeps what is not written."""
        with self._store_lock:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            rows = [UsageRow(key, add_totals(counted)) for key, counted in waiting.items()]
            batches: list[Sequence[UsageRow]] = [rows] if rows else []
            while batches:
                batch = batches.pop()
                try:
                    self._store.add(batch)
                except UsageRowError as error:
                    batches += _split_batch(batch, error)
                except BaseException:
                    with self._lock:
                        for row in chain(batch, *batches):
                            self._add_row(row.key, row.totals)
                    raise


def _split_batch(batch: Sequence[UsageRow], error: UsageRowError) -> list[Sequence[UsageRow]]:
    """Return the halves of a batch of which the store cannot hold a row, so that the others are written. A row alone is
    dropped."""
    if len(batch) > 1:
        middle = len(batch) // 2
        return [batch[:middle], batch[middle:]]
    (row,) = batch
    log.error(
        "usage: the totals of %d requests of the key %r and the model %r are lost, because they cannot be written: %s",
        row.totals.requests,
        row.key.key,
        row.key.model,
        error,
    )
    return []


def utc_day(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d")
