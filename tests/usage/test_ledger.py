"""The ledger adds up in memory, writes in a thread, and keeps what cannot be written."""

import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import date

import pytest
from app.chat.token_usage import OTHER_USERS, UsageOwner
from app.state import StateError
from app.state.sqlite import SqliteDatabase
from app.usage.ledger import (
    OTHER_MODELS,
    OTHER_TAGS,
    LedgerRules,
    TooManyRows,
    UsageLedger,
    find_first_kept_day,
    name_day,
)
from app.usage.store import UsageStore
from app.usage.totals import RowKey, Totals, UsageQuery, UsageRow, sum_totals

ALL = UsageQuery("2000-01-01", "2099-12-31")
ONE = Totals(requests=1, input_tokens=3, cost=0.5)


class FragileStore(UsageStore):
    """A store in memory that can be unreachable; `written` is set after each transaction that succeeds."""

    def __init__(self) -> None:
        super().__init__(SqliteDatabase(""))
        self.reachable = True
        self.closed = False
        self.written, self.failed = threading.Event(), threading.Event()

    def add(self, rows: Sequence[UsageRow]) -> None:
        if not self.reachable:
            self.failed.set()
            raise StateError("the database is away")
        super().add(rows)
        self.written.set()

    def close(self) -> None:
        self.closed = True


def test_rows_are_written_without_anybody_asking() -> None:
    store = FragileStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=0.01))
    for _ in range(3):
        ledger.add(UsageOwner("team"), "m", ONE)
        assert store.written.wait(5)
        store.written.clear()
    assert sum_totals(store.read(ALL, 10)).requests == 3
    ledger.close()
    assert store.closed


