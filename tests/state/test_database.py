"""Both kinds of state database keep the same contract."""

import contextlib
import os
import select
import socket
import socketserver
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from app.state import Database, StateError, ValueRefused, open_database
from app.state.migrations import MIGRATIONS, TABLES, VERSION
from app.state.sqlite import SqliteDatabase
from app.state.urls import FileUrl, PostgresUrl, parse_state_url
from app.usage.totals import NUMBERS

from tests.state.databases import KINDS, make_address

PUT = "INSERT INTO spending VALUES (?, ?, ?, ?)"
COUNT = "SELECT count(*) FROM spending"
COUNTS = [name for name in NUMBERS if name not in ("cost", "searches", "fetches")]
"""Those of the first version."""


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> FileUrl | PostgresUrl:
    return make_address(request.param, tmp_path)


@pytest.fixture
def database(address: FileUrl | PostgresUrl) -> Iterator[Database]:
    database = open_database(address)
    yield database
    database.close()


def count(database: Database) -> int:
    with database.transaction() as statements:
        return int(statements.execute(COUNT)[0][0])


def test_a_transaction_is_stored_whole_or_not_at_all(database: Database) -> None:
    with database.transaction() as statements:
        statements.execute_many(PUT, [("a", "d", 1, 0), ("b", "d", 2**63 - 1, 0)])
    for bad in (2**63, "\ud800"):
        with pytest.raises(ValueRefused), database.transaction() as statements:
            statements.execute(PUT, ("c", "d", 1, 0))
            statements.execute(PUT, ("e", bad, bad, 0))
    with pytest.raises(RuntimeError), database.transaction() as statements:
        statements.execute(PUT, ("f", "d", 1, 0))
        raise RuntimeError
    assert count(database) == 2


def test_bytes_and_text_come_back_as_they_were(database: Database) -> None:
    row = ("ключ", "m%s", bytes(range(256)), 0.5, 2.0**40)
    with database.transaction() as statements:
        statements.execute("INSERT INTO kept_values VALUES (?, ?, ?, ?, ?)", row)
        ((key, model, value, *times),) = statements.execute("SELECT * FROM kept_values")
    assert (key, model, bytes(value), *times) == row


def test_the_first_use_makes_the_tables_once(address: FileUrl | PostgresUrl) -> None:
    if address == FileUrl(""):
        pytest.skip("memory belongs to one process")
    assert open_database(address).version() == 0
    databases = [open_database(address) for _ in range(4)]
    failures: list[Exception] = []

    def use(database: Database) -> None:
        try:
            for number in range(5):
                with database.transaction() as statements:
                    statements.execute(PUT, (str(id(database)), str(number), 1, 0))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert count(databases[0]) == 20
    for database in databases:
        assert database.version() == VERSION
        database.close()


def test_each_step_can_be_taken_back_and_taken_again(database: Database) -> None:
    if database.name == "memory":
        pytest.skip("memory is empty after each look")
    assert len(database.migrate()) == len(MIGRATIONS)
    assert database.migrate() == []
    for to in range(VERSION - 1, -1, -1):
        (line,) = database.migrate(to)
        assert line.startswith(f"{to + 1} {MIGRATIONS[to].name}")
        assert database.version() == to
    assert count(database) == 0
    assert database.version() == VERSION


def test_tables_of_a_newer_version_are_left_alone(address: FileUrl | PostgresUrl) -> None:
    if address == FileUrl(""):
        pytest.skip("memory belongs to one process")
    newer = open_database(address)
    with newer.transaction() as statements:
        statements.execute("INSERT INTO state_versions VALUES (?, 'later', 0)", (VERSION + 1,))
    older = open_database(address)
    with pytest.raises(StateError, match=f"version {VERSION + 1}, and this version of Parley knows only {VERSION}"):
        count(older)
    with pytest.raises(StateError, match="a newer Parley"):
        older.migrate(0)
    newer.close()
    older.close()


