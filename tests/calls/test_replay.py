"""A stored reply is read as it came, whatever its reader does meanwhile."""

import asyncio
import random
from collections.abc import Sequence
from unittest.mock import Mock, patch

import pytest
from app.calls.entry import Batch, CorruptEntry, StoredEntry
from app.calls.log import LogLimits, LogReader, Pace
from app.calls.stored_log import STORED_LIMITS, StoredLog
from app.chat.event_runs import join_texts
from app.chat.events import Event, Extra, Finish, TextDelta, ToolCallDelta

from tests.cache.fake_calls import FakeCaller
from tests.cache.manual_clock import Clocked, Listener, run
from tests.each_case import each_case


def made(count: int, gap: float = 0.1) -> list[Batch]:
    """`count` batches, the last of which ends the reply."""
    sent = [Batch(5.0 + place * gap, [TextDelta(f"{place} "), TextDelta("x")]) for place in range(count - 1)]
    return [*sent, Batch(5.0 + count * gap, [Finish("stop")])]


def stored(batches: list[Batch], pace: Pace = "fast", limits: LogLimits = STORED_LIMITS) -> StoredLog:
    return StoredLog(StoredEntry(1.0, batches), pace=pace, limits=limits)


def replayed(batches: list[Batch], pace: Pace = "fast", limits: LogLimits = STORED_LIMITS) -> LogReader:
    return stored(batches, pace, limits).add_reader(pace)


def events_of(batches: list[Batch]) -> list[list[Event]]:
    return [batch.events for batch in batches]


@each_case("pace", ["fast", "original"])
@each_case("count", [1, 2, 255, 256, 257, 600])
def test_a_reply_is_replayed_completely_in_order_and_in_its_batches(count: int, pace: Pace) -> None:
    async def scenario(loop: Clocked) -> None:
        batches, listener = made(count), Listener()
        replayed(batches, pace).start(listener)
        await listener.ended.wait()
        assert listener.received == events_of(batches)

    run(scenario)


@each_case("pace", ["fast", "original"])
def test_a_reader_that_raises_gets_its_error(pace: Pace) -> None:
    class Broken(FakeCaller):
        def on_batches(self, batches: Sequence[list[Event]]) -> None:
            super().on_batches(batches)
            if len(self.batches) >= 4:
                raise KeyError("ours")

    async def scenario(loop: Clocked) -> None:
        reader = Broken()
        reader.listen(replayed(made(20), pace, LogLimits(batches_per_turn=2)))
        await asyncio.sleep(10)
        assert (len(reader.batches), type(reader.crash)) == (4, KeyError)

    run(scenario)


def test_an_empty_read_is_replayed_as_an_empty_read() -> None:
    async def scenario(loop: Clocked) -> None:
        batches, listener = [Batch(0.1, []), *made(3), Batch(9.0, [Finish("stop")])], Listener()
        batches[3:4] = [Batch(8.0, [])]
        replayed(batches).start(listener)
        assert listener.received == events_of(batches)

    run(scenario)


def test_what_belongs_to_a_batch_stays_in_it() -> None:
    async def scenario(loop: Clocked) -> None:
        batches, listener = made(6), Listener()
        batches[2:3] = [Batch(0.1, [TextDelta("a"), Extra({"k": 1}), TextDelta("b")])]
        replayed(batches).start(listener)
        assert listener.received == events_of(batches)
        assert listener.groups == [2, 1, 3]

    run(scenario)


def test_a_reader_that_closes_gets_no_more_of_the_same_turn() -> None:
    async def scenario(loop: Clocked) -> None:
        reply = replayed([Batch(0.0, [TextDelta("a")]), Batch(0.0, [Extra({"k": 1})]), *made(3)])
        listener = Listener(reply.close)
        reply.start(listener)
        await asyncio.sleep(0)
        assert listener.received == [[TextDelta("a")]]

    run(scenario)


def test_a_short_reply_is_delivered_before_start_returns() -> None:
    async def scenario(loop: Clocked) -> None:
        listener = Listener()
        replayed(made(10)).start(listener)
        assert listener.groups == [10]

    run(scenario)


def test_a_long_reply_leaves_others_their_turn_between_its_groups() -> None:
    async def scenario(loop: Clocked) -> None:
        listener = Listener()
        replayed(made(300)).start(listener)
        turns = 0
        while not listener.ended.is_set():
            await asyncio.sleep(0)
            turns += 1
            assert len(listener.groups) <= turns + 1
        assert listener.groups == [256, 44]

    loop = run(scenario)
    assert loop.now == 100.0, "as fast as possible takes no time"


@pytest.mark.interpreted
def test_a_turn_is_made_when_it_is_first_read_and_once_for_all_readers() -> None:
    async def scenario(loop: Clocked) -> None:
        reply = stored(made(300))
        first, second = Listener(), Listener()
        with patch("app.calls.stored_log.join_texts", Mock(wraps=join_texts)) as joining:
            reply.add_reader().start(first)
            assert joining.call_count == 1
            await first.ended.wait()
            reply.add_reader().start(second)
            await second.ended.wait()
            assert joining.call_count == 2
        assert first.received == second.received == events_of(made(300))

    run(scenario)


