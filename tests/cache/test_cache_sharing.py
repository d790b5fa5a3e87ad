"""Identical requests at the same time share one call, and no request fails only because it shared one."""

import asyncio
import math
from typing import Any

import pytest
from app.cache import CacheRules, InFlightCall
from app.calls.log import LogLimits
from app.chat.events import Event, Failed
from app.chat.stream import Reply
from app.errors import Internal, UpstreamFailed

from tests.cache.cached_replies import BUSY, CUT, MARKED, OTHER, REFUSED, play
from tests.cache.fake_calls import DONE, FakeCaller, say
from tests.cache.fake_model import REPLY, Answer, Bench

SMALL = CacheRules(log_limits=LogLimits(max_bytes=2000))


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def together(bench: Bench, count: int, **more: Any) -> list[Answer | BaseException]:
    """Callers who all ask before the model's first word."""
    bench.model.gate = asyncio.Event()
    asking = [asyncio.ensure_future(bench.ask(**more)) for _ in range(count)]
    await turns()
    bench.model.gate.set()
    return await asyncio.gather(*asking, return_exceptions=True)


def labels(outcomes: list[Answer | BaseException]) -> list[str]:
    return [one.origin.label if isinstance(one, Answer) else type(one).__name__ for one in outcomes]


def leave(outcomes: list[Answer | BaseException]) -> None:
    for one in outcomes:
        if isinstance(one, Answer):
            one.caller.leave()


def test_identical_requests_at_the_same_time_are_one_call() -> None:
    async def scenario(bench: Bench) -> None:
        answers = await together(bench, 5)
        assert labels(answers) == ["miss", *["shared"] * 4]
        assert bench.model.asked == 1
        bench.model.calls[0].push(*REPLY)
        for answer in answers:
            assert isinstance(answer, Answer)
            assert answer.caller.batches == REPLY, "a caller that shares a call gets its usage as it is"
            assert not answer.origin.cached
        leave(answers)
        await bench.settled()
        assert (await bench.stats()).entries == 1
        assert bench.cache.counts == {"miss": 1, "shared": 4}

    play(scenario)


def test_a_late_reader_first_gets_the_log_so_far() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.ask()
        bench.model.calls[0].push(*REPLY[:2])
        late = await bench.ask()
        assert late.received == ("shared", REPLY[:2])
        first.caller.leave()
        bench.model.calls[0].push(*REPLY[2:])
        assert late.caller.batches == REPLY
        late.caller.leave()
        await bench.forget_memory()
        assert (await bench.ask_and_answer()).received == ("hit", MARKED), "it is kept, though who asked first had left"

    play(scenario)


def test_a_lookup_just_before_the_reply_was_stored_finds_it_all_the_same() -> None:
    """The store is asked, and has nothing yet; when it has answered, the call is over and stored."""

    async def scenario(bench: Bench) -> None:
        looked, answered = asyncio.Event(), asyncio.Event()
        get = bench.store.get

        async def slow(key: str) -> object:
            found = await get(key)
            looked.set()
            await answered.wait()
            return found

        bench.store.get = slow  # type: ignore[method-assign, assignment]
        late = asyncio.ensure_future(bench.ask())
        await looked.wait()
        bench.store.get = get  # type: ignore[method-assign]
        await bench.ask_and_answer()
        answered.set()
        assert (await late).received == ("hit", MARKED)
        assert (await late).origin.age_seconds == 0
        assert bench.model.asked == 1

    play(scenario)


@pytest.mark.parametrize("retries", [1, 3])
def test_a_follower_of_a_failed_call_retries_once_and_as_often_as_it_may(retries: int) -> None:
    """Every call fails: each follower has its chances, and a call that it made itself is its last word."""

    async def scenario(bench: Bench) -> None:
        bench.model.refusals = [BUSY] * 100
        outcomes = await together(bench, 3, retries=retries)
        assert labels(outcomes) == ["UpstreamFailed"] * 3
        assert bench.model.asked == 3, "one call for each: no caller fails by another's call alone"

    play(scenario)


def test_a_follower_of_a_failed_call_gets_the_reply_of_the_next() -> None:
    async def scenario(bench: Bench) -> None:
        bench.model.refusals = [BUSY]
        outcomes = await together(bench, 4)
        assert labels(outcomes) == ["UpstreamFailed", "miss", "shared", "shared"]
        assert bench.model.asked == 2
        bench.model.calls[0].push(*REPLY)
        assert [one.caller.batches for one in outcomes if isinstance(one, Answer)] == [REPLY] * 3
        leave(outcomes)

    play(scenario)


