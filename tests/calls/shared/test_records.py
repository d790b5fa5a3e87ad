"""The records of a call that gateways share."""

import pytest
from app.calls.entry import Batch
from app.calls.shared.records import (
    BatchesWritten,
    CallFailed,
    CallStarted,
    LeaseReleased,
    Record,
    UnencodableBatch,
    read,
    write,
    write_batch,
    write_batches,
)
from app.chat.events import Extra, Fault, TextDelta

from tests.each_case import each_case

BATCH = Batch(0.5, [TextDelta("a")])


@each_case(
    "record",
    [
        CallStarted("other"),
        BatchesWritten([BATCH]),
        CallFailed(Fault("overloaded", "busy", True, 503)),
        LeaseReleased(),
    ],
)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert read(write(record)) == record


def test_batches_that_were_encoded_by_themselves_are_one_record() -> None:
    assert read(write_batches([write_batch(BATCH), write_batch(Batch(0.7, []))])) == BatchesWritten(
        [BATCH, Batch(0.7, [])]
    )


@each_case("data", [b"", b"\x92\xa7unknown\x01", b"\xc1", write(CallStarted())[:-1]])
def test_a_damaged_record_and_one_of_another_version_are_none(data: bytes) -> None:
    assert read(data) is None


@each_case("value", [2**70, "\ud800", object()])
def test_events_that_a_record_cannot_hold_are_an_error_of_their_own(value: object) -> None:
    with pytest.raises(UnencodableBatch):
        write_batch(Batch(0.5, [Extra({"x": value})]))
