"""Whose call is counted when clients leave or join, and what a process that ends has written."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.state.sqlite import SqliteDatabase
from app.usage.store import UsageStore
from app.usage.totals import Totals, UsageQuery, sum_totals

from tests.live.gateway import DONE, Gateway, end, eventually, say
from tests.live.parley_command import process
from tests.live.raw_client import calling
from tests.live.resuming_client import QUESTION, caching, starting
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cost":0.25}}\n\n'
RUNNING_USAGE = (
    b'data: {"choices":[{"index":0,"delta":{"content":"two"}}],'
    b'"usage":{"prompt_tokens":1000,"completion_tokens":216,"total_tokens":1216}}\n\n'
)
ALL = UsageQuery("2000-01-01", "2099-12-31")


async def counted(gateway: Gateway) -> Totals:
    ledger = gateway.context.usage_ledger
    assert ledger is not None
    gateway.context.ended.report()
    return sum_totals(await asyncio.to_thread(ledger.read, ALL))


async def test_a_call_that_outlives_its_client_is_counted_when_it_ends() -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), USAGE, DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, "memory:") as gateway:
        async with calling(gateway.address) as caller:
            await starting(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        assert await counted(gateway) == Totals(requests=1)
        gate.set()
        await eventually(lambda: not gateway.context.cache.calls)
        assert await counted(gateway) == Totals(requests=1, input_tokens=10, output_tokens=5, cost=0.25)


async def test_a_call_that_ends_with_its_client_is_estimated() -> None:
    script = Reply([say("One"), say("two"), asyncio.Event()])
    async with ScriptedServer(script) as upstream, caching(upstream, "memory:") as gateway:
        async with calling(gateway.address) as caller:
            await starting(caller)
        await eventually(lambda: not gateway.context.cache.calls and not gateway.context.in_progress)
        total = await counted(gateway)
        assert (total.requests, total.errors, total.estimated_requests) == (1, 0, 1)
        assert total.input_tokens > 0 and total.output_tokens >= 1


async def test_usage_that_a_server_reported_before_the_client_left_is_counted() -> None:
    script = Reply([say("One"), RUNNING_USAGE, asyncio.Event()])
    async with ScriptedServer(script) as upstream, caching(upstream, "memory:") as gateway:
        async with calling(gateway.address) as caller:
            _, got = await starting(caller)
            while b"two" not in b"".join(got):
                got.append(await caller.write())
        await eventually(lambda: not gateway.context.cache.calls and not gateway.context.in_progress)
        assert await counted(gateway) == Totals(requests=1, input_tokens=1000, output_tokens=216)


async def test_a_call_that_two_clients_share_is_counted_once() -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), USAGE, DONE], chunked=True)

    async def ask(gateway: Gateway) -> Any:
        async with calling(gateway.address) as caller:
            _, raw = await caller.reply(QUESTION, stream=False)
            return json.loads(raw)["usage"]

    async with ScriptedServer(script) as upstream, caching(upstream, "memory:") as gateway:
        async with asyncio.TaskGroup() as tasks:
            replies = [tasks.create_task(ask(gateway)) for _ in range(3)]
            await eventually(lambda: len(gateway.context.replies.active) == 3 and bool(upstream.requests))
            gate.set()
        assert sorted(reply.result()["cost"] for reply in replies) == [0.0, 0.0, 0.25]
        total = await counted(gateway)
        assert (total.requests, total.cache_hits, total.saved_tokens) == (3, 2, 30)
        assert (total.input_tokens, total.output_tokens, total.cost) == (10, 5, 0.25)


def read_file(path: Path) -> Totals:
    store = UsageStore(SqliteDatabase(str(path)))
    try:
        return sum_totals(store.read(ALL, 100))
    finally:
        store.close()


async def test_a_clean_exit_loses_nothing_and_a_killed_process_at_most_the_last_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/usage.db"
    script = Reply([say("Hello"), end(), USAGE, DONE], chunked=True)
    body = {"messages": [{"role": "user", "content": "Hi"}], "model": "m", "stream": False}
    before = ("env", f"PARLEY_USAGE__URL={url}")
    async with ScriptedServer(script) as upstream:
        async with process(upstream, before=before) as gateway, httpx.AsyncClient(verify=False) as client:
            await gateway.until_ready()
            for _ in range(3):
                (await client.post("http://{}:{}/v1/chat".format(*gateway.address), json=body)).raise_for_status()
            gateway.signal(signal.SIGTERM)
            assert (await gateway.ended())[0] == 0
        assert (read_file(tmp_path / "usage.db").requests, read_file(tmp_path / "usage.db").cost) == (3, 0.75)
        async with process(upstream, before=before) as gateway, httpx.AsyncClient(verify=False) as client:
            await gateway.until_ready()
            for _ in range(2):
                (await client.post("http://{}:{}/v1/chat".format(*gateway.address), json=body)).raise_for_status()
            await eventually(lambda: read_file(tmp_path / "usage.db").requests == 5)
            gateway.signal(signal.SIGKILL)
            await gateway.ended()
        assert read_file(tmp_path / "usage.db").cost == 1.25
