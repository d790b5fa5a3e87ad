"""The versions of the schema. A step is never changed once it was released: a change is a new step.

Each step can be taken back; what its tables hold is then lost. Version 1 is also the schema of a database that has
`usage_totals` and no table of versions, as Parley 0.1 wrote it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.state.base import StateError, Statements


class Migration(NamedTuple):
    name: str
    up: Sequence[str]
    down: Sequence[str]
    tables: Sequence[str]


TYPES: Mapping[str, Mapping[str, str]] = {
    "sqlite": {"real": "REAL", "bytes": "BLOB", "text": "TEXT"},
    "postgres": {"real": "DOUBLE PRECISION", "bytes": "BYTEA", "text": 'TEXT COLLATE "C"'},
}
"""Text is compared by its bytes in both."""

_COUNTS = (
    "requests",
    "errors",
    "cache_hits",
    "estimated_requests",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "saved_tokens",
)

_CALLS = ("searches", "fetches")

_ROW_OF_USAGE = ("day", "key", "model", *_COUNTS, "cost", "team")


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _remake_usage(key: Sequence[str], more: Sequence[str], select: str) -> tuple[str, ...]:
    """Return the statements that give `usage_totals` another primary key, which neither database can change in place.
    `more` are columns beside those of version 5, and `select` what their rows are."""
    texts = "".join(f", \"{name}\" {{text}} NOT NULL DEFAULT ''" for name in ("team", *more))
    counts = ", ".join(f"{name} BIGINT NOT NULL" for name in _COUNTS)
    return (
        "ALTER TABLE usage_totals RENAME TO former_usage_totals",
        'CREATE TABLE usage_totals ("day" TEXT NOT NULL, "key" TEXT NOT NULL, "model" TEXT NOT NULL, '
        f"{counts}, cost {{real}} NOT NULL{texts}, PRIMARY KEY ({_quote(key)}))",
        f"INSERT INTO usage_totals ({_quote((*_ROW_OF_USAGE, *more))}) {select}",
        "DROP TABLE former_usage_totals",
    )


MIGRATIONS: Sequence[Migration] = (
    Migration(
        "usage",
        (
            'CREATE TABLE IF NOT EXISTS usage_totals ("day" TEXT NOT NULL, "key" TEXT NOT NULL, "model" TEXT NOT NULL, '
            + ", ".join(f"{name} BIGINT NOT NULL" for name in _COUNTS)
            + ', cost {real} NOT NULL, PRIMARY KEY ("day", "key", "model"))',
        ),
        ("DROP TABLE usage_totals",),
        ("usage_totals",),
    ),
    Migration(
        "kept values",
        (
            'CREATE TABLE kept_values ("key" {text} PRIMARY KEY, model {text} NOT NULL, value {bytes} NOT NULL, '
            "stored_at {real} NOT NULL, expires_at {real} NOT NULL)",
            "CREATE INDEX kept_values_by_expiry ON kept_values (expires_at)",
        ),
        ("DROP TABLE kept_values",),
        ("kept_values",),
    ),
    Migration(
        "spending",
        (
            "CREATE TABLE spending (counter {text} NOT NULL, period {text} NOT NULL, spent BIGINT NOT NULL, "
            "reserved BIGINT NOT NULL, PRIMARY KEY (counter, period))",
        ),
        ("DROP TABLE spending",),
        ("spending",),
    ),
    Migration(
        "api keys",
        (
            "CREATE TABLE api_keys (name {text} PRIMARY KEY, sha256 {text} NOT NULL UNIQUE, settings {text} NOT NULL, "
            "note {text} NOT NULL, created_at {real} NOT NULL, created_by {text} NOT NULL, expires_at {real}, "
            "previous_sha256 {text}, previous_until {real}, last_used_at {real})",
            "CREATE TABLE api_key_changes (id INTEGER PRIMARY KEY, number BIGINT NOT NULL)",
        ),
        ("DROP TABLE api_keys", "DROP TABLE api_key_changes"),
        ("api_keys", "api_key_changes"),
    ),
    Migration(
        "usage by team",
        ("ALTER TABLE usage_totals ADD COLUMN team {text} NOT NULL DEFAULT ''",),
        ("ALTER TABLE usage_totals DROP COLUMN team",),
        (),
    ),
    Migration(
        "revoked api keys",
        (
            "CREATE TABLE revoked_api_keys (name {text} PRIMARY KEY, settings {text} NOT NULL, note {text} NOT NULL, "
            "created_at {real} NOT NULL, created_by {text} NOT NULL, expires_at {real}, last_used_at {real}, "
            "revoked_at {real} NOT NULL, revoked_by {text} NOT NULL)",
        ),
        ("DROP TABLE revoked_api_keys",),
        ("revoked_api_keys",),
    ),
    Migration(
        "identities of api keys",
        ("ALTER TABLE api_keys ADD COLUMN identity {text} NOT NULL DEFAULT ''",),
        ("ALTER TABLE api_keys DROP COLUMN identity",),
        (),
    ),
    Migration(
        "usage by user and tag",
        _remake_usage(
            ("day", "key", "model", "user", "tag"),
            ("user", "tag"),
            f"SELECT {_quote(_ROW_OF_USAGE)}, '', '' FROM former_usage_totals",
        ),
        _remake_usage(
            ("day", "key", "model"),
            (),
            'SELECT "day", "key", "model", '
            + ", ".join(f'SUM("{name}")' for name in (*_COUNTS, "cost"))
            + ', MAX(team) FROM former_usage_totals GROUP BY "day", "key", "model"',
        ),
        (),
    ),
    Migration(
        "secrets",
        ("CREATE TABLE secrets (name {text} PRIMARY KEY, value {bytes} NOT NULL)",),
        ("DROP TABLE secrets",),
        ("secrets",),
    ),
    Migration(
        "leases",
        (
            "CREATE TABLE leases (name {text} PRIMARY KEY, holder {text} NOT NULL, until {real} NOT NULL, "
            "value {text} NOT NULL)",
        ),
        ("DROP TABLE leases",),
        ("leases",),
    ),
    Migration(
        "searches in usage",
        tuple(f"ALTER TABLE usage_totals ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0" for name in _CALLS),
        tuple(f"ALTER TABLE usage_totals DROP COLUMN {name}" for name in _CALLS),
        (),
    ),
)
VERSION = len(MIGRATIONS)
VERSIONS_TABLE = (
    "CREATE TABLE IF NOT EXISTS state_versions (version INTEGER PRIMARY KEY, name {text} NOT NULL, "
    "applied_at {real} NOT NULL)"
)
READ_VERSION = "SELECT coalesce(max(version), 0) FROM state_versions"
TABLES: Sequence[str] = tuple(table for migration in MIGRATIONS for table in migration.tables)
"""All tables that hold values."""


def migrate(statements: Statements, kind: str, now: float, to: int | None) -> list[str]:
    """Take the steps from the version of the tables to `to`; call it with the lock of the database. Returns what was
    done. Raises StateError if the tables are from a newer version of Parley."""
    statements.execute(VERSIONS_TABLE.format_map(TYPES[kind]))
    ((found,),) = statements.execute(READ_VERSION)
    check_version(found)
    wanted = VERSION if to is None else to
    done = []
    for number in range(found + 1, wanted + 1):
        migration = MIGRATIONS[number - 1]
        for text in migration.up:
            statements.execute(text.format_map(TYPES[kind]))
        statements.execute("INSERT INTO state_versions VALUES (?, ?, ?)", (number, migration.name, now))
        done.append(f"{number} {migration.name}")
    for number in range(found, wanted, -1):
        migration = MIGRATIONS[number - 1]
        for text in migration.down:
            statements.execute(text.format_map(TYPES[kind]))
        statements.execute("DELETE FROM state_versions WHERE version = ?", (number,))
        done.append(f"{number} {migration.name} was taken back")
    return done


def check_version(found: int) -> None:
    """Raises StateError if the tables are from a newer version of Parley."""
    if found > VERSION:
        raise StateError(
            f"its tables have version {found}, and this version of Parley knows only {VERSION}: run a newer Parley, or "
            f"`parley state migrate --to {VERSION}` with the newer one"
        )
