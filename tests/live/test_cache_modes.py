"""What a caller says of the cache, in the body and in the header, and what the settings say, seen from outside."""

import pytest
from app.stores import StoreLimits
from app.stores.memory import MemoryStore

from tests.live.caches import Clock, StorageMaker, cache_for
from tests.live.caching_gateway import Json, caching, question
from tests.live.old_and_new_replies import NEW, OLD, ask_label_and_text
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.anyio


def cache_control(headers: str) -> Json:
    return {"headers": {"cache-control": headers}}


def mode(name: str) -> Json:
    return {"cache": {"mode": name}}


async def test_a_refreshed_reply_stands_in_place_of_the_old_one(later: bool) -> None:
    hows = [mode("refresh"), cache_control("no-cache"), cache_control("max-age=0"), cache_control("max-age=soon")]
    async with (
        ScriptedServer(*[OLD, NEW] * len(hows)) as upstream,
        caching(upstream, open_storage=cache_for(later)) as gateway,
    ):
        for how in hows:
            asked = {"messages": question(str(how))}
            assert await ask_label_and_text(gateway, **asked) == ("miss", "old")
            assert await ask_label_and_text(gateway, **asked, **how) == ("refresh", "new")
            if later:
                await gateway.stored()
            assert await ask_label_and_text(gateway, **asked) == ("hit", "new")
        assert gateway.calls == 2 * len(hows)


async def test_a_request_without_cache_neither_gets_a_stored_reply_nor_stores_one() -> None:
    hows = [mode("off"), cache_control("no-store"), cache_control("max-age=60, No-Store")]
    async with ScriptedServer(*[NEW, OLD, NEW] * len(hows)) as upstream, caching(upstream) as gateway:
        for how in hows:
            asked = {"messages": question(str(how))}
            assert await ask_label_and_text(gateway, **asked, **how) == ("bypass", "new")
            assert await ask_label_and_text(gateway, **asked) == ("miss", "old")
            assert await ask_label_and_text(gateway, **asked, **how) == ("bypass", "new")
            assert await ask_label_and_text(gateway, **asked) == ("hit", "old")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_for_a_stored_reply_only_makes_no_call(stream: bool, later: bool) -> None:
    async with ScriptedServer(OLD) as upstream, caching(upstream, open_storage=cache_for(later)) as gateway:
        for calls, how in enumerate([mode("only"), cache_control("only-if-cached")]):
            asked: Json = {"messages": question(str(how)), "stream": stream}
            missed = await gateway.ask(**asked, **how)
            assert (missed.status, missed.json["error"]["code"], gateway.calls) == (504, "cache_miss", calls)
            await gateway.ask(**asked)
            if later:
                await gateway.stored()
            found = await gateway.ask(**asked, **how)
            assert (found.status, found.label, gateway.calls) == (200, "hit", calls + 1)
            for header in ("no-cache", "no-store"):
                refused = await gateway.ask(**asked, **mode("only"), **cache_control(header))
                assert (refused.status, gateway.calls) == (504, calls + 1)


async def test_a_request_with_a_max_age_gets_no_older_reply() -> None:
    clock = Clock()
    maker = StorageMaker(linger_seconds=0.0, clock=clock)
    async with ScriptedServer(OLD, NEW) as upstream, caching(upstream, open_storage=maker) as gateway:
        await ask_label_and_text(gateway)
        await gateway.stored()
        clock.now += 100
        assert await ask_label_and_text(gateway, **cache_control("max-age=110")) == ("hit", "old")
        answer = await gateway.ask()
        assert answer.headers["age"] == "100"
        assert await ask_label_and_text(gateway, **cache_control("max-age=90")) == ("miss", "new")


async def test_a_stored_reply_expires_after_the_ttl_of_its_request() -> None:
    clock = Clock()
    maker = StorageMaker(linger_seconds=0.0, store=MemoryStore(StoreLimits(clock=clock)))
    async with ScriptedServer(OLD, NEW, OLD) as upstream:
        async with caching(upstream, model={"cache_ttl_seconds": 50}, open_storage=maker) as gateway:
            await ask_label_and_text(gateway, cache={"ttl_seconds": 1000})
            await gateway.stored()
            clock.now += 999
            assert await ask_label_and_text(gateway) == ("hit", "old")
            clock.now += 2
            assert await ask_label_and_text(gateway) == ("miss", "new")
            await gateway.stored()
            clock.now += 49
            assert await ask_label_and_text(gateway) == ("hit", "new")
            clock.now += 2
            assert await ask_label_and_text(gateway) == ("miss", "old"), "as long as its model says"


@pytest.mark.parametrize("model", [{"cache": False}, {}])
async def test_a_model_without_a_cache_gets_every_request(model: Json) -> None:
    url: Json = {} if model else {"url": "null:"}
    async with ScriptedServer(OLD, NEW) as upstream, caching(upstream, model=model, **url) as gateway:
        assert [await ask_label_and_text(gateway), await ask_label_and_text(gateway)] == [
            ("bypass", "old"),
            ("bypass", "new"),
        ]
        only = await gateway.ask(**mode("only"))
        assert (only.status, gateway.calls) == (504, 2)