def test_a_follower_without_retries_left_fails() -> None:
    """Three callers with as many calls of others to fail them: who may ask again once fails at the second."""

    async def scenario(bench: Bench) -> None:
        gates = [asyncio.Event() for _ in range(3)]
        asked = 0

        async def lead() -> Reply:
            nonlocal asked
            asked += 1
            await gates[asked - 1].wait()
            raise BUSY

        def ask(retries: int) -> asyncio.Future[Answer]:
            return asyncio.ensure_future(bench.ask(lead=lead, retries=retries))

        asking = [ask(0), ask(5), ask(0)]
        for gate in gates[:2]:
            await turns(6)
            gate.set()
        await turns(6)
        assert asking[2].done() and asked == 2, "it was failed by two calls of others and makes none itself"
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(one) for one in outcomes] == [UpstreamFailed] * 3

    play(scenario)


@pytest.mark.parametrize("error", [REFUSED, KeyError("ours")], ids=["refused", "defect"])
def test_a_request_that_would_fail_again_is_not_sent_again(error: UpstreamFailed) -> None:
    async def scenario(bench: Bench) -> None:
        bench.model.refusals = [error]
        outcomes = await together(bench, 3)
        ask_and_answer = UpstreamFailed if isinstance(error, UpstreamFailed) else Internal
        assert [type(one) for one in outcomes] == [ask_and_answer] * 3
        assert bench.model.asked == 1
        assert (await bench.ask_and_answer()).origin.label == "miss", "a failure is not remembered"

    play(scenario)


def test_an_interrupted_reply_fails_for_each_reader_and_the_next_request_starts_a_new_call() -> None:
    async def scenario(bench: Bench) -> None:
        half: list[list[Event]] = [*say("half"), [Failed(CUT)]]
        answers = await together(bench, 3)
        bench.model.calls[0].push(*half)
        assert [one.caller.batches for one in answers if isinstance(one, Answer)] == [half] * 3
        assert (await bench.ask()).origin.label == "miss"
        bench.model.calls[1].push(*REPLY)
        leave(answers)

    play(scenario)


def test_the_leader_may_leave_before_the_first_event_and_its_followers_get_the_reply() -> None:
    async def scenario(bench: Bench) -> None:
        bench.model.gate = asyncio.Event()
        first, second = (asyncio.ensure_future(bench.ask()) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        bench.model.gate.set()
        answer = await second
        bench.model.calls[0].push(*REPLY)
        assert answer.received == ("shared", REPLY)
        assert bench.model.asked == 1
        answer.caller.leave()

    play(scenario)


def test_a_follower_who_stays_keeps_the_call_when_all_leave() -> None:
    async def scenario(bench: Bench) -> None:
        answers = [await bench.ask(), await bench.ask(unread_seconds=math.inf)]
        leave(list(answers))
        assert bench.model.calls[0].closes == 0
        source = answers[1].found[-1]
        bench.model.calls[0].push(*REPLY[:2])
        assert isinstance(source, InFlightCall)
        source.release(math.inf)
        assert bench.model.calls[0].closes == 1

    play(scenario)


@pytest.mark.parametrize("label", ["miss", "hit", "shared"])
def test_a_reply_has_the_location_for_resuming_it(label: str) -> None:
    async def scenario(bench: Bench) -> None:
        if label == "hit":
            await bench.ask_and_answer()
        other = await bench.ask() if label == "shared" else None
        answer = await bench.ask()
        assert answer.origin.label == label
        if label != "hit":
            bench.model.calls[0].push(*REPLY)
        source, caller = answer.found[-1], FakeCaller()
        caller.listen(await source.open())
        assert caller.batches == answer.caller.batches
        assert (source.ended, source.complete) == (True, True)
        assert source.size > 100
        for one in (answer, other):
            if one is not None:
                one.caller.leave()

    play(scenario)


# -- replies beyond what is held ---------------------------------------------------------------------------------------


def test_a_reply_without_its_beginning_is_not_joined() -> None:
    async def scenario(bench: Bench) -> None:
        huge = say(*("x" * 500 for _ in range(8)))
        first = await bench.ask()
        bench.model.calls[0].push(*huge)
        second = await bench.ask()
        assert second.received == ("miss", [])
        joined = await bench.ask()
        assert joined.origin.label == "shared", "of the second call"
        bench.model.calls[1].push(*OTHER)
        bench.model.calls[0].push([DONE])
        assert first.caller.batches == [*huge, [DONE]]
        assert second.caller.batches == joined.caller.batches == OTHER
        for answer in (first, second, joined):
            answer.caller.leave()
        assert (await bench.ask_and_answer()).caller.batches[0] == OTHER[0]

    play(scenario, SMALL)


def test_a_reply_whose_end_is_too_much_is_not_kept_without_its_beginning() -> None:
    async def scenario(bench: Bench) -> None:
        batches: list[list[Event]] = [*say("x" * 1500), [*say("y" * 1500)[0], DONE]]
        for _ in range(3):
            assert (await bench.ask_and_answer(batches)).received == ("miss", batches)
        assert (await bench.stats()).entries == 0

    play(scenario, SMALL)
