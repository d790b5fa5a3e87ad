"""A gateway whose writing for the others fails still gives its own clients the reply."""

import logging

import pytest
from app.calls.entry import Batch
from app.calls.shared import records
from app.calls.shared.call_store import CallKeys
from app.calls.shared.lease import CallLease, Publisher
from app.calls.shared.records import LeaseReleased
from app.chat.events import Event

from tests.cache.fake_calls import DONE, CallUnderTest, say
from tests.cache.manual_clock import Clocked, run


class BrokenLease(CallLease):
    """It fails at its second batch."""

    appended = 0

    def append(self, batch: Batch) -> int:
        self.appended += 1
        if self.appended == 2:
            raise KeyError("ours")
        return super().append(batch)


def test_a_defect_while_writing_for_others_releases_the_call_and_leaves_its_readers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "parley.cache")

    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        lease = BrokenLease(CallKeys("q", "1"), lambda: None, 0.0)
        Publisher(call.in_flight, lease)
        reader = call.caller()
        reply: list[list[Event]] = [*say("one", "two", "three"), [DONE]]
        for batch in reply:
            call.source.push(batch)
        assert (reader.batches, reader.crash, lease.appended) == (reply, None, 2)
        assert records.read(lease.next_write().record) == LeaseReleased()

    run(scenario)
    assert [record.message for record in caplog.records] == ["defect while writing a reply for other gateways"]