def test_a_database_of_usage_without_versions_keeps_its_totals(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {0x5061726D}")
        connection.execute(MIGRATIONS[0].up[0].format(real="REAL"))
        connection.execute(f"INSERT INTO usage_totals VALUES ('2026-11-22', 'a', 'm', {'7, ' * 9} 0.5)")
    database = SqliteDatabase(str(path))
    with database.transaction() as statements:
        assert [row[3] for row in statements.execute("SELECT * FROM usage_totals")] == [7]
    assert database.version() == VERSION
    database.close()


ROWS = (
    (1, "usage_totals", {"day": "2026-11-22", "key": "a", "model": "m", **dict.fromkeys(COUNTS, 7), "cost": 0.5}),
    (2, "kept_values", {"key": "k", "model": "m", "value": b"\0\xff", "stored_at": 1.5, "expires_at": 2.5}),
    (3, "spending", {"counter": "key:a:spend_per_day", "period": "2026-11-22", "spent": 5, "reserved": 1}),
    (
        4,
        "api_keys",
        {"name": "a", "sha256": "f" * 64, "settings": "{}", "note": "", "created_at": 1.0, "created_by": "b"},
    ),
    (4, "api_key_changes", {"id": 1, "number": 3}),
    (
        6,
        "revoked_api_keys",
        {"name": "c", "settings": "{}", "note": "", "created_at": 1.0, "created_by": "b"}
        | {"revoked_at": 2.0, "revoked_by": "b"},
    ),
    (9, "secrets", {"name": "users", "value": b"\0\xff"}),
    (10, "leases", {"name": "alerts", "holder": "h", "until": 1.5, "value": "null"}),
)
"""The first version that has a table, the table, and a row of it as that version wrote it."""


def test_what_each_version_stored_is_read_by_this_one_and_by_that_one_again(tmp_path: Path) -> None:
    assert {table for _, table, _ in ROWS} == {*TABLES}, "a new table needs a row here"
    for version in range(1, VERSION + 1):
        path = tmp_path / f"{version}.db"
        database = SqliteDatabase(str(path))
        database.migrate(version)
        rows = [(table, row) for first, table, row in ROWS if first <= version]
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for table, row in rows:
                names, places = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))
        assert count(database) == (version >= 3) and database.version() == VERSION
        for _ in range(2):  # of the newest version, then of its own
            with contextlib.closing(sqlite3.connect(path)) as connection:
                for table, row in rows:
                    names = ", ".join(f'"{name}"' for name in row)
                    assert connection.execute(f"SELECT {names} FROM {table}").fetchall() == [tuple(row.values())]
            database.migrate(version)
        database.close()


def test_a_snapshot_does_not_see_what_is_written_meanwhile(address: FileUrl | PostgresUrl) -> None:
    if address == FileUrl(""):
        pytest.skip("memory belongs to one process")
    reader, writer = open_database(address), open_database(address)
    count(writer)
    with reader.snapshot() as statements:
        assert statements.execute(COUNT)[0][0] == 0
        with writer.transaction() as others:
            others.execute(PUT, ("a", "d", 1, 0))
        assert statements.execute(COUNT)[0][0] == 0
    assert count(reader) == 1
    reader.close()
    writer.close()


