"""Readers join, pause, resume and leave at random: each that stays gets all events of the source."""

import asyncio
from collections.abc import Callable

from app.calls.log import LogLimits
from app.chat.events import Event, Failed, Fault, TextDelta
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.fake_calls import DONE, CallUnderTest, FakeCaller
from tests.cache.manual_clock import Clocked, run
from tests.effort import examples

BROKEN = Failed(Fault("upstream_incomplete", "cut off", transient=True))
DEFECT = KeyError("ours")
STEPS = st.sampled_from(
    ["read", "read", "reads", "join", "come", "start", "pause", "resume", "leave", "hold", "release", "turn", "turn"]
)


class Storm:
    """What happens to one call in progress, step by step."""

    def __init__(self, call: CallUnderTest, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.call = call
        self.draw = draw
        self.callers: list[FakeCaller] = []
        self.waiting: list[FakeCaller] = []
        self.sent: list[list[Event]] = []
        self.holds = 0

    async def step(self, what: str) -> None:
        await getattr(self, f"_{what}")()
        for caller in self.callers:
            assert caller.batches == self.expected[: len(caller.batches)]
        self._check_balance()

    @property
    def expected(self) -> list[list[Event]]:
        """With the event by which a call is abandoned, if it was."""
        in_flight = self.call.in_flight
        given_up = in_flight.ended and not self.call.source.over
        return self.sent + ([in_flight.log.batches[-1].events] if given_up else [])

    def push(self, *batches: list[Event]) -> None:
        source, in_flight = self.call.source, self.call.in_flight
        if not (source.paused or source.over or in_flight.ended):
            self.sent += batches
            source.push(*batches)

    def _check_balance(self) -> None:
        """The server is held back only by who cannot take more."""
        in_flight, source = self.call.in_flight, self.call.source
        if in_flight.ended:
            return
        callers = [*self.callers, *self.waiting]
        pausing = [caller.paused for caller in callers]
        assert source.paused == (bool(callers) and (all(pausing) or (not in_flight.complete and any(pausing))))
        assert callers or self.holds, "a call goes on for whom?"

    def _some(self, callers: list[FakeCaller]) -> FakeCaller | None:
        return callers[self.draw(st.integers(0, len(callers) - 1))] if callers else None

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self.push([TextDelta("x" * self.draw(st.integers(1, 300)))] if self.draw(st.integers(0, 3)) else [])

    async def _reads(self) -> None:
        batches: list[list[Event]] = [[TextDelta(str(number))] for number in range(self.draw(st.integers(2, 9)))]
        self.push(*batches)

    async def _join(self) -> None:
        if self.call.in_flight.complete:
            self.callers.append(self.call.caller())

    async def _come(self) -> None:
        """It has received nothing yet: it is still being opened."""
        if self.call.in_flight.complete:
            caller = FakeCaller()
            caller.reply = self.call.in_flight.add_reader()
            self.waiting.append(caller)

    async def _start(self) -> None:
        if self.waiting:
            caller = self.waiting.pop()
            self.callers.append(caller)
            assert caller.reply is not None
            caller.listen(caller.reply)

    async def _pause(self) -> None:
        if caller := self._some(self.callers):
            caller.pause()

    async def _resume(self) -> None:
        if caller := self._some(self.callers):
            caller.resume()

    async def _leave(self) -> None:
        if caller := self._some(self.callers):
            self.callers.remove(caller)
            caller.leave()

    async def _hold(self) -> None:
        self.holds += 1
        self.call.in_flight.retain()

    async def _release(self) -> None:
        if self.holds:
            self.holds -= 1
            self.call.in_flight.release()

    async def _turn(self) -> None:
        await asyncio.sleep(0)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def end(self, how: str) -> None:
        while self.waiting:
            await self._start()
        for caller in self.callers:
            caller.resume()
        if how == "crash" and not self.call.in_flight.ended:
            self.call.source.crash(DEFECT)
        else:
            self.push([DONE if how == "finish" else BROKEN])
        while len(self.callers) and not all(caller.over for caller in self.callers):
            await asyncio.sleep(0)


@examples(80)
@given(st.data(), st.lists(STEPS, max_size=60), st.sampled_from(["finish", "fail", "crash"]), st.booleans())
def test_each_reader_that_stays_gets_exactly_the_events_of_the_source(
    data: st.DataObject, steps: list[str], how: str, small: bool
) -> None:
    limits = LogLimits(max_bytes=1500 if small else 10**9, batches_per_turn=3)

    async def scenario(loop: Clocked) -> None:
        call = CallUnderTest(limits)
        call.in_flight.retain()
        storm = Storm(call, data.draw)
        storm.holds = 1
        if data.draw(st.booleans()):
            await storm.step("come")
        await call.opened()
        for step in steps:
            await storm.step(step)
        await storm.end(how)
        crash = DEFECT if how == "crash" and call.source.over else None
        for caller in storm.callers:
            assert (caller.batches, caller.crash) == (storm.expected, crash)
        for caller in storm.callers:
            caller.leave()
        for _ in range(storm.holds):
            call.in_flight.release()
        assert (call.source.closes, len(call.overs)) == (1, 1)
        assert not call.in_flight.log.readers
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 2, "that of this test, and the one that bounds it"

    run(scenario)
