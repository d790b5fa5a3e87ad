"""State databases for tests: in memory, in a file, and in PostgreSQL if PARLEY_TEST_POSTGRES names a database."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from app.state.urls import FileUrl, PostgresUrl, parse_state_url

KINDS = ("memory", "file", "postgres")


def make_url(kind: str, folder: Path) -> str:
    """Return the URL of an empty database. In PostgreSQL it is a schema of its own for each process of tests."""
    if kind == "memory":
        return "memory:"
    if kind == "file":
        return f"sqlite:///{folder}/folder/state.db"
    url = os.environ.get("PARLEY_TEST_POSTGRES")
    if not url:
        pytest.skip("PARLEY_TEST_POSTGRES names no database")
    import psycopg

    schema = f"parley_test_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{url}{'&' if '?' in url else '?'}options={quote(f'-csearch_path={schema}')}"


def make_address(kind: str, folder: Path) -> FileUrl | PostgresUrl:
    address = parse_state_url(make_url(kind, folder))
    assert isinstance(address, FileUrl | PostgresUrl)
    return address
