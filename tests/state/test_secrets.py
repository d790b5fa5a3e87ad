"""Secrets that gateways make for themselves."""

from pathlib import Path

from app.state.secrets import read_secret
from app.state.sqlite import SqliteDatabase


def test_all_processes_of_a_database_have_the_same_secret_and_each_name_another(tmp_path: Path) -> None:
    databases = [SqliteDatabase(str(tmp_path / "state.db")) for _ in range(2)]
    first, second = (read_secret(database, "users") for database in databases)
    assert first == second and len(first) == 32
    assert read_secret(databases[0], "other") != first
    for database in databases:
        database.close()
