"""`GET` and `DELETE /v1/cache`: only with the admin key, and their figures and purges agree with what callers get."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from app.calls.entry import LARGE_ENTRY, StoredEntry, dump
from app.cli import main

from tests.calls.shared.coordinators import PatientLink
from tests.live import resuming_client
from tests.live.caches import StorageMaker, coordinator_of
from tests.live.gateway import DONE, Gateway, end, eventually, say
from tests.live.raw_client import calling
from tests.live.resuming_client import QUESTION, fetch
from tests.redis_server import RedisServer, store_url
from tests.restored_logging import restored_logging
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

KEY = {"authorization": "Bearer s3cret-of-an-admin"}
SERVER = {"admin_key": "s3cret-of-an-admin"}
SCRIPT = Reply([say("One"), end(), DONE], chunked=True)


def caching(
    upstream: ScriptedServer, url: str = "memory:", *, linger_seconds: float = 0.0, **more: Any
) -> AbstractAsyncContextManager[Gateway]:
    """What is stored is had from the store alone."""
    maker = StorageMaker(link_of=PatientLink, linger_seconds=linger_seconds, joinable_ms=0)
    return resuming_client.caching(upstream, url, open_storage=maker, **more)


@pytest.fixture(params=["memory:", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cache.db" if request.param == "sqlite" else store_url(request)


async def replied(gateway: Gateway, model: str, seed: int = 0, **more: Any) -> str:
    """What the reply says of the cache; it can be found there when this returns."""
    async with calling(gateway.address) as caller:
        await caller.reply(QUESTION, model=model, generate_cfg={"seed": seed}, **more)
    cache = gateway.context.cache
    await eventually(lambda: not cache.storing and not cache.in_memory)
    await eventually(lambda: not cache.is_shared or not len(coordinator_of(gateway).writer))
    return caller.headers["x-parley-cache"]


async def admin(gateway: Gateway, method: str, query: str = "", **headers: str) -> tuple[int, Any]:
    status, raw = await fetch(gateway, method, f"/v1/cache{query}", **headers)
    return status, json.loads(raw)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_without_the_key_nothing_is_shown_and_nothing_deleted(method: str) -> None:
    async with ScriptedServer(SCRIPT) as upstream, caching(upstream, server=SERVER) as gateway:
        await replied(gateway, "a")
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cret-of-an-admi",
            "Bearer s3cret-of-an-admins",
            "s3cret-of-an-admin",
            "Basic s3cret-of-an-admin",
        ]:
            headers = {"authorization": header} if header else {}
            status, answer = await admin(gateway, method, x_request_id="r9", **headers)
            message = answer["error"].pop("message")
            assert (status, message) == (
                403,
                "the admin key is missing or wrong: send it as Authorization: Bearer …",
            ), header
            error = {"code": "permission", "param": None, "status": 403, "retryable": False, "request_id": "r9"}
            assert answer == {"error": error}
            assert await replied(gateway, "a") == "hit"


async def test_where_no_key_is_configured_none_opens_it() -> None:
    async with ScriptedServer() as upstream, caching(upstream) as gateway:
        for method in ("GET", "DELETE"):
            for header in ("", "Bearer ", "Bearer None"):
                status, answer = await admin(gateway, method, authorization=header)
                assert (status, answer["error"]["code"]) == (403, "permission")


async def test_it_counts_entries_of_each_model_and_the_sources_of_replies(url: str) -> None:
    async with ScriptedServer(SCRIPT) as upstream, caching(upstream, url, server=SERVER) as gateway:
        nothing = {"entries": 0, "bytes": 0, "models": {}, "requests": {}}
        assert await admin(gateway, "GET", **KEY) == (200, nothing)
        replies = [await replied(gateway, model, seed) for model, seed in [("a", 1), ("a", 2), ("b", 1), ("a", 1)]]
        replies.append(await replied(gateway, "b", 1, cache={"mode": "refresh"}))
        await replied(gateway, "c", cache={"mode": "off"})
        assert replies == ["miss", "miss", "miss", "hit", "refresh"]
        _, totals = await admin(gateway, "GET", authorization="bearer s3cret-of-an-admin")
    models = totals["models"]
    assert {name: row["entries"] for name, row in models.items()} == {"a": 2, "b": 1}
    assert totals["entries"] == 3
    assert totals["bytes"] == sum(row["bytes"] for row in models.values()) > 100
    assert {"miss": 3, "hit": 1, "refresh": 1}.items() <= totals["requests"].items()


async def test_a_purged_reply_needs_a_new_call_and_the_rest_is_kept(url: str) -> None:
    async with ScriptedServer(SCRIPT) as upstream, caching(upstream, url, server=SERVER) as gateway:
        for model, seed in [("a", 1), ("a", 2), ("b/c d", 1)]:
            await replied(gateway, model, seed)
        assert await admin(gateway, "DELETE", "?model=unknown", **KEY) == (200, {"purged": 0})
        assert await admin(gateway, "DELETE", "?model=a", **KEY) == (200, {"purged": 2})
        assert [await replied(gateway, *one) for one in [("a", 1), ("a", 2), ("b/c d", 1)]] == ["miss", "miss", "hit"]
        assert await admin(gateway, "DELETE", "?model=b%2Fc%20d", **KEY) == (200, {"purged": 1})
        assert await admin(gateway, "DELETE", **KEY) == (200, {"purged": 2})
        assert [await replied(gateway, *one) for one in [("a", 1), ("b/c d", 1)]] == ["miss", "miss"]


async def test_a_large_reply_that_is_being_stored_is_purged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def encode_slowly(entry: StoredEntry) -> bytes:
        time.sleep(0.2)
        return dump(entry)

    monkeypatch.setattr("app.calls.log.dump", encode_slowly)
    large = Reply([say("x" * LARGE_ENTRY), end(), DONE], chunked=True)
    async with ScriptedServer(large) as upstream, caching(upstream, server=SERVER) as gateway:
        async with calling(gateway.address) as caller:
            await caller.reply(QUESTION, model="a")
        purged = await gateway.context.cache.purge()
        await eventually(lambda: not gateway.context.cache.storing)
        assert (purged, (await gateway.context.cache.stats()).entries) == (1, 0)


async def test_what_was_stored_a_moment_ago_is_purged_too() -> None:
    async with ScriptedServer(SCRIPT) as upstream, caching(upstream, linger_seconds=60.0, server=SERVER) as gateway:
        async with calling(gateway.address) as caller:
            await caller.reply(QUESTION)
            await eventually(lambda: not gateway.context.cache.storing)
            assert (await admin(gateway, "DELETE", **KEY))[0] == 200
            await caller.reply(QUESTION)
            assert caller.headers["x-parley-cache"] == "miss"


async def test_a_store_that_is_down_is_reported_as_down(own_redis: RedisServer) -> None:
    async with ScriptedServer() as upstream, caching(upstream, own_redis.url, server=SERVER) as gateway:
        own_redis.kill()
        for method in ("GET", "DELETE"):
            status, answer = await admin(gateway, method, **KEY)
            assert (status, answer["error"]["code"], answer["error"]["retryable"]) == (503, "overloaded", True)


async def test_the_command_line_sees_and_purges_what_a_gateway_keeps_in_a_file_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, config = f"sqlite:///{tmp_path}/cache.db", tmp_path / "p.toml"
    config.write_text(f'[cache]\nurl = "{url}"')

    async def parley(*argv: str) -> list[list[str]]:
        with restored_logging():
            assert await asyncio.to_thread(main, ["cache", *argv, "--config", str(config)]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    async with ScriptedServer(SCRIPT) as upstream, caching(upstream, url, server=SERVER) as gateway:
        for model, seed in [("a", 1), ("a", 2), ("b", 1)]:
            await replied(gateway, model, seed)
        _, totals = await admin(gateway, "GET", **KEY)
        rows = [(row[0], row[1], int(row[3].replace(",", ""))) for row in (await parley("stats"))[1:-1]]
        assert rows == [(name, str(row["entries"]), row["bytes"]) for name, row in totals["models"].items()]
        assert (await parley("purge", "--yes", "--model", "a"))[0][0] == "2"
        assert [await replied(gateway, *one) for one in [("a", 1), ("b", 1)]] == ["miss", "hit"]
        await admin(gateway, "GET", **KEY)  # counts, and so writes, what was stored just now
        assert (await parley("purge", "--yes"))[0][0] == "2"
        assert await replied(gateway, "b", 1) == "miss"
