"""A state database that knows whether it could be used last."""

from pathlib import Path

import pytest
from app.state import StateError, ValueRefused, open_database
from app.state.migrations import VERSION
from app.state.urls import FileUrl
from app.state.watched import WatchedDatabase

PUT = "INSERT INTO spending VALUES (?, ?, ?, ?)"


def test_it_passes_everything_on(tmp_path: Path) -> None:
    inner = open_database(FileUrl(str(tmp_path / "state.db")))
    database = WatchedDatabase(inner)
    assert (database.kind, database.name) == (inner.kind, inner.name)
    assert database.version() == 0 and database.migrate() and database.version() == VERSION
    with database.transaction() as statements:
        statements.execute(PUT, ("a", "d", 1, 0))
    with database.snapshot() as statements:
        assert statements.execute("SELECT count(*) FROM spending") == [(1,)]
    assert database.empty_log() and database.is_connected
    database.close()


def test_a_failure_of_the_database_is_known_until_it_works_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("a file")
    database = WatchedDatabase(open_database(FileUrl(str(folder / "state.db"))))
    known = []
    with pytest.raises(StateError), database.transaction():
        pass
    known.append(database.is_connected)
    folder.unlink()
    assert database.version() == 0
    known.append(database.is_connected)
    assert known == [False, True]
    database.close()


def test_a_value_that_is_refused_is_no_failure_of_the_database(tmp_path: Path) -> None:
    database = WatchedDatabase(open_database(FileUrl("")))
    with pytest.raises(ValueRefused), database.transaction() as statements:
        statements.execute(PUT, ("a", "d", 2**63, 0))
    assert database.is_connected
    database.close()
