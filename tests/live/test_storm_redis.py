"""Gateways that share a Redis make one call of equal questions, and one that dies takes nobody else down."""

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
    BRIEF,
    FICKLE,
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
    """A gateway that leads two calls is killed: the server would say one of them again as it was, the other not."""

    def __init__(self, seed: int, model: Model, victim: Process, survivor: Process) -> None:
        self.pick = random.Random(seed)
        self.texts = (f"steady {seed}", f"{FICKLE if seed % 2 else BRIEF} {seed}")
        self.model, self.victim, self.survivor = model, victim, survivor
        self.seconds = 0.0
        """From the kill to the last reply's end."""
        self.shared = False
        """Until then there was one call of each question."""
        self.endings: set[str] = set()
        """Of the reply that is never the same."""

    async def play(self) -> None:
        addresses = ([self.victim.address] + [self.survivor.address] * SOME) * 2
        async with connections(*addresses) as callers:
            asked = {text: callers[at * (SOME + 1) :][: SOME + 1] for at, text in enumerate(self.texts)}
            await asyncio.gather(*(self._begin(text, some) for text, some in asked.items()))
            moment = self.pick.randint(-1, len(words(self.texts[0])) - 1)
            if moment >= 0:
                await self._run_to(moment)
            await asyncio.sleep(self.pick.random() / 50)
            self.shared = max(self.model.asked[text] for text in self.texts) == 1
            self.victim.kill()
            killed_at = asyncio.get_running_loop().time()
            steady, fickle = await asyncio.gather(*(receive_all(some[1:]) for some in asked.values()))
            self.seconds = asyncio.get_running_loop().time() - killed_at
        self._judge(steady, fickle)

    async def _begin(self, text: str, callers: list[Caller]) -> None:
        await callers[0].ask(question(text), stream=True)
        await self.model.call(text)
        for caller in callers[1:]:
            await caller.ask(question(text), stream=self.pick.random() < 0.8)

    async def _run_to(self, moment: int) -> None:
        calls = [await self.model.call(text) for text in self.texts]
        pace = 0.005 + self.pick.random() / 50
        for call in calls:
            call.go(pace)
        await calls[0].word_sent[moment].wait()

    def _judge(self, steady: list[ReceivedReply], fickle: list[ReceivedReply]) -> None:
        assert all(reply.whole(self.texts[0]) for reply in steady), [(one.ending, one.text) for one in steady]
        self.endings = {reply.ending for reply in fickle}
        wholes = ["".join(words(self.texts[1], number)) for number in range(2)]
        for reply in fickle:
            if reply.ending == "stop":
                assert reply.text in wholes
            else:
                assert reply.ending == "upstream_incomplete"
                assert wholes[0].startswith(reply.text)
        assert max(self.model.asked[text] for text in self.texts) <= 2


async def test_a_leading_process_is_killed_and_another_sends_the_rest(
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
    anew = sum(fall.model.asked[fall.texts[0]] == 2 for fall in falls)
    honest = sum("stop" not in fall.endings for fall in falls)
    shared = sum(fall.shared for fall in falls)
    print(f"\n{len(falls)} gateways were killed: {shared} while others followed, {anew} before all was told")
    print(f"of as many replies that came otherwise the second time, {honest} ended with an error")
    print(f"the rest was told after {seconds[0]:.2f} to {seconds[-1]:.2f} s, median {statistics.median(seconds):.2f} s")
