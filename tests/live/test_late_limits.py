"""The limits of a request whose call goes on when its client has left: they are given back when the call has ended."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
from app.config.tables.limits import LimitSettings
from app.limits.values import Kind

from tests.calls.shared.coordinators import PatientLink
from tests.each_case import each_case
from tests.light_client import light_client
from tests.live.caches import StorageMaker
from tests.live.gateway import DONE, Gateway, end, eventually, say, serving_with
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.live.resuming_client import QUESTION, cancel, starting, tree
from tests.redis_server import RedisServer
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

LIMITS = LimitSettings(concurrent_streams=2, tokens_per_minute=5000, spend_per_day=1.0)
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cost":0.25}}\n\n'
RESERVED = 1005
"""A token for the text of the question, 4 for its message, 1000 for the reply."""
nearly = partial(pytest.approx, rel=0.05)
"""A new minute may have begun, of which the previous one counts a little less."""


@asynccontextmanager
async def limiting(upstream: ScriptedServer, url: str = "memory:") -> AsyncIterator[Gateway]:
    settings = tree(upstream, url, {"commit_seconds": 0.02}, {}).model_copy(update={"limits": LIMITS})
    async with serving_with(settings, StorageMaker(link_of=PatientLink)) as gateway:
        yield gateway


async def used(gateway: Gateway) -> dict[Kind, float]:
    assert gateway.context.limiter is not None
    return {use.kind: use.used for use in await gateway.context.limiter.read(())}


async def released(gateway: Gateway) -> dict[Kind, float]:
    """What is used when no reply is in progress any more. Redis gets what is given back a little later."""
    await eventually(lambda: not gateway.context.cache.calls)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (now := await used(gateway))["concurrent_streams"]:
            await asyncio.sleep(0.002)
    return now


async def go_on(gateway: Gateway, id_: str) -> None: ...


async def shut_down(gateway: Gateway, id_: str) -> None:
    await gateway.context.cache.aclose()


async def stop(gateway: Gateway, id_: str) -> None:
    await cancel(gateway, id_)


@each_case(
    ("rest", "finish", "tokens", "cost"),
    [
        ([end(), USAGE, DONE], go_on, 15, 0.25),
        ([say(" two"), end(), DONE], go_on, None, 0),  # the server reports no usage
        ([say(" two")], go_on, None, 0),  # the stream breaks
        ([asyncio.Event()], stop, None, 0),
        ([asyncio.Event()], shut_down, None, 0),
    ],
)
async def test_a_call_without_its_client_keeps_its_limits_until_it_ends(
    rest: list[bytes | asyncio.Event],
    finish: Callable[[Gateway, str], Awaitable[None]],
    tokens: int | None,
    cost: float,
) -> None:
    gate = asyncio.Event()
    async with (
        ScriptedServer(Reply([say("One"), gate, *rest], chunked=True)) as upstream,
        limiting(upstream) as gateway,
    ):
        async with calling(gateway.address) as caller:
            id_, _ = await starting(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        assert await used(gateway) == nearly(
            {"concurrent_streams": 1, "tokens_per_minute": RESERVED, "spend_per_day": 0}
        )
        gate.set()
        await finish(gateway, id_)
        ended = await released(gateway)
    assert ended["spend_per_day"] == cost
    assert ended["tokens_per_minute"] == nearly(tokens) if tokens else 0 < ended["tokens_per_minute"] < 200, (
        "an estimate"
    )


async def test_a_call_that_fails_before_it_begins_uses_nothing_when_its_client_has_left() -> None:
    gate = asyncio.Event()
    refusal = Reply(status=503, headers={"content-length": "0"}, hold=gate)
    async with ScriptedServer(refusal) as upstream, limiting(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask({**QUESTION, "cancel_on_disconnect": False})
            assert await caller.head() == 200
        await eventually(lambda: not gateway.context.replies.active)
        assert (await used(gateway))["concurrent_streams"] == 1
        gate.set()
        assert await released(gateway) == {"concurrent_streams": 0, "tokens_per_minute": 0, "spend_per_day": 0}


async def test_a_client_that_leaves_others_with_its_call_pays_for_it() -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), USAGE, DONE], chunked=True)
    async with ScriptedServer(script) as upstream, limiting(upstream) as gateway:
        async with calling(gateway.address) as joined:
            async with calling(gateway.address) as caller:
                await starting(caller)
                await starting(joined)
                assert joined.headers["x-parley-cache"] == "shared"
            await eventually(lambda: len(gateway.context.replies.active) == 1)
            assert (await used(gateway))["concurrent_streams"] == 2
            gate.set()
            await joined.rest()
        assert await released(gateway) == nearly(
            {"concurrent_streams": 0, "tokens_per_minute": 15, "spend_per_day": 0.25}
        )


async def test_it_is_so_with_limits_in_redis(shared_redis: RedisServer) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), USAGE, DONE], chunked=True)
    async with ScriptedServer(script) as upstream, limiting(upstream, shared_redis.url) as gateway:
        before = await used(gateway)
        async with calling(gateway.address) as caller:
            await starting(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        assert (await used(gateway))["concurrent_streams"] == 1
        gate.set()
        after = await released(gateway)
    assert after["tokens_per_minute"] - before["tokens_per_minute"] == nearly(15)
    assert after["spend_per_day"] - before["spend_per_day"] == nearly(0.25)


async def test_cache_state_and_limits_notice_an_outage_of_redis_together(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    reply = Reply([say("x"), USAGE, end(), DONE], chunked=True)
    async with ScriptedServer(*[reply] * 3) as upstream:
        settings = tree(upstream, own_redis.url, {"log_level": "info"}, {}).model_copy(update={"limits": LIMITS})
        async with serving_with(settings) as gateway:
            logging.getLogger("parley.cache").addHandler(caplog.handler)
            for text in ("one", "two"):
                assert (await create(gateway, text)).status_code == 200
                own_redis.kill()
            own_redis.start()
            await eventually(lambda: gateway.context.cache.is_redis_connected is True)
            assert (await create(gateway, "three")).status_code == 200
            logging.getLogger("parley.cache").removeHandler(caplog.handler)
    messages = [record.message.partition(":")[0] for record in caplog.records]
    assert (messages.count("redis is down"), messages.count("redis answers again")) == (1, 1)


async def create(gateway: Gateway, text: str) -> httpx.Response:
    """Create a response that is stored, if it can be."""
    async with light_client(gateway.url) as client:
        return await client.post("/v1/responses", json={"model": "m", "input": text, "max_output_tokens": 10})
