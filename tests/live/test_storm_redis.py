"""Gateways that share a Redis make one call of equal questions, and if one dies, the others say what is lost."""

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.live.gateway import eventually
from tests.live.gateway_processes import GatewayProcesses, Process, run_gateways
from tests.live.raw_client import Caller
from tests.live.storm_clients import (
    SEEDS,
    Model,
    ReceivedReply,
    connections,
    question,
    receive_all,
    receive_heads,
    receive_rests,
    words,
)
from tests.redis_server import RedisServer

pytestmark = pytest.mark.anyio

MANY = 120
SOME = 6
AT_ONCE = 5
"""Gateways that are killed beside each other."""


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcesses]:
    with run_gateways(tmp_path_factory.mktemp("gateways")) as one:
        yield one


def configuration(model: Model, redis: RedisServer) -> str:
    return f"""
        passthrough = "local"
        [upstreams.local]
        base_url = "{model.url}/v1"
        [cache]
        url = "{redis.url}"
        resume_seconds = 1
    """


MAX_SOCKETS = MANY // 2
"""What is kept for the next request: ways to Redis and to the model server."""


async def _settled(gateway: Process, model: Model, redis: RedisServer) -> None:
    """Nothing is left of any request."""
    await eventually(lambda: not (gateway.callers or leases(redis)) and gateway.sockets < MAX_SOCKETS)
    await eventually(lambda: all(one.closed.is_set() or one.finished for one in model.connections))


def leases(redis: RedisServer) -> list[bytes]:
    with redis.client() as client:
        return list(client.scan_iter("*:lease"))


async def test_equal_questions_to_two_processes_are_one_call(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    async with Model() as model:
        gateways = [processes.start(configuration(model, shared_redis)) for _ in range(2)]
        await asyncio.gather(*(gateway.until_ready() for gateway in gateways))
        async with connections(*[gateway.address for gateway in gateways] * (MANY // 2)) as callers:
            await asyncio.gather(*(caller.ask(question("Hi"), stream=True) for caller in callers))
            call = await model.call()
            call.begin.set()
            call.word_sent[0].set()
            await receive_heads(callers)
            call.go(0.01)
            replies = await receive_rests(callers)
        assert all(reply.whole("Hi") for reply in replies)
        assert Counter(reply.label for reply in replies) == {"miss": 1, "shared": MANY - 1}
        assert len(model.requests) == 1
        await asyncio.gather(*(_settled(gateway, model, shared_redis) for gateway in gateways))
        await asyncio.gather(*(gateway.end() for gateway in gateways))


class Fall:
    """A gateway that leads a call is killed while another one follows it."""

    def __init__(self, seed: int, model: Model, victim: Process, survivor: Process) -> None:
        self.pick = random.Random(seed)
        self.text = f"steady {seed}"
        self.model, self.victim, self.survivor = model, victim, survivor
        self.seconds = 0.0
        """From the kill to the last reply's end."""
        self.shared = False
        """Until then there was one call."""
        self.lost = 0

    async def play(self) -> None:
        async with connections(self.victim.address, *[self.survivor.address] * SOME) as callers:
            await self._begin(callers)
            moment = self.pick.randint(-1, len(words(self.text)) - 1)
            if moment >= 0:
                await self._run_to(moment)
            await asyncio.sleep(self.pick.random() / 50)
            self.shared = self.model.asked[self.text] == 1
            self.victim.kill()
            killed_at = asyncio.get_running_loop().time()
            replies = await receive_all(callers[1:])
            self.seconds = asyncio.get_running_loop().time() - killed_at
            self._judge(replies)
            await asyncio.gather(*(caller.ask(question(self.text), stream=True) for caller in callers[1:]))
            assert all(reply.whole(self.text) for reply in await receive_all(callers[1:]))
        assert self.model.asked[self.text] <= 2

    async def _begin(self, callers: list[Caller]) -> None:
        await callers[0].ask(question(self.text), stream=True)
        await self.model.call(self.text)
        for caller in callers[1:]:
            await caller.ask(question(self.text), stream=self.pick.random() < 0.8)

    async def _run_to(self, moment: int) -> None:
        call = await self.model.call(self.text)
        call.go(0.005 + self.pick.random() / 50)
        await call.word_sent[moment].wait()

    def _judge(self, replies: list[ReceivedReply]) -> None:
        for reply in replies:
            if not reply.whole(self.text):
                assert reply.ending == "upstream_incomplete", (reply.ending, reply.text)
                assert "".join(words(self.text)).startswith(reply.text)
                self.lost += 1


async def test_the_clients_of_followers_get_a_failure_when_the_leading_process_is_killed(
    processes: GatewayProcesses, shared_redis: RedisServer
) -> None:
    fallen: list[Fall] = []
    async with Model() as model:
        config = configuration(model, shared_redis)
        survivor = processes.start(config)
        await survivor.until_ready()
        seeds = iter(SEEDS)
        while some := list(islice(seeds, AT_ONCE)):
            falls = [Fall(seed, model, processes.start(config), survivor) for seed in some]
            await asyncio.gather(*(fall.victim.until_ready() for fall in falls))
            ends = await asyncio.gather(*(fall.play() for fall in falls), return_exceptions=True)
            failed = {seed: end for seed, end in zip(some, ends, strict=True) if end is not None}
            assert not failed, failed
            fallen += falls
        await _settled(survivor, model, shared_redis)
        await survivor.end()
    # Where the machine is too busy for Redis to answer, each gateway may have made calls of its own.
    assert sum(fall.shared for fall in fallen) > len(fallen) / 2
    _report(fallen)


def _report(falls: list[Fall]) -> None:
    seconds = sorted(fall.seconds for fall in falls)
    lost = sum(fall.lost > 0 for fall in falls)
    shared = sum(fall.shared for fall in falls)
    print(f"\n{len(falls)} gateways were killed: {shared} while another followed, whose clients lost {lost} replies")
    print(f"the rest came after {seconds[0]:.2f} to {seconds[-1]:.2f} s, median {statistics.median(seconds):.2f} s")
