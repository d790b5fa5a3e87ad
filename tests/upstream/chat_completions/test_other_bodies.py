"""Answers with a status of success that are no replies: another one than 200, and broken compressed bytes."""

import gzip
import zlib

import pytest
from app.chat.events import Event, Failed, Finish, TextDelta

from tests.cuts import bytewise, random_cuts, whole
from tests.each_case import each_case
from tests.reply_pipeline import Recorded, replay

pytestmark = pytest.mark.anyio

SAID = b'data: {"choices":[{"index":0,"delta":{"content":"One"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
GARBAGE = b"\xff\x00\xfe\x01" * 8


def packed(*texts: bytes, end: bool) -> bytes:
    """The texts in gzip, each of which can be read before the next has come."""
    compressor = zlib.compressobj(wbits=31)
    parts = [compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH) for text in texts]
    return b"".join(parts) + (compressor.flush() if end else b"")


async def read(body: bytes, parts: list[bytes]) -> list[Event]:
    assert b"".join(parts) == body
    batches = await replay(Recorded(parts, 200, {"content-encoding": "gzip", "content-type": "text/event-stream"}))
    return [event for batch in batches for event in batch]


@each_case("status", [201, 202, 204, 206, 299])
async def test_another_status_of_success_is_no_reply(status: int) -> None:
    [[failed]] = await replay(Recorded([SAID + STOP], status, {"content-type": "text/event-stream"}))
    assert isinstance(failed, Failed)
    assert (failed.fault.code, failed.fault.status, failed.fault.transient) == ("upstream_protocol", status, False)
    assert str(status) in failed.fault.message


@each_case(
    ("body", "code"),
    [
        (packed(SAID, end=False) + GARBAGE, "upstream_protocol"),
        (packed(SAID, end=False) + GARBAGE + packed(STOP, end=True), "upstream_protocol"),
        (packed(SAID, end=False), "upstream_incomplete"),
    ],
    ids=["garbage", "garbage before the end", "cut"],
)
async def test_a_compressed_reply_that_breaks_is_an_error_after_the_text_that_came(body: bytes, code: str) -> None:
    for parts in (whole(body), bytewise(body), random_cuts(body, 1, 5), random_cuts(body, 2, 20)):
        *said, failed = await read(body, parts)
        assert isinstance(failed, Failed)
        assert failed.fault.code == code
        assert said in ([TextDelta("One")], [])  # a read whose end is broken is not decompressed at all


async def test_compressed_bytes_that_break_after_the_finish_reason_leave_the_reply_uncached() -> None:
    body = packed(SAID, STOP.replace(b"data: [DONE]\n\n", b""), end=False) + GARBAGE
    said, last = await read(body, bytewise(body))
    assert said == TextDelta("One") and isinstance(last, Finish)
    assert (last.reason, last.cacheable, len(last.warnings)) == ("stop", False, 1)


async def test_a_whole_compressed_reply_is_read_however_it_is_cut() -> None:
    body = gzip.compress(SAID + STOP)
    for parts in (whole(body), bytewise(body), random_cuts(body, 3, 9)):
        said, last = await read(body, parts)
        assert said == TextDelta("One") and isinstance(last, Finish) and last.reason == "stop" and last.cacheable


async def test_a_body_that_is_not_compressed_as_its_header_says_fails_with_that_reason() -> None:
    [failed] = await read(SAID + STOP, [SAID + STOP])
    assert isinstance(failed, Failed)
    assert "not compressed" in failed.fault.message and "gzip" in failed.fault.message


async def test_a_reply_that_expands_beyond_its_limit_fails_with_that_reason() -> None:
    body = gzip.compress(b" " * 20_000_000)
    [failed] = await read(body, [body])
    assert isinstance(failed, Failed) and "expands to more than" in failed.fault.message
