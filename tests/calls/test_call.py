"""A reader of a call gets all of its events, whenever it joins and whatever other readers do."""

import asyncio
import time

import pytest
from app.calls.call import InFlightCall
from app.calls.log import LOG_LIMITS, LogLimits, events_size
from app.chat.events import Event, Failed, Fault, Finish
from app.chat.stream import Reply
from app.errors import Internal, ParleyError, UpstreamFailed

from tests.cache.fake_calls import DONE, CallUnderTest, FakeCaller, Source, say
from tests.cache.manual_clock import Clocked, run
from tests.each_case import each_case

BROKEN = Fault("upstream_incomplete", "cut off", transient=True)
REPLY: list[list[Event]] = [*say("one", "two"), [], *say("three"), [DONE]]


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("place", range(len(REPLY) + 1))
def test_a_reader_gets_all_batches_whenever_it_joins(place: int) -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        first = call.caller()
        for batch in REPLY[:place]:
            call.source.push(batch)
        late = call.caller()
        assert late.batches == first.batches == REPLY[:place]
        for batch in REPLY[place:]:
            call.source.push(batch)
        assert late.batches == first.batches == call.whole == REPLY

    run(scenario)


def test_a_reader_that_joined_before_the_call_began_gets_all_events() -> None:
    async def scenario(loop: Clocked) -> None:
        call = CallUnderTest()
        caller = call.caller()
        await call.opened()
        call.source.push(*REPLY)
        assert caller.batches == REPLY
        assert caller.groups == [len(REPLY)], "what came at once is passed on at once"

    run(scenario)


def test_a_slow_reader_does_not_delay_the_others() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        slow, quick = call.caller(), call.caller()
        slow.pause()
        for batch in REPLY:
            call.source.push(batch)
        assert (quick.batches, slow.batches) == (REPLY, [])
        slow.resume()
        assert slow.batches == REPLY

    run(scenario)


def test_the_server_is_paused_exactly_while_all_readers_have_paused() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        one, other, source = call.caller(), call.caller(), call.source
        one.pause()
        held = [source.paused]
        other.pause()
        held.append(source.paused)
        assert held == [False, True]
        third = call.caller()
        third.pause()
        one.resume()
        held.append(source.paused)
        one.leave()
        held.append(source.paused)
        assert held[2:] == [False, True], "the only one who could take more has left"
        other.leave()
        call.in_flight.retain()
        third.leave()
        assert not source.paused, "a client that comes back must find the reply"

    run(scenario)


def test_a_reader_that_joins_while_all_others_pause_need_not_wait_for_them() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.caller().pause()
        assert call.source.paused
        call.caller()
        assert not call.source.paused

    run(scenario)


def test_the_last_to_leave_ends_the_call_and_only_once() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        one, other = call.caller(), call.caller()
        call.source.push(*say("one"))
        one.leave()
        one.leave()
        assert not call.in_flight.ended
        call.source.push(*say("two"))
        other.leave()
        assert (call.source.closes, call.overs) == (1, [True])
        assert call.in_flight.log.finished_at is None
        assert one.batches == say("one")
        assert type(call.whole[-1][-1]) is Failed, "a reply that was stopped is a whole reply to no reader"

    run(scenario)


def test_a_call_that_is_held_goes_on_without_readers_until_it_is_released() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.in_flight.retain()
        call.in_flight.retain()
        call.caller().leave()
        call.in_flight.release()
        call.source.push(*say("one"))
        back = call.caller()
        call.in_flight.release()
        assert not call.in_flight.ended
        assert back.batches == say("one")
        back.leave()
        assert (call.in_flight.ended, call.source.closes) == (True, 1)

    run(scenario)


def test_a_call_that_is_held_for_a_time_ends_that_long_after_its_last_reader_left() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.in_flight.retain(5)
        call.in_flight.retain(30)
        first = call.caller()
        await asyncio.sleep(100)
        first.leave()
        await asyncio.sleep(29)
        call.source.push(*say("one"))
        back = call.caller()
        assert back.batches == say("one")
        await asyncio.sleep(100)
        back.leave()
        await asyncio.sleep(29)
        assert not call.in_flight.ended
        await asyncio.sleep(2)
        assert (call.in_flight.ended, call.source.closes) == (True, 1)

    run(scenario)


def test_a_call_that_is_released_ends_after_the_longest_time_for_which_it_is_still_held() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        for seconds in (30, 5, 0.5):
            call.in_flight.retain(seconds)
        call.caller().leave()
        await asyncio.sleep(1)
        call.in_flight.release(30)
        await asyncio.sleep(3)
        assert not call.in_flight.ended
        call.in_flight.release(5)
        assert (call.in_flight.ended, call.source.closes) == (True, 1)

    run(scenario)


