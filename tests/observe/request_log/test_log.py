"""When the thread of the request log writes."""

import json
import random
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from app.observe.request_log.bytes_test import make_bytes_test
from app.observe.request_log.file import LogFile, Query
from app.observe.request_log.log import LogRules, RequestLog
from app.observe.request_log.redaction import make_finder
from app.observe.request_record import RequestRecord

from tests.each_case import each_case
from tests.observe.request_log.log_entries import add, entry


def make_log(path: Path, counted: list[int], queue_bytes: int = 1024**2) -> RequestLog:
    rules = LogRules(queue_bytes=queue_bytes)
    file = LogFile(str(path / "requests.db"))
    may_hold = make_bytes_test([], personal=True)

    def count(outcome: str, entries: int) -> None:
        counted.append(entries)

    return RequestLog(file, rules, make_finder([], personal=True), count, may_hold=may_hold)


def end_request(log: RequestLog, body: bytes = b"{}", status: int = 200, sent: Sequence[bytes] = ()) -> None:
    capture = log.begin("", "", "/v1/chat", [])
    assert capture is not None
    capture.request.record_whole(body)
    for one in sent:
        capture.begin_exchange("a", "/x", one)
    log.end(RequestRecord("r", "chat", ended_at=time.time(), status=status), capture)


def test_requests_that_end_shortly_after_each_other_are_one_transaction(tmp_path: Path) -> None:
    counted: list[int] = []
    log = make_log(tmp_path, counted)
    end_request(log)
    time.sleep(0.05)  # the thread runs
    end_request(log)
    until = time.monotonic() + 5
    while not counted and time.monotonic() < until:
        time.sleep(0.01)
    log.close()
    assert counted == [2]


def test_a_reader_gets_what_has_just_ended_without_waiting_for_more(tmp_path: Path) -> None:
    log = make_log(tmp_path, [])
    took = []
    for number in range(1, 5):
        end_request(log)
        began = time.monotonic()
        assert len(log.find_entries(Query(), 10)) == number
        took.append(time.monotonic() - began)
    log.close()
    assert min(took) < 0.1


def test_nothing_waits_if_much_is_held(tmp_path: Path) -> None:
    counted: list[int] = []
    log = make_log(tmp_path, counted, queue_bytes=20_000)
    began = time.monotonic()
    end_request(log, b'{"a": "%b"}' % (b"x " * 3000))
    while not counted and time.monotonic() < began + 5:
        time.sleep(0.001)
    took = time.monotonic() - began
    log.close()
    assert counted == [1]
    assert took < 0.19


def read_bodies(log: RequestLog) -> list[bytes]:
    """Return the bodies of the clients' requests, the oldest first."""
    found = [log.read(entry.id) for entry in reversed(log.find_entries(Query(), 100))]
    return [entry.find_bodies("client_request")[0].data for entry in found if entry is not None]


def make_session(rounds: int, address: str) -> list[bytes]:
    """Return the bodies of a session in whose first message stands an address."""
    messages = [{"role": "user", "content": f"{number} {'word ' * 900}"} for number in range(rounds)]
    messages[0]["content"] += address
    return [json.dumps({"messages": messages[:count], "n": 1}).encode() for count in range(1, rounds + 1)]


def test_the_turns_of_a_session_are_read_as_they_were_without_what_is_masked(tmp_path: Path) -> None:
    log = make_log(tmp_path, [])
    bodies = make_session(5, "alice@example.com")
    for body in bodies:
        end_request(log, body)
    assert read_bodies(log) == [body.replace(b"alice@example.com", b"[EMAIL]") for body in bodies]
    log.close()
    assert b"alice" not in b"".join(part.read_bytes() for part in tmp_path.iterdir())
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        rows = [packed for (packed,) in connection.execute("SELECT parts FROM texts")]
    connection.close()
    sizes = [prefix + suffix for ((_, _, prefix, suffix),) in map(msgspec.msgpack.decode, rows)]
    assert sizes[0] == 0
    assert min(sizes[1:]) > 4000


