"""Redis stops or dies, before and during requests: no request waits for it, and none fails because of it."""

import asyncio
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, NamedTuple

import pytest

from tests.live.caches import coordinator_of, link_of
from tests.live.gateway import Gateway, eventually
from tests.live.raw_client import Caller
from tests.live.storm_clients import (
    SEEDS,
    Call,
    Model,
    caching,
    connections,
    question,
    receive_all,
    receive_heads,
    receive_rests,
    words,
)
from tests.redis_server import RedisServer

pytestmark = pytest.mark.anyio

How = Literal["pause", "kill"]
HOWS = pytest.mark.parametrize("how", ["pause", "kill"])
ROUNDS = 2 + len(SEEDS) // 5
CROWD = 50
PACE = 0.005
MOST_SECONDS = 0.15 if "SEEDS" in os.environ else 1.5
"""What an outage may add to a reply. `make storms` measures it, on a quiet machine; a wait for another gateway's lease
takes longer on any."""

SOON_SECONDS = 2.0
"""Less than the time after which a gateway that says nothing is taken for dead."""


class Took(NamedTuple):
    first: float
    whole: float


@asynccontextmanager
async def outage(redis: RedisServer, how: How, *gateways: Gateway) -> AsyncIterator[None]:
    """When it is over, all gateways know."""
    redis.pause() if how == "pause" else redis.kill()
    try:
        yield
    finally:
        redis.go_on() if how == "pause" else redis.start()
    await eventually(lambda: not any(away(gateway) for gateway in gateways))


def away(gateway: Gateway) -> bool:
    return link_of(gateway).is_open


async def timed(gateway: Gateway, text: str, pace: float = PACE) -> Took:
    """Until the first word; and how much longer than the model itself the whole took."""
    loop = asyncio.get_running_loop()
    async with connections(gateway.address) as callers:
        asked_at = loop.time()
        await callers[0].ask(question(text), stream=True)
        await receive_heads(callers)
        first = loop.time() - asked_at
        (reply,) = await receive_rests(callers)
        assert reply.whole(text), reply.ending
        return Took(first, loop.time() - asked_at - pace * len(words(text)))


def added(without: list[Took], within: list[Took]) -> Took:
    """By the medians of both."""
    print()
    return Took(*(_added(name, [took[at] for took in without], [took[at] for took in within]) for at, name in _PARTS))


_PARTS = tuple(enumerate(("the first word", "the whole")))


def _added(name: str, without: list[float], within: list[float]) -> float:
    usual = statistics.median(without)
    low, middle, high = (pick(within) - usual for pick in (min, statistics.median, max))
    print(f"added to {name}: {low * 1000:.0f} to {high * 1000:.0f} ms, median {middle * 1000:.0f} ms")
    return middle


@HOWS
async def test_the_first_request_of_an_outage_waits_a_moment_and_the_others_do_not(
    own_redis: RedisServer, how: How
) -> None:
    without: list[Took] = []
    first: list[Took] = []
    later: list[Took] = []
    async with Model(PACE) as model, caching(model, own_redis.url) as gateway:
        await timed(gateway, "to get warm")
        for number in range(ROUNDS):
            without.append(await timed(gateway, f"without {number:02}"))
            async with outage(own_redis, how, gateway):
                first.append(await timed(gateway, f"first {number:02}"))
                later.append(await timed(gateway, f"later {number:02}"))
    assert max(added(without, first)) < MOST_SECONDS
    assert max(added(without, later)) < MOST_SECONDS / 3


async def test_a_crowd_with_questions_of_their_own_waits_no_longer_than_one(own_redis: RedisServer) -> None:
    without: list[Took] = []
    within: list[Took] = []
    async with Model(0.0) as model, caching(model, own_redis.url) as gateway:
        await _asked_at_once(gateway, "to get warm")
        for number in range(ROUNDS - 1):
            without += await _asked_at_once(gateway, f"without {number}")
            async with outage(own_redis, "pause", gateway):
                within += await _asked_at_once(gateway, f"within {number}")
    assert max(added(without, within)) < MOST_SECONDS