@pytest.mark.parametrize("end", [DONE, Failed(BROKEN)])
def test_a_source_that_has_ended_is_closed_only_once(end: Event) -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.in_flight.retain()
        callers = [call.caller(), call.caller()]
        call.source.push([end])
        for caller in callers:
            caller.leave()
        call.in_flight.release()
        call.in_flight.abort()
        assert (call.source.closes, call.overs) == (1, [True])
        assert call.whole == [[end]]

    run(scenario)


def test_the_call_has_ended_before_any_reader_gets_the_end() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        seen: list[tuple[bool, int]] = []
        call.caller(lambda: seen.append((call.in_flight.ended, len(call.overs))))
        call.source.push(*say("one"))
        call.source.push([DONE])
        assert seen == [(False, 0), (True, 1)]

    run(scenario)


def test_only_a_finish_gives_it_a_time_of_its_end() -> None:
    async def scenario(loop: Clocked) -> None:
        good, bad = await CallUnderTest().opened(), await CallUnderTest().opened()
        good.source.push([DONE])
        bad.source.push([Failed(BROKEN)])
        assert good.in_flight.log.finished_at == pytest.approx(time.time(), abs=5)
        assert bad.in_flight.log.finished_at is None

    run(scenario)


def test_each_reader_gets_a_failure_as_a_failure() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        one, slow = call.caller(), call.caller()
        slow.pause()
        call.source.push(*say("half"))
        call.source.push([Failed(BROKEN)])
        late = call.caller()
        slow.resume()
        for caller in (one, slow, late):
            assert caller.batches == [*say("half"), [Failed(BROKEN)]]

    run(scenario)


def test_each_reader_gets_a_defect_after_the_events_before_it() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        one, slow, leaver = call.caller(), call.caller(), call.caller()
        slow.pause()
        leaver.pause()
        call.source.push(*say("half"))
        call.source.crash(KeyError("ours"))
        leaver.leave()
        late = call.caller()
        assert slow.crash is None
        slow.resume()
        for caller in (one, slow, late):
            assert caller.batches == say("half")
            assert isinstance(caller.crash, KeyError)
        assert leaver.crash is None
        assert (call.source.closes, call.overs, call.in_flight.log.finished_at) == (
            1,
            [True],
            None,
        )

    run(scenario)


@each_case("at", range(len(REPLY) - 1))
def test_a_reader_that_raises_gets_its_error_and_the_others_the_reply(at: int) -> None:
    async def scenario(loop: Clocked) -> None:
        def fail() -> None:
            if len(broken.batches) == at + 1:
                raise KeyError("ours")

        call = await CallUnderTest().opened()
        before = call.caller()
        broken = FakeCaller(fail)
        broken.listen(call.in_flight.add_reader())
        after = call.caller()
        for batch in REPLY:
            call.source.push(batch)
        assert before.batches == after.batches == REPLY
        assert broken.batches == REPLY[: at + 1]
        assert isinstance(broken.crash, KeyError)
        assert (before.crash, after.crash, call.source.closes) == (None, None, 1)

    run(scenario)


def test_a_reader_that_raises_while_it_catches_up_gets_its_error_in_every_turn() -> None:
    async def scenario(loop: Clocked) -> None:
        def fail() -> None:
            if len(late.groups) == 2:
                raise KeyError("ours")

        call = await CallUnderTest(LogLimits(batches_per_turn=2)).opened()
        early, late = call.caller(), FakeCaller(fail)
        for batch in REPLY:
            call.source.push(batch)
        late.listen(call.in_flight.add_reader())
        await turns()
        assert (late.groups, type(late.crash), early.batches) == ([2, 2], KeyError, REPLY)

    run(scenario)


