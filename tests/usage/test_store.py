"""Usage is the same on every state database."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.state import StateError, ValueRefused, open_database
from app.state.urls import FileUrl, PostgresUrl
from app.usage.store import UsageStore
from app.usage.totals import GroupBy, RowKey, Totals, UsageQuery, UsageRow, sum_totals

from tests.state.databases import KINDS, make_address

ALL = UsageQuery("2026-01-01", "2026-12-31")


def row(day: str, key: str, model: str, **numbers: float) -> UsageRow:
    return UsageRow(RowKey(day, key, model), Totals(**numbers))  # type: ignore[arg-type]  # the cost alone is a float


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> FileUrl | PostgresUrl:
    return make_address(request.param, tmp_path)


@pytest.fixture
def store(address: FileUrl | PostgresUrl) -> Iterator[UsageStore]:
    store = UsageStore(open_database(address))
    yield store
    store.close()


def test_added_rows_are_summed_and_grouped(store: UsageStore) -> None:
    store.add([row("2026-11-21", "a", "m", requests=1, input_tokens=10, cost=0.25)])
    store.add(
        [
            row("2026-11-21", "a", "m", requests=2, input_tokens=2**40, cost=0.5),
            row("2026-11-21", "b", "m", requests=1, errors=1),
            row("2026-11-22", "a", "n", requests=1, cache_hits=1, saved_tokens=7),
        ]
    )
    assert store.read(ALL, 10) == [
        row("2026-11-21", "a", "m", requests=3, input_tokens=10 + 2**40, cost=0.75),
        row("2026-11-21", "b", "m", requests=1, errors=1),
        row("2026-11-22", "a", "n", requests=1, cache_hits=1, saved_tokens=7),
    ]
    by_key = store.read(UsageQuery("2026-01-01", "2026-12-31", ("key",)), 10)
    assert [(one.key.key, one.totals.requests) for one in by_key] == [("a", 4), ("b", 1)]
    assert sum_totals(by_key) == sum_totals(store.read(ALL, 10))
    by_model = store.read(UsageQuery("2026-11-22", "2026-11-22", ("model", "day"), key="a"), 10)
    assert [(one.key, one.totals.saved_tokens) for one in by_model] == [(RowKey("2026-11-22", "", "n"), 7)]
    assert store.read(UsageQuery("2026-11-21", "2026-11-21", ("model",), model="n"), 10) == []
    assert len(store.read(ALL, 2)) == 2


def test_a_row_has_the_team_that_its_key_had_last_and_can_be_grouped_by_it(store: UsageStore) -> None:
    for team, key in (("red", "a"), ("blue", "a"), ("blue", "b"), ("", "c")):
        store.add([UsageRow(RowKey("2026-11-22", key, "m", team), Totals(requests=1))])
    by_team = store.read(UsageQuery("2026-11-22", "2026-11-22", ("team",)), 10)
    assert [(one.key.team, one.totals.requests) for one in by_team] == [("", 1), ("blue", 3)]
    of_blue = store.read(UsageQuery("2026-11-22", "2026-11-22", ("key", "team"), team="blue"), 10)
    assert [(one.key.key, one.key.team) for one in of_blue] == [("a", "blue"), ("b", "blue")]


def test_days_before_another_one_can_be_deleted(store: UsageStore) -> None:
    store.add([row(day, "a", "m", requests=1) for day in ("2025-12-31", "2026-11-20", "2026-11-21")])
    store.delete_before("2026-11-21")
    assert [one.key.day for one in store.read(UsageQuery("2000-01-01", "2026-12-31"), 10)] == ["2026-11-21"]


def test_a_row_that_the_database_cannot_hold_is_an_error_and_nothing_is_added(store: UsageStore) -> None:
    store.add([row("2026-11-22", "a", "m", requests=1)])
    for bad in (row("2026-11-22", "a", "m", input_tokens=2**63), row("2026-11-22", "a", "\ud800", requests=1)):
        with pytest.raises(ValueRefused):
            store.add([row("2026-11-22", "a", "m", requests=1), bad])
        assert store.read(ALL, 10) == [row("2026-11-22", "a", "m", requests=1)]


def test_a_sum_may_have_more_than_64_bits(store: UsageStore) -> None:
    store.add([row("2026-11-22", "a", name, requests=1, input_tokens=2**62) for name in ("l", "m", "n")])
    by_key = store.read(UsageQuery("2026-01-01", "2026-12-31", ("key",)), 10)
    assert [(one.totals.requests, one.totals.input_tokens) for one in by_key] == [(3, 3 * 2**62)]


def test_two_processes_add_to_the_same_rows(address: FileUrl | PostgresUrl) -> None:
    if address == FileUrl(""):
        pytest.skip("memory belongs to one process")
    names = [f"m{number}" for number in range(20)]

    def write(order: list[str]) -> None:
        store = UsageStore(open_database(address))
        for _ in range(10):
            store.add([row("2026-11-22", "a", name, requests=1, cost=0.5) for name in order])
        store.close()

    threads = [threading.Thread(target=write, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = UsageStore(open_database(address))
    found = store.read(ALL, 100)
    assert [(one.key.model, one.totals.requests, one.totals.cost) for one in found] == [
        (name, 20, 10.0) for name in sorted(names)
    ]
    store.close()


def test_a_new_file_that_another_process_is_opening_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, other.execute, ["COMMIT"])
    release.start()
    store = UsageStore(open_database(FileUrl(str(path))))
    store.add([row("2026-11-22", "a", "m", requests=1)])
    assert len(store.read(ALL, 10)) == 1
    release.join()
    store.close()
    other.close()


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    store = UsageStore(open_database(FileUrl(str(path))))
    with pytest.raises(StateError, match="database of another program"):
        store.add([row("2026-11-22", "a", "m", requests=1)])
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StateError, match="not a database"):
        store.read(ALL, 10)
    assert path.read_bytes().startswith(b"no database")


def test_a_file_of_usage_is_readable_by_its_user_only(tmp_path: Path) -> None:
    store = UsageStore(open_database(FileUrl(str(tmp_path / "usage.db"))))
    store.add([row("2026-11-22", "a", "m", requests=1)])
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("usage.db*")} == {0o600}
    store.close()


def test_users_and_tags_have_rows_of_their_own_and_can_be_asked_for(store: UsageStore) -> None:
    for user, tags in (("ann", "a,b"), ("ann", "ab"), ("bob", "b"), ("", "")):
        store.add([UsageRow(RowKey("2026-11-22", "k", "m", "red", user, tags), Totals(requests=1))] * 2)

    def read(*groups: GroupBy, **only: str) -> list[tuple[str, str, int]]:
        rows = store.read(UsageQuery("2026-11-22", "2026-11-22", groups, **only), 10)
        return [(row.key.user, row.key.tag, row.totals.requests) for row in rows]

    assert read("user") == [("", "", 2), ("ann", "", 4), ("bob", "", 2)]
    assert read("user", user="ann") == [("ann", "", 4)]
    assert read("tag", tag="b") == [("", "a,b", 2), ("", "b", 2)]
    assert read("tag", tag="a") == [("", "a,b", 2)]
    assert read("tag", tag="B") == [], "tags differ by their case"
    assert read("tag", tag="") == [("", "", 2)]