async def _asked_at_once(gateway: Gateway, text: str) -> list[Took]:
    return await asyncio.gather(*(timed(gateway, f"{text}, {number}", 0.0) for number in range(CROWD)))


@HOWS
async def test_a_reply_that_is_under_way_goes_on_as_if_nothing_were(own_redis: RedisServer, how: How) -> None:
    without: list[Took] = []
    within: list[Took] = []
    async with Model() as model, caching(model, own_redis.url) as gateway:
        for number in range(ROUNDS):
            without.append(await _in_the_middle(gateway, model, f"without {number}"))
            within.append(await _in_the_middle(gateway, model, f"within {number}", own_redis, how))
    assert max(added(without, within)) < MOST_SECONDS / 3


async def _in_the_middle(
    gateway: Gateway, model: Model, text: str, redis: RedisServer | None = None, how: How = "kill"
) -> Took:
    """How much longer than the model itself what comes behind the first word took."""
    loop = asyncio.get_running_loop()
    async with connections(*[gateway.address] * 2) as callers, AsyncExitStack() as stack:
        for caller in callers:
            await caller.ask(question(text), stream=True)
        call = await model.call(text)
        call.begin.set()
        call.word_sent[0].set()
        await receive_heads(callers)
        if redis is not None:
            await stack.enter_async_context(outage(redis, how, gateway))
        began = loop.time()
        call.go(PACE)
        replies = await receive_rests(callers)
        took = loop.time() - began - PACE * len(words(text))
        assert all(reply.whole(text) for reply in replies)
        return Took(took, took)


@HOWS
async def test_a_follower_of_another_gateway_gets_all_events_or_a_failure_and_sharing_works_again(
    own_redis: RedisServer, how: How
) -> None:
    async with (
        Model() as model,
        caching(model, own_redis.url) as one,
        caching(model, own_redis.url) as other,
        connections(*[gateway.address for gateway in (one, other) for _ in range(3)]) as callers,
    ):
        call = await _ask_first_and_others(model, callers, "outage")
        call.begin.set()
        call.word_sent[0].set()
        await receive_heads(callers)
        async with outage(own_redis, how, one, other):
            call.go(PACE)
            received = await receive_rests(callers[:3])
            if how == "kill":
                lost = await receive_rests(callers[3:])
                assert {reply.ending for reply in lost} == {"upstream_incomplete"}
                assert all("".join(words("outage")).startswith(reply.text) for reply in lost)
        if how == "pause":
            received += await receive_rests(callers[3:])
        assert all(reply.whole("outage") for reply in received)
        assert model.asked["outage"] == 1
        again = await _ask_first_and_others(model, callers, "again")
        again.go(PACE)
        assert all(reply.whole("again") for reply in await receive_all(callers))
        assert model.asked["again"] == 1


@HOWS
async def test_a_follower_without_events_so_far_does_not_wait_for_redis(own_redis: RedisServer, how: How) -> None:
    async with (
        Model() as model,
        caching(model, own_redis.url) as one,
        caching(model, own_redis.url) as other,
        connections(one.address, other.address) as callers,
    ):
        call = await _ask_first_and_others(model, callers, "Hi")
        await eventually(lambda: len(coordinator_of(other).tailer) == 1)
        async with outage(own_redis, how, one, other):
            async with asyncio.timeout(SOON_SECONDS):
                (received,) = await receive_all(callers[1:])
        assert received.whole("Hi")
        call.go()
        (received,) = await receive_all(callers[:1])
        assert received.whole("Hi")
        assert model.asked["Hi"] == 2


async def _ask_first_and_others(model: Model, callers: list[Caller], text: str) -> Call:
    await callers[0].ask(question(text), stream=True)
    call = await model.call(text)
    for caller in callers[1:]:
        await caller.ask(question(text), stream=True)
    return call