@each_case(
    ("before", "after"),
    [
        (b'"api_key": "k-one"', b'"api_key": "k-two"'),
        (b'"api_key": 1', b'"api_key": "k-two"'),
        (b'"api_key" : "k-one"', b'"api_key": "k-two"'),
        (b'"a_name": "k-two"', b'"api_key": "k-two"'),
        (b'"a": ["k-two"]', b'"api_key": "k-two"'),
    ],
)
def test_a_secret_that_changes_or_whose_name_does_is_removed(before: bytes, after: bytes, tmp_path: Path) -> None:
    log = make_log(tmp_path / before.hex(), [])
    rest = b', "m": "%b"}' % (b"word " * 1200)
    for fields in (before, after):
        end_request(log, b'{"n": 1, ' + fields + rest)
    assert read_bodies(log)[1] == b'{"n": 1, "api_key": "[redacted]"' + rest
    log.close()


def test_what_model_servers_got_is_one_text_with_what_the_client_sent(tmp_path: Path) -> None:
    log = make_log(tmp_path, [])
    bodies = make_session(6, "alice@example.com")
    sent = [
        [body.replace(b'"n"', name) for name in (b'"max"', b'"most"')[: 1 + number % 2]]
        for number, body in enumerate(bodies)
    ]
    for body, got in zip(bodies[:4], sent, strict=False):
        end_request(log, body, sent=got)
    log.delete(Query(before_id=4))
    for body, got in zip(bodies[4:], sent[4:], strict=True):
        end_request(log, body, sent=got)
    found = [log.read(entry.id) for entry in reversed(log.find_entries(Query(), 100))]
    log.close()
    for read, body, got in zip(found, bodies[3:], sent[3:], strict=True):
        assert read is not None
        kept = [one.data for one in read.bodies if one.facts.kind.endswith("request")]
        assert kept == [each.replace(b"alice@example.com", b"[EMAIL]") for each in (body, *got)]
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        ((texts,),) = connection.execute("SELECT count(*) FROM texts").fetchall()
    connection.close()
    assert texts == 6


def test_a_session_goes_on_after_its_earlier_turns_were_deleted_or_the_file_was(tmp_path: Path) -> None:
    log = make_log(tmp_path, [])
    bodies = make_session(6, "")
    for body in bodies[:2]:
        end_request(log, body)
    log.delete(Query())
    for body in bodies[2:4]:
        end_request(log, body)
    assert read_bodies(log) == bodies[2:4]
    log._file.close()
    for part in tmp_path.iterdir():
        part.unlink()
    for body in bodies[4:]:
        end_request(log, body)
    assert read_bodies(log) == bodies[4:]
    log.close()


def test_a_batch_that_could_not_be_written_is_no_base_of_later_bodies(tmp_path: Path) -> None:
    counted: list[int] = []
    log = make_log(tmp_path, counted)
    bodies = make_session(3, "")
    end_request(log, bodies[0])
    assert len(read_bodies(log)) == 1
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute("ALTER TABLE contents RENAME TO away")
    connection.close()
    end_request(log, bodies[1])
    log._wait_until_written()
    assert log.counts == {"written": 1, "failed": 1}
    with sqlite3.connect(tmp_path / "requests.db") as connection:
        connection.execute("ALTER TABLE away RENAME TO contents")
    connection.close()
    end_request(log, bodies[2])
    assert read_bodies(log) == [bodies[0], bodies[2]]
    log.close()


@each_case(
    ("body", "kept"),
    [
        (b'{"a": "' + b"x " * 3000 + b"alice@example.com", b'{"a": "' + b"x " * 3000 + b"[EMAIL]"),
        (b"x " * 3000 + b"alice@example.com", b"x " * 3000 + b"[EMAIL]"),
    ],
)
def test_a_long_body_that_is_no_json_is_masked(body: bytes, kept: bytes, tmp_path: Path) -> None:
    log = make_log(tmp_path / str(len(body)), [])
    for _ in range(2):
        end_request(log, body, status=422)
    assert read_bodies(log) == [kept, kept]
    log.close()


