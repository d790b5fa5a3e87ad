"""A reply that a defect of the gateway, its size or broken compressed bytes end."""

import gzip
from dataclasses import replace
from typing import Any

from app.chat.events import Event, Failed
from app.upstream.reply.stream import UpstreamStream

from tests.each_case import each_case
from tests.reply_pipeline import TARGET, Batches, Parts

ONE = b'data: {"choices":[{"index":0,"delta":{"content":"One"}}]}\n\n'


class FailingStage:
    """A stage with a defect that the second read of a reply shows, or the end after one read."""

    def __init__(self) -> None:
        self._reads = 0

    def feed(self, events: list[Event]) -> list[Event]:
        self._reads += 1
        if self._reads > 1:
            raise ValueError("a defect")
        return events


class Crashed(Batches):
    def on_crash(self, error: Exception) -> None:
        """The defect that the stage has."""


class Meter:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def end(self, events: list[Event], count: int, told: dict[str, Any] | None) -> list[Event]:
        self.calls.append(("end", count))
        return events

    def stop(self, count: int, told: dict[str, Any] | None) -> None:
        self.calls.append(("stop", count))


@each_case(("parts", "counted"), [([ONE, ONE], 2), ([ONE], 1)])
def test_a_reply_that_a_defect_ends_is_metered_once(parts: list[bytes], counted: int) -> None:
    meter = Meter()
    stream = UpstreamStream(Parts(parts, broken=False), "chat-1", [FailingStage()], TARGET, meter=meter)
    stream.start(Crashed())
    stream.close()
    assert meter.calls == [("stop", counted)]


def read_compressed(parts: list[bytes], max_reply_bytes: int) -> tuple[list[Event], bool]:
    """The events of a reply in gzip, and whether it was read to its end."""
    received = Batches()
    body = Parts(parts, broken=False, headers={"content-encoding": "gzip"})
    UpstreamStream(body, "chat-1", [], replace(TARGET, max_reply_bytes=max_reply_bytes)).start(received)
    return [event for batch in received.batches for event in batch], body.wanted


@each_case("end", [b"", gzip.compress(ONE)])
def test_a_corrupt_compressed_reply_is_a_failure_of_the_model_server(end: bytes) -> None:
    first = gzip.compress(ONE)
    *_, failed = read_compressed([first, b"\x1f\x8b\x08\x00" + b"\xff" * 40 + end], 1000)[0]
    assert isinstance(failed, Failed)
    assert (failed.fault.code, failed.fault.transient, failed.fault.upstream) == (
        "upstream_protocol",
        False,
        "scripted",
    )
    assert "a body that cannot be decompressed" in failed.fault.message


def test_the_limit_of_a_compressed_reply_is_that_of_its_text() -> None:
    part = gzip.compress(ONE)
    events, wanted = read_compressed([part, part, part], 2 * len(ONE))
    failed = events[-1]
    assert isinstance(failed, Failed) and "more than" in failed.fault.message
    assert not wanted


def read_end(rest: bytes) -> Event:
    received = Batches()
    UpstreamStream(Parts([ONE, rest], broken=False), "chat-1", [], TARGET).start(received)
    return received.batches[-1][-1]


def test_a_line_of_words_within_a_reply_says_why_it_is_not_whole() -> None:
    failed = read_end(b"upstream error: read ECONNRESET\n")
    assert isinstance(failed, Failed)
    assert (failed.fault.status, failed.fault.message) == (200, "upstream error: read ECONNRESET")
    limited = read_end(b"Too many requests, slow down\n\n")
    assert isinstance(limited, Failed)
    assert limited.fault.code == "rate_limit"
    for rest in (b"", b"<html><title>502 Bad Gateway</title></html>\n", b"so it goes\n"):
        cut = read_end(rest)
        assert isinstance(cut, Failed)
        assert cut.fault.code == "upstream_incomplete"