def test_a_group_is_bounded_by_its_text_too() -> None:
    async def scenario(loop: Clocked) -> None:
        texts: list[Event] = [
            TextDelta("x" * 40_000),
            ToolCallDelta(0, "y" * 40_000, "c", "f"),
            TextDelta("z" * 200_000),
        ]
        batches = [*(Batch(0.0, [text]) for text in texts), Batch(0.0, [Finish("stop")])]
        listener = Listener()
        replayed(batches).start(listener)
        await listener.ended.wait()
        assert listener.groups == [2, 1, 1]
        assert listener.received == events_of(batches)

    run(scenario)


def test_at_the_original_pace_the_distances_are_those_of_the_model_server() -> None:
    async def scenario(loop: Clocked) -> None:
        times = [5.0, 5.2, 5.2, 6.0, 5.9, 106.0, 106.5]
        batches = [Batch(at, [TextDelta("x")]) for at in times[:-1]] + [Batch(times[-1], [Finish("stop")])]
        listener = Listener()
        replayed(batches, "original").start(listener)
        await listener.ended.wait()
        assert listener.at == pytest.approx([100.0, 100.2, 100.2, 101.0, 101.0, 111.0, 111.5], abs=0.002)

    run(scenario)


def test_a_pause_moves_nothing_that_comes_later() -> None:
    async def scenario(loop: Clocked) -> None:
        listener = Listener()
        reply = replayed(made(11), "original")
        reply.start(listener)
        await asyncio.sleep(0.15)
        reply.pause()
        await asyncio.sleep(0.4)
        assert len(listener.received) == 2
        reply.resume()
        await listener.ended.wait()
        late, in_time = listener.at[2:6], [*listener.at[:2], *listener.at[6:]]
        assert late == pytest.approx([100.55] * 4, abs=0.002)
        assert in_time == pytest.approx([100.0, 100.1, 100.6, 100.7, 100.8, 100.9, 101.1], abs=0.002)

    run(scenario)


def test_a_timer_that_comes_early_is_waited_for_again() -> None:
    async def scenario(loop: Clocked) -> None:
        listener = Listener()
        reply = replayed(made(4, gap=1.0), "original")
        reply.start(listener)
        for _ in range(50):
            reply.pause()
            reply.resume()
            await asyncio.sleep(0.01)
        assert len(listener.received) == 1
        await listener.ended.wait()
        assert listener.at == pytest.approx([100.0, 101.0, 102.0, 104.0], abs=0.002)

    run(scenario)


@each_case("pace", ["fast", "original"])
@each_case("seed", range(40))
def test_the_reply_is_the_same_wherever_it_is_paused_and_resumed(seed: int, pace: Pace) -> None:
    """Pauses and resumes come from the reader, also while it receives events, and from outside, also twice."""
    chance = random.Random(seed)

    async def scenario(loop: Clocked) -> None:
        batches = made(chance.choice([1, 3, 270, 600]))
        reply = replayed(batches, pace)

        def pause() -> None:
            listener.paused = chance.random() < 0.5
            (reply.pause if listener.paused else reply.resume)()

        listener = Listener(pause)
        pause()
        reply.start(listener)
        while not listener.ended.is_set():
            await asyncio.sleep(chance.choice([0, 0, 0.05, 1.0]))
            pause()
        reply.resume()
        await asyncio.sleep(1)
        assert listener.received == events_of(batches)

    run(scenario)


@each_case("pace", ["fast", "original"])
@each_case("after", range(5))
@each_case("inside", [True, False])
def test_nothing_is_delivered_after_a_close(after: int, pace: Pace, inside: bool) -> None:
    async def scenario(loop: Clocked) -> None:
        reply = replayed(made(5), pace, LogLimits(batches_per_turn=1))
        listener = Listener(lambda: reply.close() if inside and len(listener.groups) == after else None)
        if after:
            reply.start(listener)
        else:
            reply.close()
            reply.start(listener)
        while after and len(listener.groups) < after:
            await asyncio.sleep(0 if pace == "fast" else 0.05)
        reply.close()
        for _ in range(3):
            reply.pause()
            reply.resume()
            reply.tick(loop.time())
            await asyncio.sleep(20)
        assert len(listener.groups) == after
        assert listener.crash is None

    run(scenario)


def test_a_reply_that_is_over_leaves_nothing_in_the_loop() -> None:
    async def scenario(loop: Clocked) -> None:
        listener = Listener()
        for pace in ("fast", "original"):
            reply = replayed(made(600), pace)
            reply.start(listener)
            reply.close()
        await asyncio.sleep(0)
        assert [handle for handle in loop._scheduled if not handle.cancelled()][1:] == []  # type: ignore[attr-defined]
        assert len(asyncio.all_tasks()) == 2, "that of this test, and the one that bounds it"

    run(scenario)


@each_case("batches", [[], [Batch(0.0, [])], [Batch(0.0, [TextDelta("Hi")])]])
def test_an_entry_without_an_end_is_damaged(batches: list[Batch]) -> None:
    with pytest.raises(CorruptEntry):
        stored(batches)