def test_a_file_that_cannot_be_written_is_an_error_and_works_again_later(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("no folder")
    database = SqliteDatabase(str(folder / "state.db"))
    with pytest.raises(StateError, match=r"folder/state\.db: "):
        count(database)
    folder.unlink()
    assert count(database) == 0
    database.close()


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Let a file not be written meanwhile. Root may write every file, so it becomes another user."""
    user, mode = os.geteuid(), path.stat().st_mode
    path.chmod(0o444)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)


def test_a_file_that_turns_read_only_is_read_and_is_written_as_soon_as_it_can_be() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)  # another user cannot enter the one of pytest
        path = Path(folder) / "state.db"
        database = SqliteDatabase(str(path))
        assert count(database) == 0
        database.close()
        with read_only(path):
            with pytest.raises(StateError, match="readonly"), database.transaction() as statements:
                statements.execute(PUT, ("a", "d", 1, 0))
            assert count(database) == 0
            with database.snapshot() as statements:
                assert statements.execute(COUNT) == [(0,)]
        with database.transaction() as statements:
            statements.execute(PUT, ("a", "d", 1, 0))
        assert count(database) == 1
        database.close()


def test_a_connection_to_a_postgres_that_became_read_only_is_replaced(tmp_path: Path) -> None:
    database = open_database(make_address("postgres", tmp_path))
    with database.transaction() as statements:
        statements.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    with pytest.raises(StateError, match="read-only"), database.transaction() as statements:
        statements.execute(PUT, ("a", "d", 1, 0))
    with database.transaction() as statements:
        statements.execute(PUT, ("a", "d", 1, 0))
    assert count(database) == 1
    database.close()


def test_nothing_of_a_transaction_stays_at_the_connection_to_postgres(tmp_path: Path) -> None:
    """A pooler such as PgBouncer gives the next transaction another connection, and this one to others."""
    database = open_database(make_address("postgres", tmp_path))
    for number in range(12):
        with database.transaction() as statements:
            statements.execute(PUT, ("a", f"{number}", 1, 0))
            statements.execute_many(PUT, [("b", f"{number}", 1, 0), ("c", f"{number}", 1, 0)])
    with database.snapshot() as statements:
        assert statements.execute("SELECT name FROM pg_prepared_statements") == []
        assert statements.execute("SHOW statement_timeout") == [("10s",)]
        statements.execute("ROLLBACK")
        assert statements.execute("SHOW statement_timeout") == [("0",)]
    database.close()


class Relay(socketserver.ThreadingTCPServer):
    """Passes the bytes of a connection on to a server."""

    daemon_threads = allow_reuse_address = True
    block_on_close = False

    def __init__(self, port: int, server: tuple[str, int]) -> None:
        self.server = server
        super().__init__(("127.0.0.1", port), RelayedConnection)


class RelayedConnection(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with socket.create_connection(self.server.server) as there:
            others = {self.request: there, there: self.request}
            while True:
                for one in select.select([*others], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    others[one].sendall(data)


def test_a_postgres_that_is_back_is_used_again_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.state.postgres._WAIT_SECONDS", 0.3)
    monkeypatch.setattr("app.state.postgres._REST_SECONDS", 0.0)
    address = make_address("postgres", tmp_path)
    assert isinstance(address, PostgresUrl)
    there = urlsplit(address.url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    database = open_database(PostgresUrl(urlunsplit(there._replace(netloc=f"{there.username}@127.0.0.1:{port}"))))
    for _ in range(2):
        with pytest.raises(StateError, match="refused"):
            count(database)
    with Relay(port, (str(there.hostname), int(there.port or 5432))) as relay:
        threading.Thread(target=relay.serve_forever, args=(0.01,), daemon=True).start()
        assert count(database) == 0
        database.close()
        relay.shutdown()


def test_an_unreachable_postgres_is_an_error_that_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    address = parse_state_url("postgresql://me:hunter2@127.0.0.1:1/parley")
    assert isinstance(address, PostgresUrl)
    database = open_database(address)
    with pytest.raises(StateError, match=r"database parley at 127\.0\.0\.1: ") as raised:
        count(database)
    assert "hunter2" not in str(raised.value)
    assert not caplog.records, "what is raised is logged where it is caught"
    database.close()


def test_totals_by_user_and_tag_become_those_of_their_keys_when_the_version_before_is_restored(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "state.db"))
    names = ("day", "key", "model", *COUNTS, "cost", "team", "user", "tag")
    with database.transaction() as statements:
        for user in ("ann", "bob"):
            row = ("2026-11-22", "a", "m", *[3] * len(COUNTS), 0.25, "red", user, "x")
            quoted = ", ".join(f'"{name}"' for name in names)
            statements.execute(f"INSERT INTO usage_totals ({quoted}) VALUES ({', '.join('?' * len(row))})", row)
    database.migrate(7)
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        (found,) = connection.execute("SELECT requests, saved_tokens, cost, team FROM usage_totals").fetchall()
    assert found == (6, 6, 0.5, "red")
    database.close()