def test_a_reader_that_leaves_at_the_last_event_before_a_defect_does_not_get_it() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        caller = FakeCaller(lambda: caller.leave())
        listener = call.in_flight.add_reader()
        caller.reply = listener
        call.source.push(*say("half"))
        call.source.crash(KeyError("ours"))
        listener.start(caller)
        assert (caller.batches, caller.crash) == (say("half"), None)

    run(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(UpstreamFailed(BROKEN), UpstreamFailed), (KeyError("ours"), Internal)],
    ids=["fault", "defect"],
)
def test_what_keeps_a_call_from_beginning_is_raised_to_each(error: Exception, expected: type[ParleyError]) -> None:
    async def scenario(loop: Clocked) -> None:
        overs: list[InFlightCall] = []

        async def start(call: InFlightCall) -> Reply:
            await asyncio.sleep(1)
            raise error

        in_flight = InFlightCall(start, overs.append)
        waiting = [asyncio.ensure_future(in_flight.open()) for _ in range(3)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [expected] * 3
        with pytest.raises(expected):
            await in_flight.open()
        assert overs == [in_flight]
        assert not in_flight.log.readers

    run(scenario)


def test_readers_may_leave_before_the_first_event_and_the_last_one_aborts_the_call() -> None:
    async def scenario(loop: Clocked) -> None:
        asked = asyncio.Event()
        given_up = False

        async def start(call: InFlightCall) -> Reply:
            nonlocal given_up
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up = True
                raise
            raise AssertionError("nobody sets it")

        in_flight = InFlightCall(start, lambda _: None)
        one, other = (asyncio.ensure_future(in_flight.open()) for _ in range(2))
        await asked.wait()
        one.cancel()
        await turns()
        assert (in_flight.ended, given_up) == (False, False)
        other.cancel()
        await turns()
        assert (in_flight.ended, given_up) == (True, True)
        assert len(asyncio.all_tasks()) == 2, "that of this test, and the one that bounds it"

    run(scenario)


def test_a_source_that_opens_after_the_call_was_aborted_is_closed() -> None:
    async def scenario(loop: Clocked) -> None:
        source, asked = Source(), asyncio.Event()

        async def start(call: InFlightCall) -> Reply:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return source
            raise AssertionError("nobody sets it")

        in_flight = InFlightCall(start, lambda _: None)
        listener = in_flight.add_reader()
        await asked.wait()
        listener.close()
        await turns()
        assert source.closes == 1
        assert source._receiver is None, "it was never started"

    run(scenario)


def test_readers_of_an_aborted_call_get_a_failure() -> None:
    async def scenario(loop: Clocked) -> None:
        call, unopened = await CallUnderTest().opened(), CallUnderTest()
        one, slow = call.caller(), call.caller()
        slow.pause()
        call.source.push(*say("half"))
        waiting = asyncio.ensure_future(unopened.in_flight.open())
        for in_flight in (call.in_flight, unopened.in_flight):
            in_flight.abort()
            in_flight.abort()
        slow.resume()
        last = FakeCaller()
        last.listen(await waiting)
        for caller in (one, slow, last):
            assert [event.fault.code for event in caller.batches[-1] if isinstance(event, Failed)] == ["cancelled"]
        assert (call.source.closes, unopened.source.closes) == (1, 0)
        assert (call.overs, unopened.overs) == ([True], [True])

    run(scenario)


def test_events_of_a_source_after_its_end_are_ignored() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        caller = call.caller()
        call.source.push([DONE])
        call.in_flight.on_events([Failed(BROKEN)])
        call.in_flight.on_crash(KeyError("ours"))
        assert (caller.batches, caller.crash, call.whole) == ([[DONE]], None, [[DONE]])
        assert call.overs == [True]

    run(scenario)


def test_a_long_reply_is_caught_up_with_in_turns_and_what_comes_meanwhile_is_not_lost() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.source.push(*say(*map(str, range(3 * LOG_LIMITS.batches_per_turn))))
        late = call.caller()
        assert late.groups == [LOG_LIMITS.batches_per_turn]
        call.source.push(*say("and more"))
        late.pause()
        await turns(5)
        assert late.groups == [LOG_LIMITS.batches_per_turn]
        late.resume()
        call.source.push([DONE])
        await turns(5)
        assert late.batches == call.whole
        assert max(late.groups) <= LOG_LIMITS.batches_per_turn

    run(scenario)


def test_a_reader_that_closes_while_catching_up_gets_no_more_events() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.source.push(*say(*map(str, range(3 * LOG_LIMITS.batches_per_turn))), [DONE])
        late = call.caller()
        late.leave()
        await turns(5)
        assert len(late.batches) == LOG_LIMITS.batches_per_turn

    run(scenario)


def test_its_clock_is_that_of_the_source_while_that_runs() -> None:
    async def scenario(loop: Clocked) -> None:
        call = CallUnderTest()
        call.in_flight.tick(1.0)
        await call.opened()
        call.in_flight.tick(2.0)
        call.caller().reply.tick(3.0)  # type: ignore[union-attr]
        call.source.push([DONE])
        call.in_flight.tick(4.0)
        assert call.source.ticks == 1

    run(scenario)


def test_batches_carry_the_time_since_the_call_was_made() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        call.caller()
        for batch in REPLY[:3]:
            await asyncio.sleep(0.5)
            call.source.push(batch)
        assert [batch.at for batch in call.in_flight.log.batches] == pytest.approx([0.5, 1.0, 1.5])

    run(scenario)


# -- what is held ------------------------------------------------------------------------------------------------------


SMALL = 2000
"""Bytes of a small log."""


def test_the_log_drops_the_events_of_a_huge_reply_that_all_readers_have() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest(LogLimits(max_bytes=SMALL)).opened()
        one, other = call.caller(), call.caller()
        expected = [batch for number in range(100) for batch in say(f"{number:0500}")]
        for batch in expected:
            call.source.push(batch)
            assert call.in_flight.size <= SMALL
            assert call.in_flight.size == sum(events_size(batch.events) for batch in call.in_flight.log.batches)
        call.source.push([DONE])
        assert one.batches == other.batches == [*expected, [DONE]]
        assert not call.in_flight.complete

    run(scenario)


def test_a_slow_reader_pauses_the_server_where_the_log_would_exceed_its_limit() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest(LogLimits(max_bytes=SMALL)).opened()
        slow, quick = call.caller(), call.caller()
        slow.pause()
        expected: list[list[Event]] = []
        source = call.source
        while not source.paused:
            expected += say("x" * 500)
            call.source.push(expected[-1])
            assert len(expected) < 10
        assert SMALL < call.in_flight.size < SMALL + 1000
        assert (slow.batches, quick.batches) == ([], expected)
        slow.resume()
        assert not call.source.paused
        expected += say("y" * 500)
        call.source.push(expected[-1])
        assert call.in_flight.size < 1000, "what kept it has been heard"
        call.source.push([DONE])
        assert slow.batches == quick.batches == [*expected, [DONE]]

    run(scenario)


def test_a_log_that_dropped_its_beginning_at_the_last_event_is_not_complete() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest(LogLimits(max_bytes=SMALL)).opened()
        caller = call.caller()
        call.source.push([*say("x" * 3000)[0], Finish("stop")])
        assert call.overs == [False]
        assert caller.over

    run(scenario)


def test_a_huge_reply_without_readers_is_aborted() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest(LogLimits(max_bytes=SMALL)).opened()
        call.in_flight.retain()
        call.caller().leave()
        call.source.push(*say("x" * 3000))
        assert (call.in_flight.ended, call.source.closes, call.overs) == (
            True,
            1,
            [False],
        )
        assert call.in_flight.size < 1000

    run(scenario)


# -- other processes ---------------------------------------------------------------------------------------------------


class Publisher:
    """Reads along, as if for other processes."""

    def __init__(self, call: CallUnderTest, *, has_followers: bool) -> None:
        self.position = 0
        self.has_followers = has_followers
        self.calls: list[str] = []
        self._scene = call
        call.in_flight.publish(self, "k.1")

    def advance(self) -> None:
        self.position = self._scene.in_flight.log.end_position

    def on_unused(self) -> None:
        self.calls.append("unused")

    def on_used(self) -> None:
        self.calls.append("used")


def test_a_published_call_without_readers_goes_on_until_no_gateway_follows_it() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest().opened()
        publisher = Publisher(call, has_followers=True)
        call.caller().leave()
        assert publisher.calls[-1] == "unused" and not call.in_flight.ended
        back = call.caller()
        assert publisher.calls[-1] == "used"
        back.leave()
        call.in_flight.unpublish(publisher)
        assert (call.in_flight.aborted, call.source.closes) == (True, 1)

    run(scenario)


def test_paused_readers_hold_the_server_back_unless_others_follow_and_are_not_far_ahead() -> None:
    async def scenario(loop: Clocked) -> None:
        call = await CallUnderTest(LogLimits(max_ahead_bytes=1000)).opened()
        publisher = Publisher(call, has_followers=False)
        caller = call.caller()

        def is_held_back() -> bool:
            return call.source.paused

        caller.pause()
        assert is_held_back(), "who only may follow does not vote"
        publisher.has_followers = True
        call.in_flight.update_backpressure()
        assert not is_held_back()
        call.source.push(*say("x" * 600))
        assert not is_held_back()
        call.source.push(*say("x" * 600))
        assert is_held_back(), "those elsewhere are far ahead"
        caller.resume()
        caller.pause()
        assert not is_held_back(), "the reader has read what was ahead"

    run(scenario)
