"""The URL of the usage database."""

import pytest
from app.state.urls import FileUrl, NoUrl, PostgresUrl, StateUrl, describe_state_url, parse_state_url

from tests.each_case import each_case

LOGIN = "postgresql://ann:secret@db.test:5432/parley?sslmode=require"


@each_case(
    ("url", "address", "description"),
    [
        ("sqlite:///usage.db", FileUrl("usage.db"), "usage.db"),
        ("sqlite:////data/my%20usage.db", FileUrl("/data/my usage.db"), "/data/my usage.db"),
        ("memory:", FileUrl(""), "memory"),
        ("null://", NoUrl(), "null"),
        (LOGIN, PostgresUrl(LOGIN, "db.test", "parley"), "database parley at db.test"),
        (
            "postgres:///parley",
            PostgresUrl("postgres:///parley", "localhost", "parley"),
            "database parley at localhost",
        ),
        ("postgresql://a:5432,b/p", PostgresUrl("postgresql://a:5432,b/p", "a", "p"), "database p at a"),
        ("postgresql://[::1]:5432/p", PostgresUrl("postgresql://[::1]:5432/p", "::1", "p"), "database p at ::1"),
        (
            "postgresql://u:p%40s@%2Frun%2Fpg/p?sslmode=x&host=/y",
            PostgresUrl("postgresql://u:p%40s@%2Frun%2Fpg/p?sslmode=x&host=/y", "/run/pg", "p"),
            "database p at /run/pg",
        ),
    ],
)
def test_a_url_names_a_file_a_database_or_nothing(url: str, address: StateUrl, description: str) -> None:
    assert parse_state_url(url) == address
    assert describe_state_url(address) == description


@each_case(
    ("url", "message"),
    [
        ("usage.db", "must be a URL"),
        ("sqlite:///a b", "must be a URL"),
        ("memory:secret", "must be just memory:"),
        ("sqlite://secret", "must name a file"),
        ("sqlite:///secret/", "must name a file"),
        ("sqlite:///secret?mode=ro", "must name a file"),
        ("postgresql://ann:secret@db.test", "must name a database"),
        ("postgresql:secret", "must be a URL as postgresql:"),
        ("postgresql://ann:se@cret@db.test/parley", "write @ as %40"),
        ("postgresql://ann:se/secret@db.test/parley", "write @ as %40"),
        ("postgresql://ann:se#secret@db.test/parley", "write @ as %40"),
        ("postgresql://ann:se?secret@db.test/parley", "write @ as %40"),
        ("postgresql://ann:se%secret@db.test/parley", "write @ as %40"),
        ("postgresql://ann:se[secret@db.test/par/ley", "write @ as %40"),
        ("postgresql://ann:secret@db.test:54a/parley", "write @ as %40"),
        ("mysql://secret", "must begin with sqlite, postgresql, memory or null"),
    ],
)
def test_what_names_nothing_is_refused_without_repeating_it(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        parse_state_url(url)
    assert "secret" not in str(error.value)
