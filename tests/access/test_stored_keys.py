"""API keys in each kind of state database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from app.access.stored_keys import KeyExists, KeyRow, StoredKeys
from app.state import Database, open_database

from tests.state.databases import KINDS, make_address


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = open_database(make_address(request.param, tmp_path))
    yield database
    database.close()


def test_of_a_key_that_was_revoked_everything_but_its_hash_is_kept(database: Database) -> None:
    now = [100.0]
    keys = StoredKeys(database, lambda: now[0])
    row = KeyRow("alice", "a" * 64, {"models": ["m"]}, "laptop", 1.5, "root", expires_at=9.5)
    keys.add(row)
    keys.record_use({"alice": 50.0})
    change = keys.read_change()
    assert keys.revoke("alice", "boss") and not keys.revoke("alice", "boss") and not keys.revoke("bob", "boss")
    assert keys.read() == (change + 1, [])
    (revoked,) = keys.read_revoked()
    assert (revoked.name, revoked.settings, revoked.note) == ("alice", {"models": ["m"]}, "laptop")
    assert (revoked.created_at, revoked.created_by, revoked.expires_at, revoked.last_used_at) == (
        1.5,
        "root",
        9.5,
        50.0,
    )
    assert (revoked.revoked_at, revoked.revoked_by) == (100.0, "boss")
    with database.snapshot() as statements:
        assert "a" * 64 not in str(statements.execute("SELECT * FROM revoked_api_keys"))


def test_a_name_can_be_used_again_and_the_key_that_was_revoked_last_is_listed(database: Database) -> None:
    now = [100.0]
    keys = StoredKeys(database, lambda: now[0])
    for number, name in enumerate(("alice", "bob", "alice")):
        keys.add(KeyRow(name, str(number) * 64, {}, f"note {number}", 1.0, "root"))
        with pytest.raises(KeyExists):
            keys.add(KeyRow(name, "f" * 64, {}, "", 1.0, "root"))
        now[0] += 1
        keys.revoke(name, "boss")
    assert [(row.name, row.note) for row in keys.read_revoked()] == [("alice", "note 2"), ("bob", "note 1")]
