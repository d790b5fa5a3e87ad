"""The line of a request as a log record, and records as lines of JSON."""

import json
import logging
import time
from datetime import datetime

import pytest
from app.chat.stream import Attempt
from app.observe.logs import ConsoleFormatter, JsonFormatter, log_request
from app.observe.request_record import RequestRecord


def test_the_record_of_a_request_has_every_attribute_that_other_handlers_format(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "parley.request"):
        log_request(RequestRecord("req-1", "chat", ended_at=1_800_000_000.25))
        log_request(RequestRecord("req-2", "chat", ended_at=1_800_000_000.5))
    first, second = caplog.records
    usual = logging.LogRecord("parley.request", logging.INFO, "", 0, "request", (), None)
    assert vars(usual).keys() <= vars(first).keys()
    assert [(record.created, record.msecs) for record in (first, second)] == [
        (1_800_000_000.25, 250),
        (1_800_000_000.5, 500),
    ]
    assert (first.levelname, first.getMessage()) == ("INFO", "request")
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(filename)s %(threadName)s %(message)s").format(first)
    assert text.endswith("INFO parley.request logs.py MainThread request")
    assert [json.loads(JsonFormatter().format(record))["request_id"] for record in caplog.records] == ["req-1", "req-2"]


def test_a_line_of_json_holds_what_json_cannot_express() -> None:
    record = logging.LogRecord("parley", logging.INFO, "", 0, "half a pair: \ud800", (), None)
    record.fields = {"large": 2**70, "not_a_number": float("nan")}
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "half a pair: \ud800"
    assert line["large"] == "… (a large number)"
    assert "not_a_number" in line


def test_the_line_of_a_request_has_the_fields_that_are_known_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    request = RequestRecord("req-1", "chat", model="m\x7f\u2028", metadata={"a": "é"}, status=200)
    request.upstream_failure = Attempt("local", "http://model.test", 1.0, "connect", None)
    with caplog.at_level(logging.INFO, "parley.request"):
        log_request(request)
    [record] = caplog.records
    text = JsonFormatter().format(record)
    assert "\x7f" not in text and "\u2028" not in text
    assert list(json.loads(text).items())[1:] == [
        ("level", "warning"),
        ("logger", "parley.request"),
        ("message", "request"),
        ("request_id", "req-1"),
        ("endpoint", "chat"),
        ("model", "m\x7f\u2028"),
        ("stream", False),
        ("metadata", {"a": "é"}),
        ("status", 200),
        ("upstream", "local"),
        ("address", "http://model.test"),
        ("cause", "connect"),
        ("reason", None),
        ("attempts", []),
        ("ms", 0.0),
    ]


def test_the_line_of_a_request_that_json_cannot_express_is_written_nevertheless(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "parley.request"):
        log_request(RequestRecord("req-1", "chat", model="\ud800"))
    assert json.loads(JsonFormatter().format(caplog.records[0]))["model"] == "\ud800"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2027-01-15T08:00:00.250+00:00"),
        ("Asia/Kolkata", "2027-01-15T13:30:00.250+05:30"),
        ("America/St_Johns", "2027-01-15T04:30:00.250-03:30"),
    ],
)
def test_the_time_of_a_line_has_its_offset(zone: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        record = logging.LogRecord("parley", logging.INFO, "", 0, "x", (), None)
        record.created, record.msecs = 1_800_000_000.25, 250
        assert json.loads(JsonFormatter().format(record))["time"] == expected
        assert ConsoleFormatter(color=False).format(record).split()[0] == expected.partition("T")[2]
        assert datetime.fromisoformat(expected).timestamp() == record.created
    finally:
        monkeypatch.undo()
        time.tzset()
