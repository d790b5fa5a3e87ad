"""What a leader has still to write: in order, gathered, bounded, and the same again until it was answered."""

from typing import Literal

import msgspec
from app.calls.entry import Batch
from app.calls.shared import records
from app.calls.shared.call_store import CallKeys, WriteResult
from app.calls.shared.lease import MAX_CALL_BYTES, MAX_RECORD_BYTES, MAX_WAITING_BYTES, CallLease
from app.calls.shared.records import BatchesWritten, CallFailed, CallStarted, LeaseReleased, Record
from app.chat.events import Event, Extra, Fault, TextDelta


class Leading:
    def __init__(self) -> None:
        self.notices: list[str] = []

    def on_renewed(self, others: bool) -> None:
        self.notices.append("others" if others else "beat")

    def on_unfollowed(self) -> None:
        self.notices.append("alone")

    def on_lost(self) -> None:
        self.notices.append("lost")


def make_lease() -> tuple[CallLease, Leading]:
    one, leading = CallLease(CallKeys("q", "1"), lambda: None, 0.0), Leading()
    one.attach(leading)
    return one, leading


def text_batch(text: str) -> Batch:
    return Batch(0.5, [TextDelta(text)])


def answer(one: CallLease, code: Literal[0, 1, 2] = 1, *, others: bool = False) -> Record | None:
    """What was written."""
    parcel = one.next_write()
    one.on_written(WriteResult(code, others), 1.0)
    return records.read(parcel.record) if parcel.record else None


def test_batches_are_gathered_into_one_record_behind_what_came_before() -> None:
    one, _ = make_lease()
    one.write_started()
    one.append(text_batch("a"))
    one.append(text_batch("b"))
    urgent = [one.urgent]
    assert answer(one) == CallStarted()
    urgent.append(one.urgent)
    assert answer(one) == BatchesWritten([text_batch("a"), text_batch("b")])
    urgent.append(one.urgent)
    assert urgent == [True, True, False]
    assert one.next_write().record == b""


def test_what_was_not_answered_is_written_again_as_it_was() -> None:
    one, _ = make_lease()
    one.append(text_batch("a"))
    first = one.next_write()
    one.on_unavailable(0.0, 3.0)
    one.append(text_batch("b"))
    one.end()
    assert one.next_write() is first and first.after == "" and first.record_number == 1
    answer(one)
    assert (one.next_write().record_number, one.next_write().after) == (2, "end")
    assert answer(one) == BatchesWritten([text_batch("b")])
    assert one.over


def test_no_record_is_larger_than_it_may_be_but_for_one_batch() -> None:
    one, _ = make_lease()
    for _ in range(8):
        one.append(text_batch("x" * (MAX_RECORD_BYTES // 3)))
    one.end()
    sizes = []
    while not one.over:
        sizes.append(len(one.next_write().record))
        answer(one)
    assert len(sizes) == 4 and max(sizes) <= MAX_RECORD_BYTES + 100


def test_a_leader_far_ahead_of_redis_steps_down_and_holds_nothing() -> None:
    one, leading = make_lease()
    one.append(text_batch("a"))
    one.next_write()
    for _ in range(5):
        one.append(text_batch("x" * (MAX_WAITING_BYTES // 4)))
    assert one.append(text_batch("more")) == 0
    answer(one)
    assert one.next_write().after == "release"
    assert answer(one) == LeaseReleased()
    assert one.over and leading.notices == ["beat", "lost"]


def test_a_reply_that_is_too_long_is_not_shared_to_its_end() -> None:
    one, leading = make_lease()
    for _ in range(40):
        one.append(text_batch("x" * (MAX_CALL_BYTES // 39)))
        if answer(one) == LeaseReleased():
            break
    assert one.over and leading.notices[-1] == "lost"


def test_events_that_cannot_be_encoded_end_the_sharing() -> None:
    one, leading = make_lease()
    events: list[Event] = [Extra({"n": 1 << 80})]
    assert one.append(Batch(0.0, events)) == 0
    assert answer(one) == LeaseReleased() and leading.notices == ["lost"]


def test_a_leader_without_readers_goes_on_until_no_gateway_follows() -> None:
    one, leading = make_lease()
    one.end_unless_followed()
    assert one.next_write().after == "end_unless_followed"
    answer(one, others=True)
    assert not one.urgent and one.next_write().after == "end_unless_followed"
    one.append(text_batch("a"))
    answer(one, others=True)
    assert one.next_write().after == "end_unless_followed"
    answer(one, 2)
    assert one.over and leading.notices == ["others", "others", "alone"]


def test_a_leader_without_readers_and_redis_waits_only_for_known_followers() -> None:
    alone, leading = make_lease()
    alone.end_unless_followed()
    alone.on_unavailable(1.0, 3.0)
    assert leading.notices == ["alone"]
    one, leading = make_lease()
    answer(one, others=True)
    one.end_unless_followed()
    one.on_unavailable(1.0, 3.0)
    assert leading.notices == ["others"]
    one.on_unavailable(4.1, 3.0)
    assert leading.notices == ["others", "alone"]


def test_an_end_that_redis_does_not_store_is_dropped_after_some_attempts() -> None:
    one, leading = make_lease()
    one.write_failure(Fault("overloaded", "later", True))
    over = []
    for seconds in (1.0, 4.1):
        one.on_unavailable(seconds, 3.0)
        over.append(one.over)
    assert (over, leading.notices) == ([False, True], ["lost"])


def test_a_claim_that_redis_has_not_answered_is_released_however_late_it_answers() -> None:
    one, leading = make_lease()
    one.release_claim()
    for seconds in (1.0, 4.1, 600.0):
        one.on_unavailable(seconds, 3.0)
        assert not one.over
    assert one.next_write().after == "release"
    assert answer(one) == LeaseReleased()
    assert one.over and leading.notices == ["lost"]


def test_a_leader_stops_when_it_has_lost_its_lease() -> None:
    one, leading = make_lease()
    answer(one, 0)
    assert leading.notices == ["lost"] and one.over
    one.append(text_batch("a"))
    one.resign()
    assert one.next_write().record == b""


def test_a_record_of_another_version_is_no_record() -> None:
    refused = CallFailed(Fault("rate_limit", "slow", True, 429, 1.5, {"a": [1]}))
    assert records.read(records.write(refused)) == refused
    assert records.read(b"\xc1") is None
    assert records.read(msgspec.msgpack.encode(["sung", 1])) is None


def test_a_reader_that_returns_before_the_write_keeps_the_lease() -> None:
    one, leading = make_lease()
    one.end_unless_followed()
    one.cancel_end_unless_followed()
    assert one.next_write().after == ""
    answer(one)
    assert not one.over and leading.notices == ["beat"]
