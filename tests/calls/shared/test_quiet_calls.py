"""A call that no other gateway follows needs few commands of Redis; a gateway that joins gets all events at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app.calls.entry import Batch
from app.calls.shared.call_store import PREFIX, CallKeys, WriteResult
from app.calls.shared.lease import MAX_UNFOLLOWED_BYTES, UNFOLLOWED_SECONDS, CallLease
from app.chat.events import Event, TextDelta

from tests.calls.shared.coordinators import REPLY, Model, gateway, listen, play, until
from tests.calls.shared.reply_strategies import flat
from tests.live.gateway import DONE as SERVER_DONE
from tests.live.gateway import end, say
from tests.live.raw_client import calling
from tests.live.resuming_client import QUESTION, caching
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

WHOLE = flat(REPLY)
AT_ONCE_SECONDS = 0.2
"""Less than the time after which an unfollowed call is written or renewed."""
IDLE = {"xread", "config", "info", "exists", "hello", "client", "select", "cluster", "ping", "command"}
"""Commands of waiting gateways, and of this test."""


@asynccontextmanager
async def commands(redis: RedisServer) -> AsyncIterator[dict[str, int]]:
    """Counts the commands that the server runs meanwhile, those of scripts among them."""
    with redis.client() as client:
        counts: dict[str, int] = {}
        client.config_resetstat()
        yield counts
        for name, stats in client.info("commandstats").items():
            name = name.removeprefix("cmdstat_").split("|")[0]
            if name not in IDLE:
                counts[name] = counts.get(name, 0) + stats["calls"]


async def whole(address: Any, text: str) -> str:
    async with calling(address) as caller:
        await caller.ask({**QUESTION, "messages": [{"role": "user", "content": text}], "stream": False})
        assert await caller.head() == 200
        label = caller.headers["x-parley-cache"]
        await caller.rest()
        return label


@pytest.mark.anyio
async def test_a_whole_miss_takes_at_most_four_commands(shared_redis: RedisServer) -> None:
    count = 50
    script = Reply([say("One"), end(), SERVER_DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, shared_redis.url) as one:
        assert await whole(one.address, "first") == "miss"
        async with commands(shared_redis) as counts:
            labels = {await whole(one.address, f"{number}") for number in range(count)}
            await until(lambda: one.context.cache.storing == 0)
        assert labels == {"miss"}
        assert sum(counts.values()) <= 4 * count + 4, counts
        async with commands(shared_redis) as counts:
            assert {await whole(one.address, f"{number}") for number in range(count)} == {"hit"}
        assert set(counts) <= {"get"}


def stream_of(redis: RedisServer, call_id: str) -> list[Any]:
    with redis.client() as client:
        found: list[Any] = client.xrange(CallKeys.from_id(call_id).stream)
        return found


def test_a_gateway_that_joins_gets_everything_at_once_and_whatever_follows(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            reply, _, id_ = await one.claim_or_follow("q", model.lead)
            own = listen(reply)
            model.calls[0].push(4)
            await own.reach(len(flat(REPLY[:4])))
            await asyncio.sleep(0.1)
            assert stream_of(shared_redis, id_) == []
            began = asyncio.get_running_loop().time()
            followed, leads, other_id = await two.claim_or_follow("q", model.lead)
            assert (leads, other_id) == (False, id_)
            late = listen(followed)
            await late.reach(len(flat(REPLY[:4])))
            assert asyncio.get_running_loop().time() - began < AT_ONCE_SECONDS
            began = asyncio.get_running_loop().time()
            model.calls[0].push()
            assert await late.end() == WHOLE == await own.end()
            assert asyncio.get_running_loop().time() - began < AT_ONCE_SECONDS
            assert len(model.calls) == 1

    play(scene())


def test_a_gateway_that_joins_just_after_the_end_gets_the_reply(shared_redis: RedisServer) -> None:
    """Its look-up in the store came before the reply was stored."""

    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            reply, _, id_ = await one.claim_or_follow("q", model.lead)
            own = listen(reply)
            model.calls[0].push()
            assert await own.end() == WHOLE
            await asyncio.sleep(0.4)
            assert len(one.writer) == 0 and stream_of(shared_redis, id_) == []
            followed, leads, _ = await two.claim_or_follow("q", model.lead)
            assert not leads
            assert await listen(followed).end() == WHOLE
            assert len(model.calls) == 1

    play(scene())


def test_a_reply_that_may_be_resumed_is_written_a_few_times_a_second(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one:
            batches: list[list[Event]] = [[TextDelta(f"{number} ")] for number in range(1000)]
            model = Model(batches)
            reply, _, id_ = await one.claim_private(model.lead)
            listen(reply)
            for _ in range(50):
                model.calls[0].push(1)
                await asyncio.sleep(0.02)
            written = len(stream_of(shared_redis, id_))
            assert 2 <= written <= 8
            reply.close()
            await until(lambda: len(one.writer) == 0)

    play(scene())


def test_a_dead_leader_of_an_unwritten_call_is_replaced(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, 0.8) as one, gateway(shared_redis.url, 0.8) as two:
            model = Model()
            reply, _, _ = await one.claim_or_follow("q", model.lead)
            listen(reply)
            model.calls[0].push(2)
            one.link.die()  # type: ignore[attr-defined]
            task = asyncio.ensure_future(two.claim_or_follow("q", model.lead))
            await until(lambda: len(model.calls) == 2)
            followed, _, _ = await task
            late = listen(followed)
            model.calls[1].push()
            assert await late.end() == WHOLE

    play(scene())


def lease() -> tuple[CallLease, list[int]]:
    woken: list[int] = []
    return CallLease(CallKeys("q", "1"), lambda: woken.append(1), 10.0), woken


def answered(one: CallLease, *, followed: bool) -> None:
    one.next_write()
    one.on_written(WriteResult(1, followed), 20.0)


WORD = Batch(0.0, [TextDelta("x")])
CHANGES: dict[str, Callable[[CallLease], object]] = {
    "followed": lambda one: one.set_followed(),
    "first of a resumable reply": lambda one: one.set_resumable(),
    "large": lambda one: one.append(Batch(0.0, [TextDelta("x" * MAX_UNFOLLOWED_BYTES)])),
    "end that nobody may join": lambda one: one.end(),
    "end unless followed": lambda one: one.end_unless_followed(),
    "resigned": lambda one: one.resign(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_written_at_once(change: str) -> None:
    one, woken = lease()
    one.append(WORD)
    assert one.due_at(3.0) == 11.0 and not woken
    CHANGES[change](one)
    assert one.due_at(3.0) == 10.0 and woken


def test_an_unfollowed_reply_is_renewed_or_written_slowly() -> None:
    one, woken = lease()
    one.set_resumable()
    one.append(WORD)
    answered(one, followed=False)
    assert one.due_at(3.0) == 21.0
    woken.clear()
    one.append(WORD)
    assert one.due_at(3.0) == 20.0 + UNFOLLOWED_SECONDS and not woken
    answered(one, followed=True)
    one.append(WORD)
    assert one.due_at(3.0) == 20.0 and woken


def test_only_a_joining_reader_needs_the_end_of_a_call_without_a_beginning() -> None:
    one, woken = lease()
    one.append(WORD)
    one.end(2000)
    states = [(one.unneeded, bool(woken))]
    one.set_followed()
    states.append((one.unneeded, bool(woken)))
    assert states == [(True, False), (False, True)]


def test_the_notices_of_joined_calls_do_not_stay(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model(own=True)
            reply, _, _ = await one.claim_or_follow("q", model.lead)
            other, _, _ = await two.claim_or_follow("q", model.lead)
            for each in (reply, other):
                assert await listen(each).end() == WHOLE
        with shared_redis.client() as client:
            assert 0 < client.pttl(f"{PREFIX}:joined") <= 300_000

    play(scene())
