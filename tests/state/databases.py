"""State databases for tests: in memory, in a file, and in PostgreSQL: the one that PARLEY_TEST_POSTGRES names, else one
of the tests' own."""

import atexit
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import postgres_server
import pytest
from app.state.urls import FileUrl, PostgresUrl, parse_state_url
from chaos_processes import Program

KINDS = ("memory", "file", "postgres")
START_SECONDS = 60.0


def make_url(kind: str, folder: Path) -> str:
    """Return the URL of an empty database. In PostgreSQL it is a schema of its own for each process of tests."""
    if kind == "memory":
        return "memory:"
    if kind == "file":
        return f"sqlite:///{folder}/folder/state.db"
    url = os.environ.get("PARLEY_TEST_POSTGRES") or own_postgres() or without_postgres()
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


@functools.cache
def own_postgres() -> str | None:
    """The URL of a server that runs until this process ends; None where PostgreSQL is not installed."""
    folder = Path(tempfile.mkdtemp(prefix="parley-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = postgres_server.make_postgres(folder)
    if program is None:
        return None
    url = postgres_server.make_url(program)
    atexit.register(_stop, _start(program))
    _wait_for(url)
    return url


def without_postgres() -> str:
    reason = "PostgreSQL is not installed (apt-get install postgresql), and PARLEY_TEST_POSTGRES names no database"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _start(program: Program) -> subprocess.Popen[bytes]:
    with program.log.open("ab") as log:
        return subprocess.Popen(program.command, cwd="/", stdout=log, stderr=log, start_new_session=True)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGQUIT)  # at once: nothing of the database is needed any more
    server.wait()


def _wait_for(url: str) -> None:
    import psycopg

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
