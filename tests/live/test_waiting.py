"""Limits and the queue over sockets: places are given back at once, and waiting requests run in turn."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.live.gateway import DONE, end, eventually, say, serving, serving_with, settings
from tests.live.raw_client import calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ONE = {"max_concurrent_requests": 1}


async def test_a_request_beyond_the_limit_waits_and_a_running_stream_goes_on() -> None:
    may = asyncio.Event()
    async with (
        ScriptedServer(Reply([say("a"), may, end(), DONE])) as upstream,
        serving(upstream, server=ONE) as gateway,
    ):
        async with calling(gateway.address) as first, calling(gateway.address) as second:
            await first.ask()
            assert await first.head() == 200
            await second.ask()
            await eventually(lambda: gateway.context.admission.queued == 1)
            may.set()
            await first.rest()
            assert await second.head() == 200
            await second.rest()
    assert gateway.context.admission.queued == gateway.context.in_progress == 0


async def test_a_waiting_client_that_disconnects_leaves_the_queue_at_once() -> None:
    may = asyncio.Event()
    async with (
        ScriptedServer(Reply([say("a"), may, end(), DONE])) as upstream,
        serving(upstream, server=ONE) as gateway,
    ):
        async with AsyncExitStack() as stack:
            first, third = [await stack.enter_async_context(calling(gateway.address)) for _ in range(2)]
            await first.ask()
            assert await first.head() == 200
            async with calling(gateway.address) as second:
                await second.ask()
                await eventually(lambda: gateway.context.admission.queued == 1)
                await third.ask()
                await eventually(lambda: gateway.context.admission.queued == 2)
            await eventually(lambda: gateway.context.admission.queued == 1, 0.5)
            may.set()
            await first.rest()
            assert await third.head() == 200
            await third.rest()
    assert len(upstream.requests) == 2


async def test_a_request_that_waits_too_long_is_refused_with_the_time_to_come_back() -> None:
    may = asyncio.Event()
    server = {**ONE, "queue_seconds": 0.1}
    async with ScriptedServer(Reply([say("a"), may, end(), DONE])) as upstream:
        async with serving(upstream, server=server) as gateway:
            async with calling(gateway.address) as first, calling(gateway.address) as second:
                await first.ask()
                assert await first.head() == 200
                await second.ask()
                assert (await second.head(), second.headers["retry-after"]) == (503, "1")
                may.set()
                await first.rest()


async def test_a_client_that_leaves_is_no_reply_in_progress_any_more() -> None:
    never = asyncio.Event()
    async with ScriptedServer(Reply([say("a"), never])) as upstream:
        row = settings(upstream.url, {}, {})
        limited = row.model_copy(update={"limits": row.limits.model_copy(update={"concurrent_streams": 1})})
        async with serving_with(limited) as gateway:
            for _ in range(3):
                async with calling(gateway.address) as caller, calling(gateway.address) as refused:
                    await caller.ask()
                    assert await caller.head() == 200
                    await refused.ask()
                    assert await refused.head() == 429
                await eventually(gateway.quiet)
