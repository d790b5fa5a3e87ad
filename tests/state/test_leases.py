"""One process of several holds a lease, and leaves what it knows to the next one."""

from pathlib import Path

from app.state.leases import Lease, keep_value, release_lease, take_lease
from app.state.sqlite import SqliteDatabase

START = 1_800_000_000.0


def test_a_lease_has_one_holder_until_it_ends(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "state.db"))

    def take(holder: str, seconds: float) -> bool:
        return take_lease(database, "alerts", holder, START + seconds, 30).is_held

    assert [take("a", 0), take("b", 10), take("a", 20), take("b", 49)] == [True, False, True, False]
    assert take("b", 51) and not take("a", 52)
    release_lease(database, "alerts", "a")
    assert not take("a", 53), "only its holder gives it back"
    release_lease(database, "alerts", "b")
    assert take("a", 54)
    database.close()


def test_what_the_holder_keeps_is_for_the_next_one(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "state.db"))
    assert take_lease(database, "alerts", "a", START, 30) == Lease(True, None)
    keep_value(database, "alerts", "a", {"x": 1})
    keep_value(database, "alerts", "b", {"x": 2})
    assert take_lease(database, "alerts", "b", START + 31, 30) == Lease(True, {"x": 1})
    assert take_lease(database, "other", "a", START, 30) == Lease(True, None)
    database.close()
