"""API keys over sockets: every endpoint for replies, in streams and whole, with the gateway's own server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from app.access import hash_key
from app.config.tables.callers import Key

from tests.live.gateway import DONE, Gateway, end, eventually, say, serving_with, settings
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ALICE, BOB = "key-of-alice-0001", "key-of-bob-000002"
PATHS = ("/v1/chat", "/v1/chat/completions")
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@asynccontextmanager
async def serving(upstream: ScriptedServer) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    keys = {"alice": Key(sha256=hash_key(ALICE)), "bob": Key(sha256=hash_key(BOB))}
    with_keys = settings(upstream.url, {}, {}).model_copy(update={"keys": keys})
    async with serving_with(with_keys) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=10) as client:
            yield gateway, client


async def test_each_endpoint_serves_a_key_in_each_header_and_refuses_all_others() -> None:
    async with ScriptedServer(Reply([say("Hello"), end(), DONE])) as upstream, serving(upstream) as (_, client):
        for path in PATHS:
            for stream in (True, False):
                body = BODY | {"stream": stream}
                for headers in ({"authorization": f"Bearer {ALICE}"}, {"x-api-key": ALICE}, {"api-key": ALICE}):
                    answer = await client.post(path, json=body, headers=headers)
                    assert (answer.status_code, "Hello" in answer.text) == (200, True)
                before = len(upstream.requests)
                for refused in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
                    answer = await client.post(path, json=body, headers=refused)
                    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
                    assert answer.headers["www-authenticate"].startswith("Bearer")
                    assert ("type" in answer.json()["error"]) == (path != "/v1/chat")
                assert len(upstream.requests) == before
        assert (await client.get("/healthz")).status_code == 200


async def test_only_the_key_of_the_request_can_cancel_a_running_reply_streamed_or_whole() -> None:
    may = asyncio.Event()
    async with ScriptedServer(Reply([say("a"), may, end(), DONE])) as upstream, serving(upstream) as (gateway, client):
        for stream in (True, False):
            asked = asyncio.create_task(
                client.post("/v1/chat", json=BODY | {"stream": stream}, headers={"x-api-key": ALICE})
            )
            await eventually(lambda: len(gateway.context.replies.active) == 1)
            (response,) = gateway.context.replies.active
            path = f"/v1/chat/{response.info.response_id}"
            assert (await client.delete(path, headers={"x-api-key": BOB})).status_code == 404
            assert gateway.context.replies.active
            cancelled = await client.delete(path, headers={"x-api-key": ALICE})
            assert (cancelled.status_code, cancelled.json()["cancelled"]) == (200, True)
            answer = await asked
            assert "cancelled" in answer.text
        may.set()
