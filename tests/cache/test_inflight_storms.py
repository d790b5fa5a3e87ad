"""Callers who come, pause, go on and leave at random: each of those who stay hears what the source said."""

import asyncio
from collections.abc import Callable

from app.cache.log import LogLimits
from app.chat.events import Event, Failed, Fault, TextDelta
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.fake_calls import DONE, Ear, Scene
from tests.cache.manual_clock import Clocked, run
from tests.effort import examples

BROKEN = Failed(Fault("upstream_incomplete", "cut off", transient=True))
DEFECT = KeyError("ours")
STEPS = st.sampled_from(
    ["read", "read", "reads", "join", "come", "start", "pause", "resume", "leave", "hold", "release", "turn", "turn"]
)


class Storm:
    """What happens to one flight, step by step."""

    def __init__(self, scene: Scene, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.scene = scene
        self.draw = draw
        self.ears: list[Ear] = []
        self.waiting: list[Ear] = []
        self.said: list[list[Event]] = []
        self.holds = 0

    async def step(self, what: str) -> None:
        await getattr(self, f"_{what}")()
        for ear in self.ears:
            assert ear.batches == self.scene_said[: len(ear.batches)]
        self._check_balance()

    @property
    def scene_said(self) -> list[list[Event]]:
        """With the word by which a flight is given up, where it was."""
        flight = self.scene.flight
        given_up = flight.ended and not self.scene.source.over
        return self.said + ([flight.log.batches[-1].events] if given_up else [])

    def push(self, *batches: list[Event]) -> None:
        source, flight = self.scene.source, self.scene.flight
        if not (source.paused or source.over or flight.ended):
            self.said += batches
            source.push(*batches)

    def _check_balance(self) -> None:
        """The server is held back only by who cannot take more."""
        flight, source = self.scene.flight, self.scene.source
        if flight.ended:
            return
        ears = [*self.ears, *self.waiting]
        pausing = [ear.paused for ear in ears]
        assert source.paused == (bool(ears) and (all(pausing) or (not flight.complete and any(pausing))))
        assert ears or self.holds, "a call goes on for whom?"

    def _some(self, ears: list[Ear]) -> Ear | None:
        return ears[self.draw(st.integers(0, len(ears) - 1))] if ears else None

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self.push([TextDelta("x" * self.draw(st.integers(1, 300)))] if self.draw(st.integers(0, 3)) else [])

    async def _reads(self) -> None:
        batches: list[list[Event]] = [[TextDelta(str(number))] for number in range(self.draw(st.integers(2, 9)))]
        self.push(*batches)

    async def _join(self) -> None:
        if self.scene.flight.complete:
            self.ears.append(self.scene.ear())

    async def _come(self) -> None:
        """Not yet told anything: it is still being opened."""
        if self.scene.flight.complete:
            ear = Ear()
            ear.reply = self.scene.flight.add_reader()
            self.waiting.append(ear)

    async def _start(self) -> None:
        if self.waiting:
            ear = self.waiting.pop()
            self.ears.append(ear)
            assert ear.reply is not None
            ear.listen(ear.reply)

    async def _pause(self) -> None:
        if ear := self._some(self.ears):
            ear.pause()

    async def _resume(self) -> None:
        if ear := self._some(self.ears):
            ear.resume()

    async def _leave(self) -> None:
        if ear := self._some(self.ears):
            self.ears.remove(ear)
            ear.leave()

    async def _hold(self) -> None:
        self.holds += 1
        self.scene.flight.retain()

    async def _release(self) -> None:
        if self.holds:
            self.holds -= 1
            self.scene.flight.release()

    async def _turn(self) -> None:
        await asyncio.sleep(0)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def end(self, how: str) -> None:
        while self.waiting:
            await self._start()
        for ear in self.ears:
            ear.resume()
        if how == "crash" and not self.scene.flight.ended:
            self.scene.source.crash(DEFECT)
        else:
            self.push([DONE if how == "finish" else BROKEN])
        while len(self.ears) and not all(ear.over for ear in self.ears):
            await asyncio.sleep(0)


@examples(200)
@given(st.data(), st.lists(STEPS, max_size=60), st.sampled_from(["finish", "fail", "crash"]), st.booleans())
def test_each_reader_that_stays_gets_exactly_the_events_of_the_source(
    data: st.DataObject, steps: list[str], how: str, small: bool
) -> None:
    limits = LogLimits(max_bytes=1500 if small else 10**9, batches_per_turn=3)

    async def scenario(loop: Clocked) -> None:
        scene = Scene(limits)
        scene.flight.retain()
        storm = Storm(scene, data.draw)
        storm.holds = 1
        if data.draw(st.booleans()):
            await storm.step("come")
        await scene.opened()
        for step in steps:
            await storm.step(step)
        await storm.end(how)
        crash = DEFECT if how == "crash" and scene.source.over else None
        for ear in storm.ears:
            assert (ear.batches, ear.crash) == (storm.scene_said, crash)
        for ear in storm.ears:
            ear.leave()
        for _ in range(storm.holds):
            scene.flight.release()
        assert (scene.source.closes, len(scene.overs)) == (1, 1)
        assert not scene.flight.log.readers
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 2, "that of this test, and the one that bounds it"

    run(scenario)
