"""Backups, and what one caller stored."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from app.access.caller import Caller
from app.access.stored_keys import KeyRow, StoredKeys
from app.access.users import UserRules, UserSource
from app.state import Database, StateError, open_database
from app.state.copies import back_up, count_rows, delete_values, read_usage, read_values, restore
from app.usage.store import UsageStore
from app.usage.totals import RowKey, Totals, UsageRow

from tests.state.databases import KINDS, make_address


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = open_database(make_address(request.param, tmp_path))
    keys = ["response:key a:1", "reasoning:key a:2", "signature:key a:3", "response:key ab:4", "response:key A:5"]
    keys += ["details:key a:6", "response:key a:b:7"]
    with database.transaction() as statements:
        rows = [(key, "m", key.encode() + b"\xff", 1.0, 2.0) for key in keys]
        statements.execute_many("INSERT INTO kept_values VALUES (?, ?, ?, ?, ?)", rows)
    UsageStore(database).add([UsageRow(RowKey("2026-11-22", "a", "m"), Totals(requests=2, cost=0.1))])
    yield database
    database.close()


def test_a_backup_has_everything_and_replaces_what_was_there(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    counted = back_up(database, file)
    assert (
        counted
        == count_rows(database)
        == {
            "usage_totals": 1,
            "kept_values": 7,
            "spending": 0,
            "api_keys": 0,
            "api_key_changes": 0,
            "revoked_api_keys": 0,
            "secrets": 0,
            "leases": 0,
        }
    )
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError, match="name a new file"):
        back_up(database, file)
    delete_values(database, "key a")
    with database.transaction() as statements:
        statements.execute("INSERT INTO spending VALUES ('x', 'd', 1, 0)")
    assert restore(database, file) == counted == count_rows(database)
    assert [value.value for value in read_values(database, "key A")] == [b"response:key A:5\xff"]


def test_gateways_notice_that_their_api_keys_were_replaced(database: Database, tmp_path: Path) -> None:
    empty, backup = tmp_path / "empty.db", tmp_path / "backup.db"
    back_up(database, empty)
    keys = StoredKeys(database)
    keys.add(KeyRow("alice", "a" * 64, {}, "", 0.0, ""))
    back_up(database, backup)
    keys.revoke("alice", "root")
    keys.add(KeyRow("bob", "b" * 64, {}, "", 0.0, ""))
    for file, names in ((backup, ["alice"]), (backup, ["alice"]), (empty, [])):
        known = keys.read_change()
        restore(database, file)
        change, rows = keys.read()
        assert change > known and [row.name for row in rows] == names


def test_what_is_no_backup_changes_nothing(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with pytest.raises(StateError, match="no such file"):
        restore(database, file)
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(StateError, match="not a database"):
        restore(database, file)
    assert count_rows(database)["kept_values"] == 7


def test_only_what_the_caller_stored_is_read_and_deleted(database: Database) -> None:
    assert [value.key for value in read_values(database, "key a")] == [
        "details:key a:6",
        "reasoning:key a:2",
        "response:key a:1",
        "signature:key a:3",
    ]
    assert read_usage(database, "a") == [
        {"day": "2026-11-22", "model": "m", "user": "", "tag": "", "requests": 2, "input_tokens": 0, "output_tokens": 0}
        | {"cost": 0.1}
    ]
    assert delete_values(database, "key a") == 4
    assert count_rows(database)["kept_values"] == 3
    assert delete_values(database, "key a:b") == 1


def test_by_the_name_of_a_key_its_former_owners_are_found_too(database: Database) -> None:
    row = "INSERT INTO kept_values VALUES (?, 'm', ?, 1.0, 2.0)"
    with database.transaction() as statements:
        statements.execute_many(
            row, [(f"response:key a#00ff:{n}", b"v") for n in range(2)] + [("response:key i:a#b:1", b"v")]
        )
    assert delete_values(database, "key a") == 6
    assert delete_values(database, "key i:a") == 0
    assert delete_values(database, "key i:a#b") == 1


def test_by_the_name_of_a_caller_what_its_end_users_stored_is_found_too(database: Database) -> None:
    key = Caller("a", "a", owner="a#00ff", users=UserRules(UserSource("user"))).with_user("ann:#")
    token = Caller("i:a", "i:a", users=UserRules(UserSource("user"))).with_user("ann")
    others = ["key i:a#b", "key i:ab", "key ab#00ff"]
    owners = [f"key {key.identity}", f"key {token.identity}", *others]
    with database.transaction() as statements:
        row = "INSERT INTO kept_values VALUES (?, 'm', ?, 1.0, 2.0)"
        statements.execute_many(row, [(f"response:{owner}:1", b"v") for owner in owners])
    assert delete_values(database, "key i:a") == 1
    assert delete_values(database, "key a") == 5
    left = [row.key for owner in others for row in read_values(database, owner)]
    assert left == [f"response:{owner}:1" for owner in others]
