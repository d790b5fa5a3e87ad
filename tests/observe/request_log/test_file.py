"""The file of the request log."""

import random
import sqlite3
import time
from array import array
from pathlib import Path

import pytest
from app.observe.request_log.entry import BodyFacts
from app.observe.request_log.file import LogFile, LogFileError, NewBody, NewEntry, Query, TextPart

from tests.each_case import each_case
from tests.observe.request_log.log_entries import add, entry, figures, make_entry, make_facts


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
    add(file, entry(b"{onetwo}", "a"))
    found = file.find_entries(Query(), 10)
    assert [(one.figures.request_id, one.bodies) for one in found] == [("a", ())]
    read = file.read(found[0].id)
    assert read is not None
    assert [body.data for body in read.bodies] == [b"{onetwo}"]
    assert file.read(99) is None


def write_turns(file: LogFile, *turns: bytes) -> None:
    """Write entries whose bodies each go on with the one before, but for the bracket at the end."""
    base = size = 0
    for number, turn in enumerate(turns):
        with file.write() as writer:
            data = turn if base else turn + b"]"
            part = TextPart(len(data), 0, size, 1) if base else TextPart(len(data))
            text = writer.add_text([part], data, base)
            assert text is not None
            writer.add(make_entry(NewBody(make_facts(turn), text=text), str(number)))
        base, size = text, size + len(turn)


def read_data(file: LogFile, id_: int) -> bytes | None:
    found = file.read(id_)
    return None if found is None else found.bodies[0].data


def test_a_text_is_read_from_all_that_it_is_a_difference_from(file: LogFile) -> None:
    write_turns(file, b"[one", b",two", b",three")
    assert [read_data(file, id_) for id_ in (1, 2, 3)] == [b"[one]", b"[one,two]", b"[one,two,three]"]


def test_each_body_of_a_text_is_a_difference_from_any_body_of_the_base(file: LogFile) -> None:
    with file.write() as writer:
        base = writer.add_text([TextPart(4), TextPart(5)], b"(ab)" + b"[abc]")
        assert base is not None
        writer.add(make_entry(NewBody(make_facts(b""), text=base, number=1), "first"))
    with file.write() as writer:
        parts = [TextPart(1, 1, 4, 1), TextPart(0, 0, 3, 1), TextPart(2, 0, 1, 2)]
        text = writer.add_text(parts, b"d" + b"xy", base)
        assert text is not None
        bodies = [NewBody(make_facts(b""), text=text, number=number) for number in range(3)]
        writer.add(NewEntry(1.0, figures("second"), bodies))
    found = file.read(2)
    assert found is not None
    assert [body.data for body in found.bodies] == [b"[abcd]", b"(ab)", b"(xyb)"]
    assert read_data(file, 1) == b"[abc]"
    assert file.delete(Query()) == 2


def test_a_text_stays_as_long_as_another_needs_it(file: LogFile, path: Path) -> None:
    write_turns(file, b"[one", b",two", b",three")
    file.delete(Query(id=1))
    file.delete(Query(id=2))
    assert (read_data(file, 3), count(path, "texts")) == (b"[one,two,three]", 3)
    file.delete(Query(id=3))
    assert [count(path, table) for table in ("texts", "text_data", "contents", "entries")] == [0, 0, 0, 0]


def test_a_text_is_no_difference_from_one_that_was_deleted(file: LogFile, path: Path) -> None:
    write_turns(file, b"[one")
    file.delete(Query())
    with file.write() as writer:
        assert writer.add_text([TextPart(4, 0, 4, 1)], b",two", 1) is None
    assert count(path, "texts") == 0


def test_the_parts_of_a_response_are_read_as_they_were_captured(file: LogFile) -> None:
    times, sizes = array("d", [1.23456, 2.0]), array("Q", [3, 4])
    facts = BodyFacts("client_reply", -1, 7)
    add(file, make_entry(NewBody(facts, b"onetwo!", times=times.tobytes(), sizes=sizes.tobytes())))
    found = file.read(1)
    assert found is not None
    assert found.bodies[0].facts.parts == ((1.235, 3), (2.0, 4))


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
    add(file, *(entry(b"x", id_, key, ended, user) for id_, key, ended, user in rows))
    assert file.delete(query) == 4 - len(left)
    assert [one.figures.request_id for one in file.find_entries(Query(), 9)][::-1] == left
    file.close()


def test_after_a_deletion_no_byte_of_the_text_is_in_the_file(file: LogFile, path: Path) -> None:
    other = LogFile(str(path))  # of another worker
    secret = b"text of the one who is deleted"
    add(other, entry(b"kept", key="b"))
    noise = bytes(range(256)) * 4
    add(file, entry(secret + noise, "req-of-the-deleted", "name-of-the-deleted"))
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
        add(file, entry(draw.randbytes(20_000), str(number)))
    deleted = file.trim(600_000, 7, 2.0)
    assert 0 < deleted < 60
    assert file.measure() <= 600_000
    assert file.find_entries(Query(), 1)[0].figures.request_id == "59"


def test_entries_are_deleted_after_their_days(file: LogFile) -> None:
    add(file, entry(b"a", "old", ended_at=1000.0), entry(b"b", "new", ended_at=90_000.0))
    assert file.trim(1024**3, 1, 90_001.0) == 1
    assert [one.figures.request_id for one in file.find_entries(Query(), 9)] == ["new"]


def test_a_bound_that_an_empty_file_exceeds_ends(file: LogFile) -> None:
    add(file, entry(b"a"))
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
    add(file, entry(b"x"))
    assert {part.stat().st_mode & 0o777 for part in path.parent.glob(f"{path.name}*")} == {0o600}
