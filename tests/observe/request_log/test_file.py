"""The file of the request log."""

import random
import sqlite3
import time
from pathlib import Path

import pytest
from app.observe.request_log.entry import BodyFacts
from app.observe.request_log.file import LogFile, LogFileError, NewBody, NewEntry, Query, StoredList

from tests.each_case import each_case
from tests.observe.request_log.log_entries import add, entry, figures


def count(path: Path, table: str) -> int:
    with sqlite3.connect(path) as connection:
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    connection.close()
    return int(rows)


def in_file(path: Path, text: bytes) -> bool:
    return any(text in part.read_bytes() for part in path.parent.glob(f"{path.name}*"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests.db"


@pytest.fixture
def file(path: Path) -> LogFile:
    return LogFile(str(path))


def test_an_entry_is_read_as_it_was_written(file: LogFile) -> None:
    add(file, entry([[b"{", b"one"], [b"two", b"}"]], "a"))
    found = file.find_entries(Query(), 10)
    assert [(one.figures.request_id, one.bodies) for one in found] == [("a", ())]
    read = file.read(found[0].id)
    assert read is not None
    assert [body.data for body in read.bodies] == [b"{onetwo}"]
    assert file.read(99) is None


def test_equal_pieces_of_one_caller_are_kept_once_and_those_of_two_callers_twice(file: LogFile, path: Path) -> None:
    for rounds in range(1, 40):
        pieces = [b"message %d" % number for number in range(rounds)]
        add(file, entry([pieces[:16], pieces[16:32], pieces[32:]], key="a"))
    assert count(path, "pieces") == 39
    add(file, entry([[b"message 0"]], key="b"))
    assert count(path, "pieces") == 40


def test_a_list_that_the_file_has_is_named_by_its_id(file: LogFile, path: Path) -> None:
    ((known,),) = add(file, entry([[b"one", b"two"]]))
    with file.write() as writer:
        assert writer.find_list(known)
        assert not writer.find_list(known + 1)
        writer.add(NewEntry(1.0, figures(), [NewBody(BodyFacts("client_reply", -1, 6), [StoredList(known)])]))
    newest = file.read(2)
    assert newest is not None
    assert newest.bodies[0].data == b"onetwo"
    file.delete(Query(id=1))
    newest = file.read(2)
    assert newest is not None
    assert newest.bodies[0].data == b"onetwo"
    file.delete(Query(id=2))
    assert (count(path, "pieces"), count(path, "lists"), count(path, "bodies")) == (0, 0, 0)


@each_case(
    ("query", "left"),
    [
        (Query(key="a"), ["c", "d"]),
        (Query(user="u"), ["a", "b", "d"]),
        (Query(until=2.5), ["c", "d"]),
        (Query(key="a", until=1.5), ["b", "c", "d"]),
        (Query(request_id="d"), ["a", "b", "c"]),
        (Query(owner="other"), ["a", "b", "c", "d"]),
        (Query(), []),
    ],
)
def test_a_query_deletes_what_it_names(query: Query, left: list[str], tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / f"{time.perf_counter_ns()}.db"))
    rows = [("a", "a", 1.0, ""), ("b", "a", 2.0, ""), ("c", "b", 3.0, "u"), ("d", "b", 4.0, "")]
    add(file, *(entry([[b"x"]], id_, key, ended, user) for id_, key, ended, user in rows))
    assert file.delete(query) == 4 - len(left)
    assert [one.figures.request_id for one in file.find_entries(Query(), 9)][::-1] == left
    file.close()


def test_after_a_deletion_no_byte_of_the_text_is_in_the_file(file: LogFile, path: Path) -> None:
    other = LogFile(str(path))  # of another worker
    secret = b"text of the one who is deleted"
    add(other, entry([[b"kept"]], key="b"))
    noise = bytes(range(256)) * 4
    add(file, entry([[secret, noise]], "req-of-the-deleted", "name-of-the-deleted"))
    assert in_file(path, b"name-of-the-deleted")
    assert file.delete(Query(key="name-of-the-deleted")) == 1
    assert not in_file(path, b"name-of-the-deleted")
    assert not in_file(path, b"req-of-the-deleted")
    assert not in_file(path, secret)
    assert not in_file(path, noise)
    assert [one.figures.key for one in other.find_entries(Query(), 9)] == ["b"]
    other.close()


def test_the_oldest_entries_are_deleted_above_the_bound_of_bytes(file: LogFile) -> None:
    draw = random.Random(1)
    for number in range(60):
        add(file, entry([[draw.randbytes(20_000)]], str(number)))
    deleted = file.trim(600_000, 7, 2.0)
    assert 0 < deleted < 60
    assert file.measure() <= 600_000
    assert file.find_entries(Query(), 1)[0].figures.request_id == "59"


def test_entries_are_deleted_after_their_days(file: LogFile) -> None:
    add(file, entry([[b"a"]], "old", ended_at=1000.0), entry([[b"b"]], "new", ended_at=90_000.0))
    assert file.trim(1024**3, 1, 90_001.0) == 1
    assert [one.figures.request_id for one in file.find_entries(Query(), 9)] == ["new"]


def test_a_bound_that_an_empty_file_exceeds_ends(file: LogFile) -> None:
    add(file, entry([[b"a"]]))
    assert file.trim(1, 7, 2.0) == 1


def test_a_file_of_another_program_is_not_touched(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    file = LogFile(str(path))
    with pytest.raises(LogFileError, match="name another file in request_log.url"):
        file.find_entries(Query(), 1)
    assert count(path, "mine") == 0


def test_a_file_that_was_replaced_is_opened_again_after_an_error(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    file = LogFile(str(path))
    with pytest.raises(LogFileError):
        file.find_entries(Query(), 1)
    path.unlink()
    assert file.find_entries(Query(), 1) == []


def test_the_file_is_for_its_owner_only(file: LogFile, path: Path) -> None:
    add(file, entry([[b"x"]]))
    assert {part.stat().st_mode & 0o777 for part in path.parent.glob(f"{path.name}*")} == {0o600}
