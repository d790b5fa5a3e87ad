"""`UsageLedger`: adds up the usage of requests in memory, and writes the totals to a store once a second.

Requests only add numbers to a row in memory. One thread writes all rows that changed in one transaction, so a process
that is killed loses at most the last second. While the store cannot be used, the rows stay in memory, whose size is
bounded: there is one row for each day, key and model, and at most `max_rows` of them. A row that the store cannot
hold is dropped. Behind a pass-through callers may name any model, so of the names that are not configured only the
first of each day have rows of their own.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from app.chat.token_usage import OTHER_USERS, UsageOwner
from app.runtime.background_thread import start_background_thread
from app.state import StateError, ValueRefused
from app.usage.store import UsageStore
from app.usage.tags import join_tags
from app.usage.totals import RowKey, Totals, UsageQuery, UsageRow, add_totals

log = logging.getLogger("parley.usage")

OTHER_MODELS = "(other models)"
"""The model of the row that takes what exceeds `max_rows` and `max_unconfigured`."""
OTHER_TAGS = "(other tags)"
"""The tag of the row that takes what exceeds `max_tags`."""
_SHARED_NAMES = frozenset(("", OTHER_USERS, OTHER_TAGS))
_MAX_KNOWN_NAMES = 1_000_000
"""How many users and tags of a day are read at most."""
MAX_NAME = 200
"""Longer names of models are cut, in characters."""
_MAX_RESULT_ROWS = 10_000
_KNOWN_DAYS = 3
"""For how many days it is kept which models have rows of their own: rows may wait for the store."""
_MOST_ADDENDS = 256
"""As many numbers of one row are added up at the latest."""


class LedgerRules(Struct, frozen=True):
    flush_seconds: float = 1.0
    max_retry_seconds: float = 60.0
    """While the store cannot be used, the wait between two attempts doubles up to this time."""
    max_rows: int = 10_000
    """Rows that wait to be written."""
    max_users: int = 10_000
    """Users of a key which have rows of their own, for each day."""
    max_tags: int = 1000
    """Sets of tags of a key which have rows of their own, for each day."""
    max_unconfigured: int = 100
    """Pairs of a key and a model that is not configured which have a row of their own, for each day."""
    zone: tzinfo = UTC
    """In which a day begins at midnight."""
    keep_days: int | None = None
    """For how many days before today totals are kept, and always for the month in progress; None: forever."""
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
        self._models: Collection[str] | None = None
        """The names of the configured models; None: every name has rows of its own."""
        self._unconfigured: dict[str, set[tuple[str, str]]] = {}
        """For each day, the keys and models that are not configured and have rows of their own."""
        self._names: dict[str, _NamesOfDay] = {}
        """The users and tags that have rows of their own, by the day; only used while some are counted."""
        self._deleted_before = ""
        """The first day that was kept when old days were deleted last."""
        self._day_begin, self._day_end, self._day = 0.0, 0.0, ""
        """The day of the last request, between two Unix times: to format it costs more than to add the numbers."""

    def set_models(self, names: Collection[str]) -> None:
        """Set the names of the configured models, whose rows are never joined with others."""
        self._models = frozenset(name[:MAX_NAME] for name in names)

    def add(self, owner: UsageOwner, model: str, totals: Totals) -> None:
        """Add the numbers of one request to the row of today, its owner and its model."""
        key = RowKey(self._today(), owner.key, model[:MAX_NAME], owner.team, owner.user, join_tags(owner.tags))
        with self._lock:
            self._add_row(key, totals)
            if self._thread is None:
                self._thread = start_background_thread("parley-usage", self._write_rows)

    def _add_row(self, key: RowKey, totals: Totals) -> None:
        found = self._waiting.get(key)
        if found is None and len(self._waiting) >= self._rules.max_rows:
            key = _join_names(replace(key, model=OTHER_MODELS), users=True, tags=True)
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
            today = datetime.fromtimestamp(now, self._rules.zone).date()
            self._day, self._day_begin = today.isoformat(), _midnight(today, self._rules.zone)
            self._day_end = _midnight(today + timedelta(days=1), self._rules.zone)
        return self._day

    def read(self, query: UsageQuery, most: int = _MAX_RESULT_ROWS) -> list[UsageRow]:
        """Return totals, with what this process has counted until now. Raises StateError and TooManyRows."""
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
        except StateError as error:
            requests = sum(add_totals(counted).requests for counted in self._waiting.values())
            log.error("usage: the totals of %d requests are lost: %s", requests, error)
        with self._store_lock:
            self._store.close()

    # The thread.

    def _write_rows(self) -> None:
        while not self._closing.wait(self._next_wait_seconds()):  # then `close` writes the rest
            try:
                self._flush()
                self._delete_old_days()
            except StateError as error:
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
        """Write the rows that wait. Raises StateError, and then keeps what is not written."""
        with self._store_lock:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            rows = [UsageRow(key, add_totals(counted)) for key, counted in waiting.items()]
            batches: list[Sequence[UsageRow]] = [rows] if rows else []
            while batches:
                batch = batches.pop()
                try:
                    self._store.add(self._join_unconfigured(self._join_many_names(batch)))
                except ValueRefused as error:
                    batches += _split_batch(batch, error)
                except BaseException:
                    with self._lock:
                        for row in chain(batch, *batches):
                            self._add_row(row.key, row.totals)
                    raise

    def _delete_old_days(self) -> None:
        """Delete days that are older than they are kept, once for each new day. Raises StateError."""
        if self._rules.keep_days is None:
            return
        today = datetime.fromtimestamp(self._rules.clock(), self._rules.zone).date()
        first = find_first_kept_day(today, self._rules.keep_days)
        if first > self._deleted_before:
            with self._store_lock:
                self._store.delete_before(first)
            self._deleted_before = first

    def _join_unconfigured(self, rows: Sequence[UsageRow]) -> Sequence[UsageRow]:
        """Return the rows, with one for all models that are not configured and are too many to have their own. Raises
        StateError."""
        if self._models is None:
            return rows
        pairs: dict[str, dict[tuple[str, str], None]] = {}
        for row in rows:
            if not self._is_named(row.key.model):
                pairs.setdefault(row.key.day, {})[row.key.key, row.key.model] = None
        for day, found in pairs.items():
            self._give_own_rows(day, found)
        joined: dict[RowKey, list[Totals]] = {}
        for row in rows:
            key = row.key
            if not (self._is_named(key.model) or (key.key, key.model) in self._unconfigured[key.day]):
                key = replace(key, model=OTHER_MODELS)
            joined.setdefault(key, []).append(row.totals)
        return [UsageRow(key, add_totals(counted)) for key, counted in joined.items()]

    def _join_many_names(self, rows: Sequence[UsageRow]) -> Sequence[UsageRow]:
        """Return the rows, with one for all users, and one for all sets of tags, beyond those that have rows of their
        own. Raises StateError."""
        joined: dict[RowKey, list[Totals]] = {}
        for row in rows:
            key = row.key
            if key.user or key.tag:
                names = self._read_names(key.day)
                key = _join_names(
                    key,
                    users=not names.users.admit(key.key, key.user, self._rules.max_users),
                    tags=not names.tags.admit(key.key, key.tag, self._rules.max_tags),
                )
            joined.setdefault(key, []).append(row.totals)
        return [UsageRow(key, add_totals(counted)) for key, counted in joined.items()]

    def _read_names(self, day: str) -> "_NamesOfDay":
        """Return the users and tags of a day that have rows of their own. Those that other processes have written until
        now, or this one before a restart, count. Raises StateError."""
        names = self._names.get(day)
        if names is None:
            names = _NamesOfDay()
            for row in self._store.read(UsageQuery(day, day, ("key", "user", "tag")), _MAX_KNOWN_NAMES):
                names.users.admit(row.key.key, row.key.user, self._rules.max_users)
                names.tags.admit(row.key.key, row.key.tag, self._rules.max_tags)
            kept = sorted({*self._names, day})[-_KNOWN_DAYS:]
            self._names = {one: names if one == day else self._names[one] for one in {*kept, day}}
        return names

    def _give_own_rows(self, day: str, pairs: Collection[tuple[str, str]]) -> None:
        """Give rows of their own to these keys and models, as long as the day has too few of them. Those that other
        processes have written, or this one before a restart, count. Raises StateError."""
        known, most = self._unconfigured.get(day), self._rules.max_unconfigured
        if known is None or (len(known) < most and not known.issuperset(pairs)):
            rows = self._store.read(UsageQuery(day, day), _MAX_RESULT_ROWS)
            known = {(row.key.key, row.key.model) for row in rows if not self._is_named(row.key.model)}
            known.update(list(pair for pair in pairs if pair not in known)[: max(0, most - len(known))])
            kept = sorted({*self._unconfigured, day})[-_KNOWN_DAYS:]
            self._unconfigured = {name: known if name == day else self._unconfigured[name] for name in {*kept, day}}

    def _is_named(self, model: str) -> bool:
        return not model or model == OTHER_MODELS or (self._models is not None and model in self._models)


class _OwnNames:
    """The names of each key that have rows of their own."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def admit(self, key: str, name: str, most: int) -> bool:
        """Whether the name has rows of its own, which it gets while there are fewer than `most`."""
        if name in _SHARED_NAMES:
            return True
        names = self._names[key]
        if name not in names and len(names) < most:
            names.add(name)
        return name in names


class _NamesOfDay:
    def __init__(self) -> None:
        self.users, self.tags = _OwnNames(), _OwnNames()


def _join_names(key: RowKey, *, users: bool, tags: bool) -> RowKey:
    """Return the key of the row for all users, or all tags, that have none of their own."""
    user = OTHER_USERS if users and key.user else key.user
    return replace(key, user=user, tag=OTHER_TAGS if tags and key.tag else key.tag)


def _split_batch(batch: Sequence[UsageRow], error: ValueRefused) -> list[Sequence[UsageRow]]:
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


def name_day(unix_seconds: float, zone: tzinfo = UTC) -> str:
    """Return the day, as 2026-11-26."""
    return datetime.fromtimestamp(unix_seconds, zone).date().isoformat()


def find_first_kept_day(today: date, keep_days: int) -> str:
    """Return the first day that is kept. The month in progress is kept whole: limits of spending may be counted from
    its totals."""
    return min(today - timedelta(days=keep_days), today.replace(day=1)).isoformat()


def _midnight(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
