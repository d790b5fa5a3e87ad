"""A reply that has ended is kept as bytes, which the garbage collector never visits, and is read again from them."""

import gc
from typing import Any

import pytest
from app.cache.codec import LARGE_ENTRY, Batch
from app.cache.log import ReplyLog
from app.cache.stored_reply import PackedReply, StoredReply, pack_log
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

from tests.cache.fake_calls import FakeCaller
from tests.cache.manual_clock import run

FAULT = Fault("upstream_incomplete", "the model server broke off", True, detail={"a": [1]})
REPLIES: dict[str, list[list[Event]]] = {
    "words": [[ReasoningDelta("hm")], [], [TextDelta("Hello"), TextDelta("no", True)], [Finish("stop", {"n": 1})]],
    "call": [[ToolCallDelta(0, "{", "id", "f")], [ToolCallDelta(0, "}"), Extra({"k": [1]}, 0)], [Finish("tool_calls")]],
    "media": [[MediaOutput("image", "data:,x", {"id": "1"})], [Finish("stop", None, "eos", ("a warning",), False)]],
    "failure": [[TextDelta("Hel")], [Failed(FAULT)]],
}


def log_of(reply: list[list[Event]], finished_at: float | None = 5.0) -> ReplyLog:
    log = ReplyLog()
    for number, events in enumerate(reply):
        log.append(float(number), [events])
    log.finished_at = finished_at
    log.end()
    return log


@pytest.mark.parametrize("name", REPLIES)
def test_what_is_packed_is_read_again_event_by_event(name: str) -> None:
    async def scenario(_: Any) -> None:
        packed = pack_log(log_of(REPLIES[name]), 100, ("flight", "id"))
        assert packed is not None and packed.location == ("flight", "id") and packed.pack() is packed
        for _ in range(2):
            caller = FakeCaller()
            caller.listen(await packed.open())
            assert caller.batches == REPLIES[name]

    run(scenario)


def test_a_packed_reply_is_nothing_to_the_garbage_collector() -> None:
    packed = pack_log(log_of(REPLIES["words"]), 100, ("flight", "id"))
    assert packed is not None and not gc.is_tracked(packed)


def test_a_reply_that_cannot_be_packed_stays_as_it_is() -> None:
    crashed = log_of(REPLIES["words"])
    crashed.defect = ValueError()
    too_large_a_number: list[list[Event]] = [[Finish("stop", {"n": 1 << 70})]]
    assert pack_log(crashed, 100, None) is None
    assert pack_log(log_of([]), 0, None) is None
    assert pack_log(log_of(REPLIES["words"]), LARGE_ENTRY + 1, None) is None
    assert pack_log(log_of(too_large_a_number), 100, None) is None


def test_a_stored_reply_is_packed_with_its_usage_marked() -> None:
    async def scenario(_: Any) -> None:
        stored = StoredReply("key", [Batch(0.0, [TextDelta("Hi")]), Batch(1.0, [Finish("stop", {"n": 1})])], 5.0)
        packed = stored.pack()
        assert isinstance(packed, PackedReply) and packed.location == stored.location
        callers = FakeCaller(), FakeCaller()
        callers[0].listen(await stored.open())
        callers[1].listen(await packed.open())
        assert callers[0].batches == callers[1].batches
        assert callers[1].batches[-1] == [Finish("stop", {"n": 1, "cached": True})]

    run(scenario)
