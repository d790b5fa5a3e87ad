"""Equal questions at one moment are one call, whatever becomes of those who ask."""

import asyncio
import random
from collections import Counter

import pytest
from app.formats import FORMATS

from tests.live.gateway import Gateway, eventually, say
from tests.live.storm_clients import (
    SEEDS,
    Model,
    caching,
    common,
    connections,
    kill,
    listening,
    question,
    receive_all,
    words,
)
from tests.scripted_server import Reply

pytestmark = pytest.mark.anyio

MANY = 500
SOME = 20
HI = question("Hi")


async def joined(gateway: Gateway, count: int) -> None:
    await eventually(lambda: listening(gateway) == count)


async def test_five_hundred_equal_questions_are_one_call_with_one_reply() -> None:
    async with Model() as model, caching(model) as gateway, connections(*[gateway.address] * MANY) as callers:
        for caller in callers:
            await caller.ask(HI, stream=True)
        await joined(gateway, MANY)
        (await model.call()).go(0.01)
        replies = await receive_all(callers)
        assert Counter(reply.label for reply in replies) == {"miss": 1, "shared": MANY - 1}
        assert len({common(reply.raw) for reply in replies}) == 1
        assert replies[0].whole("Hi")
        assert len(model.requests) == 1


async def test_equal_questions_in_all_formats_and_modes_are_one_call() -> None:
    ways = [
        {"reply_format": name, **mode}
        for name in FORMATS
        for mode in ({"stream": True}, {"stream": True, "stream_mode": "snapshot"}, {"stream": False})
    ]
    async with Model() as model, caching(model) as gateway, connections(*[gateway.address] * len(ways) * 4) as callers:
        for caller, way in zip(callers, ways * 4, strict=True):
            await caller.ask(HI, **way)
        await joined(gateway, len(callers))
        (await model.call()).go(0.005)
        replies = await receive_all(callers)
        assert Counter(reply.label for reply in replies) == {"miss": 1, "shared": len(callers) - 1}
        complete = ["".join(words("Hi"))[-20:-1].encode() in reply.raw for reply in replies[2::3]]
        assert all(complete)
        for at in range(len(ways)):
            assert len({common(reply.raw) for reply in replies[at :: len(ways)]}) == 1
        assert len(model.requests) == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_first_caller_is_killed_and_all_others_get_the_whole_reply(seed: int) -> None:
    pick, text = random.Random(seed), f"storm {seed}"
    moment = pick.randint(-1, len(words(text)) - 1)
    async with Model() as model, caching(model) as gateway, connections(*[gateway.address] * SOME) as (first, *others):
        await first.ask(question(text), stream=True)
        call = await model.call(text)
        for caller in others:
            await caller.ask(question(text), stream=pick.random() < 0.8)
        await joined(gateway, SOME)
        if moment >= 0:
            call.go(pick.random() / 100)
            await call.word_sent[moment].wait()
        await kill(first)
        if moment < 0:
            await joined(gateway, SOME - 1)
        call.go()
        replies = await receive_all(others)
        assert all(reply.label == "shared" for reply in replies)
        assert all(reply.whole(text) for reply in replies)
        assert len(model.requests) == 1


@pytest.mark.parametrize("words_sent", [0, 3])
async def test_a_reply_that_is_cut_off_is_complete_for_no_caller_and_is_not_stored(words_sent: int) -> None:
    more = asyncio.Event()
    cut = Reply([say(word) for word in words("Hi")[:words_sent]] + [more], chunked=True, abrupt=True)
    async with Model(0.0) as model, caching(model) as gateway, connections(*[gateway.address] * SOME) as callers:
        model.replies = [cut]
        for caller in callers[:-1]:
            await caller.ask(HI, stream=caller is not callers[1])
        await model.request()
        await eventually(lambda: model.connections[0].sent == words_sent)
        await callers[-1].ask(HI, stream=True)
        await joined(gateway, SOME)
        more.set()
        replies = await receive_all(callers)
        assert {reply.ending for reply in replies} == {"upstream_incomplete"}
        assert {reply.text for reply in replies} == {"".join(words("Hi")[:words_sent])}
        assert len(model.requests) == 1
        await callers[0].ask(HI, stream=True)
        (again,) = await receive_all(callers[:1])
        assert again.whole("Hi") and again.label == "miss"


async def test_those_who_only_joined_a_call_that_failed_ask_once_more_together() -> None:
    refused = Reply(status=500, headers={"content-length": "0"}, hold=asyncio.Event())
    async with Model(0.0) as model, caching(model) as gateway, connections(*[gateway.address] * SOME) as callers:
        model.replies = [refused]
        for caller in callers:
            await caller.ask(HI, stream=True)
        await joined(gateway, SOME)
        assert refused.hold is not None
        refused.hold.set()
        replies = await receive_all(callers)
        assert Counter(reply.whole("Hi") for reply in replies) == {True: SOME - 1, False: 1}
        assert replies[0].ending == "server_error"
        assert len(model.requests) == 2


async def test_a_server_that_only_fails_gets_one_more_request_for_all_followers() -> None:
    hold = asyncio.Event()
    refused = Reply(status=500, headers={"content-length": "0"}, hold=hold)
    async with Model(0.0) as model, caching(model) as gateway, connections(*[gateway.address] * SOME) as callers:
        model.replies = [refused] * 100
        for caller in callers:
            await caller.ask(HI, stream=True)
        await joined(gateway, SOME)
        hold.set()
        replies = await receive_all(callers)
        assert {reply.ending for reply in replies} == {"server_error"}
        assert len(model.requests) == 2
