"""A hit comes as fast as it is read, or at the pace of the first time, write by write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app.calls.entry import Batch, StoredEntry, dump, load

from tests.live.caches import KnownStore, StorageMaker
from tests.live.caching_gateway import Asker, caching
from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import Caller, calling, checked, frames
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

PIECES = ["one ", "two ", "three"]
SCRIPT = [*map(say, PIECES), end(), DONE]
GAP = 0.12
EARLY = 0.02
"""How much sooner than meant a wait may end, as clocks differ."""


@asynccontextmanager
async def from_store(upstream: ScriptedServer, **cache: Any) -> AsyncIterator[tuple[Asker, KnownStore]]:
    """What is asked for again is had from the store alone."""
    store = KnownStore()
    async with caching(upstream, open_storage=StorageMaker(linger_seconds=0.0, store=store), **cache) as gateway:
        yield gateway, store


async def spaced(gateway: Asker, store: KnownStore, seconds: float) -> int:
    """As if each read had come so long after the one before; how many there were."""
    await gateway.stored()
    counts = []

    def change(value: bytes) -> bytes:
        entry = load(value)
        batches = [Batch(place * seconds, batch.events) for place, batch in enumerate(entry.batches)]
        counts.append(len(batches))
        return dump(StoredEntry(entry.created, batches))

    await store.change_last(change)
    return counts[0]


async def writes(caller: Caller) -> tuple[list[bytes], list[float]]:
    """The gateway's writes and when each of them came."""
    await caller.ask()
    await caller.head()
    chunks, at = [], []
    while data := await caller.write():
        chunks.append(data)
        at.append(asyncio.get_running_loop().time())
    return chunks, at


def texts(raw: bytes) -> list[str]:
    return [frame.data["delta"]["content"] for frame in frames(raw) if frame.type == "message.delta"]


async def test_at_the_original_pace_the_writes_are_those_of_the_first_time_at_their_distances() -> None:
    async with ScriptedServer(Reply(SCRIPT, chunked=True)) as upstream:
        async with from_store(upstream, replay="original") as (gateway, store):
            async with calling(gateway.gateway.address) as caller:
                live, _ = await writes(caller)
            assert await spaced(gateway, store, GAP) == len(PIECES) + 1
            async with calling(gateway.gateway.address) as caller:
                hit, at = await writes(caller)
                assert caller.headers["x-parley-cache"] == "hit"
    assert [texts(data) for data in hit] == [texts(data) for data in live]
    assert [data for data in map(texts, hit) if data] == [[piece] for piece in PIECES]
    times = [moment for data, moment in zip(hit, at, strict=True) if texts(data)]
    distances = [later - sooner for sooner, later in zip(times, [*times[1:], at[-1]], strict=True)]
    assert min(distances) > GAP - EARLY
    assert at[-1] - at[0] < len(PIECES) * GAP + 2


async def test_as_fast_as_possible_it_waits_for_nothing() -> None:
    async with ScriptedServer(Reply(SCRIPT, chunked=True)) as upstream, from_store(upstream) as (gateway, store):
        await gateway.ask()
        await spaced(gateway, store, 3600)
        async with calling(gateway.gateway.address) as caller:
            hit, at = await writes(caller)
    assert [texts(data) for data in hit if texts(data)] == [PIECES], "all of it in one write"
    assert [frame.type for frame in checked(b"".join(hit))][-1] == "response.completed"
    assert at[-1] - at[0] < 5


async def test_a_caller_who_leaves_a_hit_in_its_middle_leaves_nothing_behind() -> None:
    async with ScriptedServer(Reply(SCRIPT, chunked=True)) as upstream:
        async with from_store(upstream, replay="original") as (gateway, store):
            await gateway.ask()
            await spaced(gateway, store, 3600)
            async with calling(gateway.gateway.address) as caller:
                await caller.ask()
                await caller.head()
                await caller.write()
            await eventually(gateway.gateway.quiet)
            assert (await gateway.ask(cache={"mode": "off"})).label == "bypass"


async def test_a_hit_that_is_not_read_delays_no_other_caller_and_is_whole_when_read() -> None:
    script = [say("x" * 20_000)] * 200
    async with (
        ScriptedServer(Reply([*script, end(), DONE], chunked=True)) as upstream,
        from_store(upstream) as (gateway, _),
    ):
        await gateway.ask()
        await gateway.stored()
        async with calling(gateway.gateway.address, receive_bytes=8192) as slow:
            await slow.ask()
            await slow.head()
            quick = await gateway.ask()
            assert (quick.label, len(gateway.gateway.context.replies.active)) == ("hit", 1)
            assert "".join(texts(await slow.rest())) == "x" * 20_000 * 200
