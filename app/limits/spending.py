"""`Spending`: what was spent of the limits of money, in the state database, so that all workers and gateways of one
database share the sums.

A request reserves the most that it can cost, and is admitted while less than the limit is spent and reserved; at its
end the reservation becomes what it cost. So all requests together spend at most the limit and what one of them costs,
whatever is killed: what a killed process had reserved counts as spent until the day or month is over.

Each day and month has a row of its own, by its name in a time zone: a clock that is set back counts on the sum of the
day to which it was set.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from time import time
from typing import TypeAlias

from msgspec import Struct

from app.limits.values import Kind, Rule
from app.runtime.throttled_log import ThrottledLog
from app.state import Database, StateError, ValueRefused
from app.state.base import Row
from app.stores.worker import SqliteWorker

log = logging.getLogger("parley.limits")

_SECONDS = 10.0
"""How long a request waits for its reservation."""
_RETRY_SECONDS = 1.0
"""After what time the ends of requests are written again, if the database failed."""
_CLOSE_SECONDS = 5.0
_MOST = 2**62
_INSERT = "INSERT INTO spending (counter, period, spent, reserved) VALUES (?, ?, 0, 0) ON CONFLICT DO NOTHING"
_READ = "SELECT spent, reserved FROM spending WHERE counter = ? AND period = ?"
_FIND = (
    "SELECT counter, spent FROM spending WHERE period = ? AND spent >= ? AND counter LIKE ? ESCAPE '!' "
    "ORDER BY spent DESC LIMIT ?"
)
_ESCAPED = re.compile("[!%_]")
_UPDATE = "UPDATE spending SET spent = ?, reserved = ? WHERE counter = ? AND period = ?"

_Key: TypeAlias = tuple[str, str]
"""The names of a counter and of its day or month."""


class Sum(Struct, frozen=True):
    """In parts of the currency (`UNITS_OF_MONEY`)."""

    spent: int = 0
    reserved: int = 0


class SpendingUnavailable(Exception):
    """The state database cannot be used now; the message says why."""


class ReservedMoney(Struct, frozen=True):
    """What a request has reserved."""

    keys: tuple[_Key, ...]
    amount: int


class Exhausted(Struct, frozen=True):
    """The rules that refuse a request, and what they have counted."""

    rules: tuple[tuple[Rule, Sum], ...]


class _Change(Struct, frozen=True):
    """One operation of the worker on some rows."""

    keys: tuple[_Key, ...]
    apply: Callable[[dict[_Key, Sum]], object]
    """Gets the rows, may replace them, and returns the result."""


class Spending:
    """Belongs to one event loop. A thread writes, all waiting operations in one transaction."""

    def __init__(self, database: Database, zone: tzinfo = UTC, clock: Callable[[], float] = time) -> None:
        """`clock` returns Unix seconds. The database is not closed."""
        self.zone = zone
        self.clock = clock
        self._database = database
        self._worker = SqliteWorker[_Change]("spending", self._run, lambda: None)
        self._ended: dict[_Key, Sum] = {}
        """What requests that have ended add to the rows, and is not written."""
        self._closed = False
        self._oldest = ""
        """The first month of which the spending of end users was kept when old rows were deleted last."""
        self._retry: asyncio.TimerHandle | None = None
        self._throttled_log = ThrottledLog(log)

    def name_key(self, rule: Rule, now: float) -> _Key:
        return rule.counter, name_period(rule.kind, now, self.zone)

    async def reserve(self, rules: Sequence[Rule], amount: int) -> ReservedMoney | Exhausted:
        """Reserve an amount of all rules, or nothing. Raises SpendingUnavailable."""
        now = self.clock()
        keys = tuple(self.name_key(rule, now) for rule in rules)

        def apply(sums: dict[_Key, Sum]) -> ReservedMoney | Exhausted:
            found = [(rule, sums[key]) for rule, key in zip(rules, keys, strict=True)]
            refused = tuple((rule, row) for rule, row in found if row.spent + row.reserved >= rule.limit)
            if refused:
                return Exhausted(refused)
            added = min([amount, *(_MOST - row.reserved for _, row in found)])  # as much as is given back later
            for key in keys:
                sums[key] = Sum(sums[key].spent, sums[key].reserved + added)
            return ReservedMoney(keys, added)

        submitted = self._worker.submit(_Change(keys, apply))
        try:
            result = await self._wait(asyncio.shield(submitted))
        except BaseException:
            submitted.add_done_callback(self._give_back)  # it may be made although nothing waits for it
            raise
        assert isinstance(result, ReservedMoney | Exhausted)
        return result

    def _give_back(self, made: "asyncio.Future[object]") -> None:
        if not made.cancelled() and made.exception() is None and isinstance(result := made.result(), ReservedMoney):
            self.settle(result, 0, ())

    def settle(self, reserved: ReservedMoney | None, cost: int, rules: Iterable[Rule]) -> None:
        """End a request: its reservation is given back, and `cost` counts for these rules, in the day and month in
        which the request began. It is written soon, and again until it is."""
        periods = {} if reserved is None else dict(reserved.keys)
        for key, amount in () if reserved is None else ((key, reserved.amount) for key in reserved.keys):
            self._add(key, 0, -amount)
        if cost:
            now = self.clock()
            for rule in rules:
                counter, period = self.name_key(rule, now)
                self._add((counter, periods.get(counter, period)), cost, 0)
        self._write_ended()

    def _add(self, key: _Key, spent: int, reserved: int) -> None:
        row = self._ended.get(key, Sum())
        self._ended[key] = Sum(row.spent + spent, row.reserved + reserved)

    async def set_least(self, spent: Iterable[tuple[Rule, int]]) -> None:
        """Let at least these amounts be spent in the present day or month. Raises SpendingUnavailable."""
        now = self.clock()
        rows = {self.name_key(rule, now): amount for rule, amount in spent}

        def apply(sums: dict[_Key, Sum]) -> None:
            for key, amount in rows.items():
                sums[key] = Sum(max(amount, sums[key].spent), sums[key].reserved)

        if rows:
            await self._submit(_Change(tuple(rows), apply))

    async def read(self, rules: Sequence[Rule]) -> list[tuple[Rule, Sum]]:
        """Return what is spent and reserved now. Raises SpendingUnavailable."""
        now = self.clock()
        keys = tuple(self.name_key(rule, now) for rule in rules)
        result = await self._submit(_Change(keys, lambda sums: [sums[key] for key in keys]))
        assert isinstance(result, list)
        return list(zip(rules, result, strict=True))

    async def find_spent(self, counters: str, kind: Kind, least: int, most: int) -> dict[str, int]:
        """Return of which counters of this beginning and kind at least so much is spent in the present day or month,
        the highest first, at most so many. Raises SpendingUnavailable."""
        period = name_period(kind, self.clock(), self.zone)
        pattern = _ESCAPED.sub(r"!\g<0>", counters) + "%:" + _ESCAPED.sub(r"!\g<0>", kind)
        try:
            rows = await asyncio.to_thread(self._find, (period, least, pattern, most))
        except StateError as error:
            raise SpendingUnavailable(str(error)) from error
        # SQLite's LIKE takes capital and small letters as equal.
        return {str(counter): int(spent) for counter, spent in rows if str(counter).startswith(counters)}

    def _find(self, values: tuple[object, ...]) -> list[Row]:
        with self._database.snapshot() as statements:
            return statements.execute(_FIND, values)

    async def aclose(self) -> None:
        """Write what has ended, and stop the thread."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._ended:
            self._submit_ended()
        await asyncio.wait([asyncio.ensure_future(self._worker.aclose())], timeout=_CLOSE_SECONDS)

    async def _submit(self, change: _Change) -> object:
        return await self._wait(self._worker.submit(change))

    async def _wait(self, result: "asyncio.Future[object]") -> object:
        try:
            async with asyncio.timeout(_SECONDS):
                return await result
        except TimeoutError:
            raise SpendingUnavailable(f"no answer within {_SECONDS:g} s") from None
        except (StateError, ValueRefused) as error:
            raise SpendingUnavailable(str(error)) from error

    def _write_ended(self) -> None:
        if self._retry is None and self._ended:
            self._submit_ended()

    def _submit_ended(self) -> None:
        ended, self._ended = self._ended, {}

        def apply(sums: dict[_Key, Sum]) -> None:
            for key, row in ended.items():
                found = sums[key]
                sums[key] = Sum(min(_MOST, found.spent + row.spent), max(0, found.reserved + row.reserved))

        def on_written(written: "asyncio.Future[object]") -> None:
            error = None if written.cancelled() else written.exception()
            if error is None:
                return
            self._throttled_log.warn("what requests cost was not counted, and will be", error)
            for key, row in ended.items():
                self._add(key, row.spent, row.reserved)
            if self._closed:
                log.error("what the last requests cost is not counted for their limits: %s", error)
                return
            if self._retry is None:
                self._retry = written.get_loop().call_later(_RETRY_SECONDS, self._write_again)

        self._worker.submit(_Change(tuple(ended), apply)).add_done_callback(on_written)

    def _write_again(self) -> None:
        self._retry = None
        self._write_ended()

    # The thread.

    def _run(self, changes: Sequence[_Change]) -> list[object]:
        # In the order of their names, so that two processes cannot lock each other out.
        keys = sorted({key for change in changes for key in change.keys})
        self._delete_old()
        with self._database.transaction() as statements:
            statements.execute_many(_INSERT, keys)
            before: dict[_Key, Sum] = {}
            for key in keys:
                ((spent, reserved),) = statements.execute(_READ + statements.lock_rows, key)
                before[key] = Sum(spent, reserved)
            sums = dict(before)
            results = [change.apply(sums) for change in changes]
            changed = [(row.spent, row.reserved, *key) for key, row in sums.items() if row != before[key]]
            if changed:
                statements.execute_many(_UPDATE, changed)
        return results

    def _delete_old(self) -> None:
        """Delete what end users have spent before the last month, once for each month: they may be many."""
        oldest = _name_oldest_kept(self.clock(), self.zone)
        if oldest > self._oldest:
            with self._database.transaction() as statements:
                statements.execute("DELETE FROM spending WHERE counter LIKE ? AND period < ?", ("user:%", oldest))
            self._oldest = oldest