class ForgetfulStore(FragileStore):
    """Tells which days were deleted; `deleted` is set afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[str] = []
        self.deleted = threading.Event()

    def delete_before(self, day: str) -> None:
        super().delete_before(day)
        self.before.append(day)
        self.deleted.set()


def test_days_that_are_older_than_they_are_kept_are_deleted_once_a_day() -> None:
    store, now = ForgetfulStore(), [1_795_305_600.0]  # 2026-11-22
    store.add([UsageRow(RowKey(day, "a", "m"), ONE) for day in ("2026-10-31", "2026-11-01", "2026-11-02")])
    rules = LedgerRules(flush_seconds=0.001, keep_days=7, clock=lambda: now[0])
    ledger = UsageLedger(store, rules)
    ledger.add(UsageOwner("a"), "m", ONE)
    assert store.deleted.wait(5)
    assert [row.key.day for row in ledger.read(ALL)] == ["2026-11-01", "2026-11-02", "2026-11-22"]
    store.deleted.clear()
    now[0] += 9 * 86_400  # 2026-12-01
    assert store.deleted.wait(5)
    ledger.close()
    assert store.before == ["2026-11-01", "2026-11-24"]


def test_the_month_in_progress_is_kept_whole() -> None:
    assert find_first_kept_day(date(2026, 11, 22), 1) == "2026-11-01"
    assert find_first_kept_day(date(2026, 11, 22), 30) == "2026-10-23"


def test_without_a_number_of_days_nothing_is_deleted() -> None:
    store = ForgetfulStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=0.001))
    for _ in range(2):
        ledger.add(UsageOwner("a"), "m", ONE)
        assert store.written.wait(5)
        store.written.clear()
    ledger.close()
    assert store.before == []


def test_a_reader_and_the_end_see_what_was_added_just_now() -> None:
    store = FragileStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, clock=lambda: 1_795_305_600.0))
    ledger.add(UsageOwner("team"), "m", ONE)
    ledger.add(UsageOwner("team"), "m", ONE)
    assert ledger.read(ALL) == [
        UsageRow(RowKey("2026-11-22", "team", "m"), Totals(requests=2, input_tokens=6, cost=1.0))
    ]
    ledger.add(UsageOwner(""), "n" * 500, ONE)
    ledger.close()
    assert [len(row.key.model) for row in store.read(ALL, 10)] == [200, 1]


def test_each_request_counts_for_the_day_of_its_end_in_utc() -> None:
    midnight = 1_795_305_600.0
    times = iter((midnight - 86_400.0, midnight - 0.1, midnight, midnight + 1.0, midnight - 0.1))
    store = FragileStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, clock=lambda: next(times)))
    for _ in range(5):
        ledger.add(UsageOwner("team"), "m", ONE)
    ledger.close()
    assert {row.key.day: row.totals.requests for row in store.read(ALL, 10)} == {"2026-11-21": 3, "2026-11-22": 2}


def test_an_unreachable_store_loses_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parley.usage")
    store = FragileStore()
    store.reachable = False
    ledger = UsageLedger(store, LedgerRules(flush_seconds=0.001, max_retry_seconds=0.002))
    for _ in range(4):
        ledger.add(UsageOwner("team"), "m", ONE)
        assert store.failed.wait(5)
        store.failed.clear()
    store.reachable = True
    assert store.written.wait(5)
    assert sum_totals(ledger.read(ALL)) == Totals(requests=4, input_tokens=12, cost=2.0)
    ledger.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_row_that_the_store_cannot_hold_is_dropped_and_the_others_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FragileStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60))
    for number in range(5):
        ledger.add(UsageOwner("team"), f"m{number}", ONE)
    ledger.add(UsageOwner("team"), "m3", Totals(requests=1, input_tokens=2**63))
    assert [row.key.model for row in ledger.read(ALL)] == ["m0", "m1", "m2", "m4"]
    (record,) = caplog.records
    assert "the totals of 2 requests of the key 'team' and the model 'm3' are lost" in record.message
    ledger.add(UsageOwner("team"), "m3", ONE)
    ledger.close()
    assert sum_totals(store.read(ALL, 10)) == Totals(requests=5, input_tokens=15, cost=2.5)


def test_rows_that_are_written_are_not_kept_when_the_store_fails_then() -> None:
    class FailingStore(FragileStore):
        """Becomes unreachable after one batch."""

        def add(self, rows: Sequence[UsageRow]) -> None:
            super().add(rows)
            self.reachable = False

    store = FailingStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60))
    for name in ("m0", "m1", "m2", "m3"):
        ledger.add(UsageOwner("team"), name, ONE)
    ledger.add(UsageOwner("team"), "m2", Totals(input_tokens=2**63))
    with pytest.raises(StateError):
        ledger.read(ALL)
    assert [row.key.model for row in store.read(ALL, 10)] == ["m3"]
    store.reachable = True
    ledger.close()
    assert {row.key.model: row.totals for row in store.read(ALL, 10)} == dict.fromkeys(("m0", "m1", "m3"), ONE)


def test_what_is_lost_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    store = FragileStore()
    store.reachable = False
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60))
    ledger.add(UsageOwner("team"), "m", ONE)
    ledger.close()
    assert "the totals of 1 requests are lost: the database is away" in caplog.text
    assert store.closed


def test_the_rows_that_wait_are_bounded() -> None:
    store = FragileStore()
    store.reachable = False
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_rows=3))
    for number in range(10):
        ledger.add(UsageOwner("team"), f"m{number}", ONE)
    store.reachable = True
    rows = ledger.read(ALL)
    assert [row.key.model for row in rows] == [OTHER_MODELS, "m0", "m1", "m2"]
    assert sum_totals(rows).requests == 10
    with pytest.raises(TooManyRows, match="more than 3 rows"):
        ledger.read(ALL, most=3)
    ledger.close()


def add_names(ledger: UsageLedger, caller: str, names: Iterable[str]) -> None:
    for name in names:
        ledger.add(UsageOwner(caller), name, ONE)


def test_names_that_callers_invent_share_a_row_beyond_the_first_of_each_day() -> None:
    now = [1_795_305_600.0]
    store = FragileStore()
    for _ in range(3):  # the gateway restarts
        ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_unconfigured=3, clock=lambda: now[0]))
        ledger.set_models(["m", "n"])
        add_names(ledger, "a", ["x1", "m", "x2", "x1"])
        ledger.read(ALL)
        add_names(ledger, "b", ["x1", "x2", "x3", "n", "x2", ""])
        ledger.close()
    rows = store.read(ALL, 100)
    assert {(row.key.key, row.key.model): row.totals.requests for row in rows} == {
        ("a", "m"): 3,
        ("a", "x1"): 6,
        ("a", "x2"): 3,
        ("b", ""): 3,
        ("b", "n"): 3,
        ("b", "x1"): 3,
        ("b", OTHER_MODELS): 9,
    }
    now[0] += 86_400
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_unconfigured=3, clock=lambda: now[0]))
    ledger.set_models(["m", "n"])
    add_names(ledger, "b", ["x3"])
    assert [row.key.model for row in ledger.read(UsageQuery("2026-11-23", "2026-11-23"))] == ["x3"]
    ledger.close()


def test_several_processes_share_the_bound_and_a_new_configuration_changes_the_names() -> None:
    store = FragileStore()
    ledgers = [UsageLedger(store, LedgerRules(flush_seconds=60, max_unconfigured=4)) for _ in range(3)]
    for ledger in ledgers:
        ledger.set_models([])
    for at in range(30):
        ledgers[at % 3].add(UsageOwner("team"), f"x{at}", ONE)
        ledgers[at % 3].read(ALL)
    assert sorted(row.key.model for row in store.read(ALL, 100)) == [OTHER_MODELS, "x0", "x1", "x2", "x3"]
    ledgers[0].set_models(["x9"])
    ledgers[0].add(UsageOwner("team"), "x9", ONE)
    assert "x9" in [row.key.model for row in ledgers[0].read(ALL)]
    assert sum_totals(store.read(ALL, 100)).requests == 31


def test_an_unreachable_store_loses_no_name_that_callers_invented() -> None:
    store = FragileStore()
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_unconfigured=2))
    ledger.set_models([])
    store.reachable = False
    add_names(ledger, "team", ["x1", "x2", "x3"])
    with pytest.raises(StateError):
        ledger.read(ALL)
    store.reachable = True
    assert {row.key.model: row.totals.requests for row in ledger.read(ALL)} == {"x1": 1, "x2": 1, OTHER_MODELS: 1}
    ledger.close()


def test_days_are_those_of_utc() -> None:
    assert name_day(1_795_391_999.9) == "2026-11-22"
    assert name_day(1_795_392_000.0) == "2026-11-23"


def test_users_and_tags_share_a_row_beyond_the_first_of_each_key_and_day() -> None:
    store, now = FragileStore(), [1_795_305_600.0]
    for _ in range(2):  # the gateway restarts
        rules = LedgerRules(flush_seconds=60, max_users=2, max_tags=1, clock=lambda: now[0])
        ledger = UsageLedger(store, rules)
        for user in ("ann", "bob", "eve", "joe", "", "ann"):
            ledger.add(UsageOwner("k", "", user), "m", ONE)
        ledger.add(UsageOwner("other", "", "joe"), "m", ONE)
        for tags in (("a",), ("a", "b"), ()):
            ledger.add(UsageOwner("t", tags=tags), "m", ONE)
        ledger.close()
    rows = store.read(UsageQuery("2000-01-01", "2099-12-31", ("key", "user", "tag")), 100)
    assert {(row.key.key, row.key.user, row.key.tag): row.totals.requests for row in rows} == {
        ("k", "", ""): 2,
        ("k", "ann", ""): 4,
        ("k", "bob", ""): 2,
        ("k", OTHER_USERS, ""): 4,
        ("other", "joe", ""): 2,
        ("t", "", ""): 2,
        ("t", "", "a"): 2,
        ("t", "", OTHER_TAGS): 2,
    }
    now[0] += 86_400
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_users=2, clock=lambda: now[0]))
    ledger.add(UsageOwner("k", "", "joe"), "m", ONE)
    assert [row.key.user for row in ledger.read(UsageQuery("2026-11-23", "2026-11-23", ("user",)))] == ["joe"]
    ledger.close()


def test_what_waits_for_the_store_is_bounded_whatever_users_and_tags_are_called() -> None:
    store = FragileStore()
    store.reachable = False
    ledger = UsageLedger(store, LedgerRules(flush_seconds=60, max_rows=2))
    for number in range(5):
        ledger.add(UsageOwner("k", "red", f"u{number}", (f"t{number}",)), "m", ONE)
    store.reachable = True
    rows = ledger.read(UsageQuery("2000-01-01", "2099-12-31", ("user", "model", "tag")))
    assert [(row.key.user, row.key.model, row.key.tag, row.totals.requests) for row in rows] == [
        (OTHER_USERS, OTHER_MODELS, OTHER_TAGS, 3),
        ("u0", "m", "t0", 1),
        ("u1", "m", "t1", 1),
    ]
    ledger.close()
