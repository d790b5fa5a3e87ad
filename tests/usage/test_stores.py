"""Every store of usage keeps the same contract. PostgreSQL is tested if PARLEY_TEST_POSTGRES names a database."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.usage.stores import UsageRowError, UsageStore, UsageStoreError, open_usage_store
from app.usage.totals import RowKey, Totals, UsageQuery, UsageRow, sum_totals
from app.usage.urls import FileUrl, NoUrl, PostgresUrl, describe_usage_url, parse_usage_url

ALL = UsageQuery("2026-01-01", "2026-12-31")
POSTGRES = os.environ.get("PARLEY_TEST_POSTGRES")


def row(day: str, key: str, model: str, **numbers: float) -> UsageRow:
    return UsageRow(RowKey(day, key, model), Totals(**numbers))  # type: ignore[arg-type]  # the cost alone is a float


@pytest.fixture(params=["memory", "file", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileUrl | PostgresUrl]:
    if request.param == "postgres":
        if not POSTGRES:
            pytest.skip("PARLEY_TEST_POSTGRES names no database")
        import psycopg

        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS usage_totals")
        found = parse_usage_url(POSTGRES)
        assert isinstance(found, PostgresUrl)
        yield found
    else:
        yield FileUrl(str(tmp_path / "folder" / "usage.db") if request.param == "file" else "")


@pytest.fixture
def store(address: FileUrl | PostgresUrl) -> Iterator[UsageStore]:
    store = open_usage_store(address)
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


def test_a_row_that_the_database_cannot_hold_is_an_error_and_nothing_is_added(store: UsageStore) -> None:
    store.add([row("2026-11-22", "a", "m", requests=1)])
    for bad in (row("2026-11-22", "a", "m", input_tokens=2**63), row("2026-11-22", "a", "\ud800", requests=1)):
        with pytest.raises(UsageRowError):
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
        store = open_usage_store(address)
        for _ in range(10):
            store.add([row("2026-11-22", "a", name, requests=1, cost=0.5) for name in order])
        store.close()

    threads = [threading.Thread(target=write, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = open_usage_store(address)
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
    store = open_usage_store(FileUrl(str(path)))
    store.add([row("2026-11-22", "a", "m", requests=1)])
    assert len(store.read(ALL, 10)) == 1
    release.join()
    store.close()
    other.close()


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    store = open_usage_store(FileUrl(str(path)))
    with pytest.raises(UsageStoreError, match="database of another program"):
        store.add([row("2026-11-22", "a", "m", requests=1)])
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(UsageStoreError, match="not a database"):
        store.read(ALL, 10)
    assert path.read_bytes().startswith(b"no database")


def test_a_file_of_usage_is_readable_by_its_user_only(tmp_path: Path) -> None:
    store = open_usage_store(FileUrl(str(tmp_path / "usage.db")))
    store.add([row("2026-11-22", "a", "m", requests=1)])
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("usage.db*")} == {0o600}
    store.close()


def test_an_unreachable_postgres_is_an_error_that_shows_no_password() -> None:
    address = parse_usage_url("postgresql://me:hunter2@127.0.0.1:1/parley")
    assert isinstance(address, PostgresUrl)
    assert "hunter2" not in repr(address)
    store = open_usage_store(address)
    with pytest.raises(UsageStoreError, match=r"database parley at 127\.0\.0\.1: ") as raised:
        store.read(ALL, 10)
    assert "hunter2" not in str(raised.value)


def test_urls_name_a_database() -> None:
    for url, want in (
        ("memory:", "memory"),
        ("null:", "null"),
        ("sqlite:///usage.db", "usage.db"),
        ("sqlite:////data/a%20b.db", "/data/a b.db"),
        ("postgresql://u:p@db.test/parley?sslmode=require", "database parley at db.test"),
    ):
        assert describe_usage_url(parse_usage_url(url)) == want
    assert isinstance(parse_usage_url("null:"), NoUrl)
    for url in ("usage.db", "sqlite://x", "sqlite:///", "mysql://h/d", "postgresql://host", "memory:x", "redis://h/0"):
        with pytest.raises(ValueError, match="must"):
            parse_usage_url(url)