def _name_oldest_kept(now: float, zone: tzinfo) -> str:
    """Return the month before the present one: names of days and months before it are smaller."""
    first = datetime.fromtimestamp(now, zone).date().replace(day=1)
    return (first - timedelta(days=1)).strftime("%Y-%m")


def release_reserved(database: Database) -> list[tuple[str, str, int]]:
    """Give back all that is reserved, and return the counters with their periods and parts of the currency. It is what
    requests in progress may cost, and what killed processes had reserved. Raises StateError."""
    with database.transaction() as statements:
        query = "SELECT counter, period, reserved FROM spending WHERE reserved > 0 ORDER BY counter, period"
        found = statements.execute(query + statements.lock_rows)
        statements.execute("UPDATE spending SET reserved = 0 WHERE reserved > 0")
    return [(str(counter), str(period), int(reserved)) for counter, period, reserved in found]


def name_period(kind: Kind, now: float, zone: tzinfo) -> str:
    """Return the name of the day, `2026-11-26`, or of the month, `2026-11`."""
    return datetime.fromtimestamp(now, zone).strftime("%Y-%m-%d" if kind == "spend_per_day" else "%Y-%m")


def find_period_end(kind: Kind, now: float, zone: tzinfo) -> float:
    """Return the Unix time at which the day or month is over."""
    today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == "spend_per_day":
        following = today.date() + timedelta(days=1)
    else:
        following = (today.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    return datetime(following.year, following.month, following.day, tzinfo=zone).timestamp()
