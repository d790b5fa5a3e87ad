"""Callers that lose their connection and come back, and gateways with a cache for them to come back to."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.config.settings import Settings
from app.config.storage import OpenStorage

from tests.calls.shared.coordinators import PatientLink
from tests.live.caches import StorageMaker
from tests.live.gateway import DONE, Gateway, chunk, end, say, serving_with
from tests.live.raw_client import DEADLINE_SECONDS, Caller, calling
from tests.scripted_server import Reply, ScriptedServer

SOON = 0.25
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\n'
FIRST = [
    chunk({"role": "assistant", "reasoning_content": "Let me "}),
    chunk({"reasoning_content": "see."}),
    chunk({"content": "One"}),
]
SECOND = [
    chunk({"content": ", two \u00fc"}),
    chunk({"content": " and \U0001f600."}),
    chunk({"tool_calls": [CALL]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"\\n\\n"}'}}]}),
]
LAST = [chunk({}, "tool_calls"), USAGE, b"data: [DONE]\n\n"]


def tree(upstream: ScriptedServer, url: str, server: dict[str, Any], cache: dict[str, Any]) -> Settings:
    server = {"port": 0, "heartbeat_seconds": 5, "commit_seconds": 5, "log_level": "error", **server}
    row = {"base_url": f"{upstream.url}/v1", "first_token_seconds": 5, "idle_seconds": 5}
    plan = {"server": server, "upstreams": {"local": row}, "passthrough": "local", "cache": {"url": url, **cache}}
    return Settings.model_validate(plan)


@asynccontextmanager
async def caching(
    upstream: ScriptedServer,
    url: str = "memory:",
    *,
    server: dict[str, Any] | None = None,
    open_storage: OpenStorage | None = None,
    **cache: Any,
) -> AsyncIterator[Gateway]:
    open_storage = open_storage or StorageMaker(link_of=PatientLink)
    async with serving_with(tree(upstream, url, server or {}, cache), open_storage) as gateway:
        yield gateway


def split_frames(raw: bytes) -> list[bytes]:
    """The frames of a stream, without its heartbeats."""
    end = b"\r\n\r\n" if raw.endswith(b"\r\n\r\n") else b"\n\n"  # Google's streams have the former
    assert raw.endswith(end) or not raw
    return [part + end for part in raw.split(end)[:-1] if not part.startswith(b":")]


def reply_id(caller: Caller) -> str:
    return caller.headers["x-parley-response-id"]


async def known(gateway: Gateway, id_: str) -> None:
    """Gateways tell each other of a reply while its first words go out."""
    if gateway.context.cache.is_shared:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await gateway.context.cache.get_record(id_) is None:
                await asyncio.sleep(0.002)


async def first_frames(caller: Caller, count: int) -> list[bytes]:
    """Those frames, and what came in one write with the last of them is lost."""
    frames: list[bytes] = []
    while len(frames) < count:
        data = await caller.write()
        assert data, f"the stream ended after {len(frames)} of {count} frames"
        frames += split_frames(data)
    return frames[:count]


async def send(caller: Caller, method: str, path: str, **headers: str) -> int:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    await caller.say(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
    return await caller.head()


async def come_back(caller: Caller, id_: str, after: int | None = None, **headers: str) -> int:
    query = "" if after is None else f"?after={after}"
    return await send(caller, "GET", f"/v1/chat/{id_}/events{query}", **headers)


async def resumed(gateway: Gateway, id_: str, after: int | None = None, **headers: str) -> list[bytes]:
    """The frames from there to the end."""
    async with calling(gateway.address) as caller:
        status = await come_back(caller, id_, after, **headers)
        if status == 204:
            return []
        assert status == 200
        return split_frames(await caller.rest())


async def fetch(gateway: Gateway, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    async with calling(gateway.address) as caller:
        return await send(caller, method, path, **headers), await caller.rest()


def alike(frames: list[bytes], id_: str) -> list[bytes]:
    """The frames as those of any reply of the same words."""
    plain = (frame.replace(id_.removeprefix("chat-").encode(), b"ID") for frame in frames)
    return [re.sub(rb'("created|"created_at|"timestamp)": ?("[^"]*"|[0-9.]+)', rb'\1":T', frame) for frame in plain]


async def starting(caller: Caller, **more: Any) -> tuple[str, list[bytes]]:
    """The id of a reply of which the first word has come, and its frames so far."""
    await caller.ask(QUESTION, **more)
    assert await caller.head() == 200
    got: list[bytes] = []
    while b"One" not in b"".join(got):
        got += split_frames(await caller.write())
    return reply_id(caller), got


async def started(caller: Caller, **more: Any) -> str:
    return (await starting(caller, **more))[0]


async def cancel(gateway: Gateway, id_: str) -> tuple[int, Any]:
    status, raw = await fetch(gateway, "DELETE", f"/v1/chat/{id_}")
    return status, json.loads(raw)


async def closed(upstream: ScriptedServer, number: int = 0) -> None:
    async with asyncio.timeout(SOON):
        await upstream.connections[number].closed.wait()


def endless() -> Reply:
    return Reply([say("One"), asyncio.Event()], chunked=True)


def gated(gate: asyncio.Event) -> Reply:
    return Reply([say("One"), gate, say(" two"), end(), DONE], chunked=True)


async def whole(gateway: Gateway, **more: Any) -> tuple[str, list[bytes]]:
    async with calling(gateway.address) as caller:
        _, raw = await caller.reply(QUESTION, **more)
        return reply_id(caller), split_frames(raw)
