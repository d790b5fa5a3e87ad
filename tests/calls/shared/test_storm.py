"""Callers who come, leave and dawdle at three gateways, while leaders freeze and Redis stops at random moments."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
from app.chat.stream import Reply

from tests.calls.shared.coordinators import (
    QUICK,
    Model,
    Scripted,
    SharingGateway,
    gateway,
    is_lost,
    listen,
    play,
    sleep,
    until,
    wake,
)
from tests.calls.shared.publishing_process import long_reply
from tests.calls.shared.reply_strategies import flat
from tests.redis_server import RedisServer

QUESTIONS = 4
CALLERS = 60


class Paced(Model):
    """Its replies come by themselves, each at its own pace."""

    def __init__(self, seed: int, pick: random.Random) -> None:
        super().__init__(long_reply(seed))
        self._pick = pick
        self.sending: set[asyncio.Task[None]] = set()

    async def lead(self) -> Reply:
        await asyncio.sleep(self._pick.random() / 50)
        reply = await super().lead()
        assert isinstance(reply, Scripted)
        task = asyncio.create_task(self._send(reply))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)
        return reply

    async def _send(self, reply: Scripted) -> None:
        while reply.left and not reply.closed.is_set():
            await asyncio.sleep(self._pick.random() / 100)
            if reply.started and not reply.paused:
                reply.push(1)


async def call(gateways: list[SharingGateway], model: Paced, seed: int, pick: random.Random) -> None:
    await asyncio.sleep(pick.random() * 1.5)
    reply, _, _ = await pick.choice(gateways).claim_or_follow(f"q{seed}", model.lead)
    reader = listen(reply)
    mood = pick.random()
    if mood < 0.3:
        await asyncio.sleep(pick.random() / 3)
        reply.close()
        return
    if mood < 0.5:
        await asyncio.sleep(pick.random() / 10)
        reply.pause()
        await asyncio.sleep(pick.random() / 3)
        reply.resume()
    received, whole = await reader.end(), flat(long_reply(seed))
    assert received == whole or is_lost(received, whole)
    reply.close()


async def trouble(gateways: list[SharingGateway], redis: RedisServer, pick: random.Random) -> None:
    for _ in range(4):
        await asyncio.sleep(pick.random() * 0.4)
        gateway = pick.choice(gateways)
        if len(gateway.writer) and pick.random() < 0.5:
            sleep(gateway)
            await asyncio.sleep(pick.random() * 2 * QUICK)
            wake(gateway)
        else:
            redis.pause()
            await asyncio.sleep(pick.random() / 3)
            redis.go_on()


@pytest.mark.parametrize("seed", range(3))
def test_readers_that_stay_get_the_whole_reply_or_a_failure_and_no_call_is_left_over(
    own_redis: RedisServer, seed: int
) -> None:
    async def scene() -> None:
        pick = random.Random(seed)
        models = [Paced(question, pick) for question in range(QUESTIONS)]
        async with AsyncExitStack() as stack:
            gateways = [await stack.enter_async_context(gateway(own_redis.url, QUICK)) for _ in range(3)]
            storm = asyncio.create_task(trouble(gateways, own_redis, pick))
            asked = [pick.randrange(QUESTIONS) for _ in range(CALLERS)]
            await asyncio.gather(*(call(gateways, models[question], question, pick) for question in asked))
            await storm
            await until(lambda: not any(model.sending for model in models))
            await until(lambda: not any(len(one.writer) or len(one.tailer) for one in gateways))
        calls = [reply for model in models for reply in model.calls]
        assert not [reply for reply in calls if reply.left and not reply.closed.is_set()]
        assert len(calls) < CALLERS / 2

    play(scene())
