"""When the thread of the request log writes."""

import time
from pathlib import Path

from app.observe.request_log.file import LogFile, Query
from app.observe.request_log.log import LogRules, RequestLog
from app.observe.request_log.redaction import make_finder
from app.observe.request_record import RequestRecord


def make_log(path: Path, counted: list[int], queue_bytes: int = 1024**2) -> RequestLog:
    rules = LogRules(queue_bytes=queue_bytes)
    file = LogFile(str(path / "requests.db"))
    return RequestLog(file, rules, make_finder([], personal=True), lambda outcome, entries: counted.append(entries))


def end_request(log: RequestLog, body: bytes = b"{}") -> None:
    capture = log.begin("", "", "/v1/chat", [])
    assert capture is not None
    capture.request.record_whole(body)
    log.end(RequestRecord("r", "chat", ended_at=time.time()), capture)


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