CUT = [b'data: {"t":"al%b"}\n\n' % end for end in (b"", b"ice@exa", b"mple.com")]


@each_case(
    ("cache", "upstream", "masked"),
    [
        ("bypass", b"".join(CUT), True),
        ("hit", None, True),
        ("bypass", b'data: {"t":"harmless"}\n\n', False),
    ],
)
def test_the_reply_of_a_client_is_joined_unless_it_is_what_one_server_sent(
    cache: str, upstream: bytes | None, masked: bool, tmp_path: Path
) -> None:
    """The last case cannot be: a text that only the client gets comes with a guard, a tool or a cache."""
    finder = make_finder([], personal=True)
    file = LogFile(str(tmp_path / f"{time.perf_counter_ns()}.db"))
    log = RequestLog(file, LogRules(), finder, may_hold=make_bytes_test([], personal=True))
    capture = log.begin("", "", "/v1/chat", [])
    assert capture is not None
    capture.request.record_whole(b"{}")
    if upstream is not None:
        capture.begin_exchange("a", "/x", b"{}").record_data(upstream)
    for part in (b'data: {"t":"bo"}\n\n', b'data: {"t":"b@exam"}\n\n', b'data: {"t":"ple.com"}\n\n'):
        capture.reply.record_data(part)
    log.end(RequestRecord("r", "chat", ended_at=time.time(), cache=cache, status=200), capture)
    entry = log.read(log.find_entries(Query(), 1)[0].id)
    log.close()
    assert entry is not None
    assert (b"[EMAIL]" in entry.find_bodies("client_reply")[0].data) is masked


def test_what_was_deleted_is_not_remembered(tmp_path: Path) -> None:
    log = make_log(tmp_path, [])
    for body in make_session(2, ""):
        end_request(log, body)
    log.find_entries(Query(), 1)
    assert log._shared.list_ids()
    log.delete(Query())
    assert log._shared.list_ids() == []
    log.close()


def test_what_another_process_has_deleted_is_forgotten_while_no_requests_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.observe.request_log.log._LOOK_SECONDS", 0.05)
    log = make_log(tmp_path, [])
    for body in make_session(2, ""):
        end_request(log, body)
    log.find_entries(Query(), 1)
    other = LogFile(str(tmp_path / "requests.db"))
    other.delete(Query())
    until = time.monotonic() + 5
    while log._shared.list_ids() and time.monotonic() < until:
        time.sleep(0.01)
    assert log._shared.list_ids() == []
    log.close()
    other.close()


def test_old_entries_are_deleted_while_no_requests_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.observe.request_log.log._LOOK_SECONDS", 0.05)
    file = LogFile(str(tmp_path / "requests.db"))
    add(file, entry(b"x", ended_at=time.time() - 1.0))
    log = RequestLog(file, LogRules(keep_days=2 / 86400), make_finder([], personal=True))
    log.start()
    until = time.monotonic() + 10
    while file.find_entries(Query(), 1) and time.monotonic() < until:
        time.sleep(0.05)
    assert file.find_entries(Query(), 1) == []
    log.close()


def test_the_file_is_never_larger_than_its_bound(tmp_path: Path) -> None:
    file, most = LogFile(str(tmp_path / "requests.db"), 100_000), 2 * 1024**2
    sizes: list[int] = []
    rules = LogRules(max_bytes=most)
    log = RequestLog(file, rules, make_finder([], personal=True), lambda *_: sizes.append(file.measure()))
    draw = random.Random(1)
    for _ in range(20):
        for _ in range(3):
            end_request(log, json.dumps({"a": draw.randbytes(50_000).hex(" ")}).encode())
        log._wait_until_written()
    log.close()
    assert max(sizes) <= most
    assert sum(sizes[-5:]) > 2 * most
