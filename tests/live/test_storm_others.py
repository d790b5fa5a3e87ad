"""Two gateways on one Redis, and the call of one that fails, or whose own callers all leave."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.live.caches import coordinator_of
from tests.live.gateway import Gateway, eventually, say
from tests.live.raw_client import Caller
from tests.live.storm_clients import SEEDS, Model, caching, connections, kill, listening, question, receive_all, words
from tests.redis_server import RedisServer
from tests.scripted_server import Reply

pytestmark = pytest.mark.anyio

SOME = 6


@asynccontextmanager
async def pair(model: Model, redis: RedisServer) -> AsyncIterator[tuple[Gateway, Gateway, list[Caller]]]:
    """As many callers at the one as at the other."""
    async with caching(model, redis.url) as one, caching(model, redis.url) as other:
        async with connections(*[one.address] * SOME, *[other.address] * SOME) as callers:
            yield one, other, callers


async def joined(one: Gateway, other: Gateway, count: int = SOME) -> None:
    """All wait, and those of the other gateway for a call that it does not make."""
    await eventually(lambda: listening(one) == count and listening(other) == SOME, 10)
    await eventually(lambda: len(coordinator_of(other).tailer) == 1, 10)


@pytest.mark.parametrize("seed", SEEDS)
async def test_all_callers_of_the_leading_gateway_are_killed(shared_redis: RedisServer, seed: int) -> None:
    pick, text = random.Random(seed), f"desert {seed}"
    moment = pick.randint(-1, len(words(text)) - 1)
    async with Model() as model, pair(model, shared_redis) as (one, other, callers):
        await callers[0].ask(question(text), stream=True)
        call = await model.call(text)
        for caller in callers[1:]:
            await caller.ask(question(text), stream=pick.random() < 0.8)
        await joined(one, other)
        if moment >= 0:
            call.go(pick.random() / 100)
            await call.word_sent[moment].wait()
        for caller in callers[:SOME]:
            await kill(caller)
        if moment < 0:
            await joined(one, other, 0)
        call.go()
        assert all(reply.whole(text) for reply in await receive_all(callers[SOME:]))
        assert len(model.requests) == 1


@pytest.mark.parametrize("words_sent", [0, 3])
async def test_a_reply_that_is_cut_off_is_complete_for_no_caller(shared_redis: RedisServer, words_sent: int) -> None:
    more = asyncio.Event()
    cut = Reply([say(word) for word in words("Hi")[:words_sent]] + [more], chunked=True, abrupt=True)
    async with Model(0.0) as model, pair(model, shared_redis) as (one, other, callers):
        model.replies = [cut]
        await callers[0].ask(question("Hi"), stream=True)
        await model.request()
        for caller in callers[1:]:
            await caller.ask(question("Hi"), stream=True)
        await joined(one, other)
        more.set()
        replies = await receive_all(callers)
        assert {(reply.ending, reply.text) for reply in replies} == {
            ("upstream_incomplete", "".join(words("Hi")[:words_sent]))
        }
        assert len(model.requests) == 1


async def test_those_who_only_joined_a_call_that_failed_ask_once_more_together(shared_redis: RedisServer) -> None:
    hold = asyncio.Event()
    async with Model(0.0) as model, pair(model, shared_redis) as (one, other, callers):
        model.replies = [Reply(status=500, headers={"content-length": "0"}, hold=hold)]
        await callers[0].ask(question("Hi"), stream=True)
        await model.request()
        for caller in callers[1:]:
            await caller.ask(question("Hi"), stream=True)
        await joined(one, other)
        hold.set()
        replies = await receive_all(callers)
        assert Counter(reply.whole("Hi") for reply in replies) == {True: 2 * SOME - 1, False: 1}
        assert replies[0].ending == "server_error"
        assert len(model.requests) == 2
