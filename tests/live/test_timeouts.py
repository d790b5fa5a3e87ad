"""Nothing is waited for without end: neither the model server, nor the caller; and a slow caller loses nothing."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.config.settings import Settings

from tests.live.gateway import DONE, chunk, end, eventually, say, serving, serving_with
from tests.live.raw_client import calling, checked, frames, reply_of
from tests.live.unreachable_server import unreachable
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

BEATS = {"commit_seconds": 30, "heartbeat_seconds": 0.08}


def code(raw: bytes) -> str:
    return str(json.loads(raw)["error"]["code"])


async def test_a_server_that_cannot_be_reached_is_a_timeout_by_name() -> None:
    async with unreachable() as url, serving(url, upstream_row={"connect_seconds": 0.1}) as gateway:
        status, raw = await reply_of(gateway.address)
    assert (status, code(raw)) == (504, "timeout")
    assert "no connection" in json.loads(raw)["error"]["message"]


async def test_all_connections_in_use_is_overload() -> None:
    row = {"connect_seconds": 0.1, "max_connections": 1}
    async with ScriptedServer(Reply([asyncio.Event()])) as upstream, serving(upstream, upstream_row=row) as gateway:
        async with calling(gateway.address) as first:
            await first.ask()
            await upstream.request()
            status, raw = await reply_of(gateway.address)
    assert (status, code(raw)) == (503, "overloaded")


async def test_the_limit_of_one_upstream_is_not_that_of_another() -> None:
    async with ScriptedServer(Reply([asyncio.Event()])) as upstream:
        url, quick = f"{upstream.url}/v1", {"connect_seconds": 0.1}
        rows = {"few": {"base_url": url, "max_connections": 1, **quick}, "many": {"base_url": url}}
        models = {name: {"upstreams": [name]} for name in rows}
        tree = {"upstreams": rows, "models": models, "server": {"log_level": "error"}, "cache": {"url": "null:"}}
        async with serving_with(Settings.model_validate(tree)) as gateway, calling(gateway.address) as first:
            await first.ask(model="few")
            await upstream.request()
            status, raw = await reply_of(gateway.address, model="few")
    assert (status, code(raw)) == (503, "overloaded")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reply", [Reply(hold=asyncio.Event()), Reply([asyncio.Event()])], ids=["no head", "no token"])
async def test_a_server_that_never_begins_is_a_timeout(reply: Reply, stream: bool) -> None:
    row = {"first_token_seconds": 0.15}
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        status, raw = await reply_of(gateway.address, stream=stream)
        await asyncio.wait_for(upstream.connections[0].closed.wait(), 0.25)
    assert (status, code(raw)) == (504, "timeout")


SLOWLY = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"


@pytest.mark.parametrize("path", ["chat", "chat/completions", "convert"])
async def test_the_wait_for_a_body_ends_at_its_timeout(path: str) -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"body_seconds": 0.1}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.say(SLOWLY.replace(b"chat", path.encode()))
            assert await caller.head() == 408
            error = json.loads(await caller.rest())["error"]
            assert await caller.closed()
    assert (error["code"], error["retryable"]) == ("request_timeout", True)


async def test_a_body_that_is_still_coming_takes_no_place_from_others() -> None:
    reply, one = Reply([say("a"), end(), DONE]), {"max_concurrent_requests": 1}
    async with ScriptedServer(reply) as upstream, serving(upstream, server=one) as gateway:
        async with calling(gateway.address) as slow:
            await slow.say(SLOWLY)
            await eventually(lambda: gateway.callers == 1)
            status, _ = await reply_of(gateway.address)
    assert status == 200


class Chatter(asyncio.Event):
    """Lets a script go on after so many seconds: for scripts that must say something now and then."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def wait(self) -> bool:  # type: ignore[override]
        await asyncio.sleep(self._seconds)
        return True


def chatter(piece: bytes, seconds: float, times: int) -> list[bytes | asyncio.Event]:
    return [part for _ in range(times) for part in (Chatter(seconds), piece)]


async def test_comments_do_not_count_as_a_first_token() -> None:
    row = {"first_token_seconds": 0.3, "idle_seconds": 5}
    reply = Reply([*chatter(b": wait\n\n", 0.05, 40), say("late"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        status, raw = await reply_of(gateway.address)
    assert status == 200
    assert checked(raw)[-1].data["error"]["code"] == "timeout"
    assert b"late" not in raw


async def test_a_silence_before_the_first_token_is_not_one_between_tokens() -> None:
    row = {"first_token_seconds": 5, "idle_seconds": 0.15}
    reply = Reply([*chatter(say("at last"), 0.5, 1), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        _, raw = await reply_of(gateway.address)
    assert checked(raw)[-1].type == "response.completed"


async def test_a_silence_between_tokens_is_a_timeout_and_what_came_is_kept() -> None:
    row = {"idle_seconds": 0.15}
    reply = Reply([say("half"), asyncio.Event()])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        _, raw = await reply_of(gateway.address)
        status, whole = await reply_of(gateway.address, stream=False)
    events = checked(raw)
    assert (events[-1].data["error"]["code"], events[2].data["delta"]) == ("timeout", {"content": "half"})
    assert status == 504
    assert json.loads(whole)["messages"] == [{"role": "assistant", "content": "half"}]


async def test_comments_break_a_silence_between_tokens() -> None:
    row = {"idle_seconds": 0.3}
    reply = Reply([say("a"), *chatter(b": wait\n\n", 0.05, 14), say("b"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        _, raw = await reply_of(gateway.address)
    assert checked(raw)[-1].type == "response.completed"


async def test_comments_do_not_break_a_silence_without_end() -> None:
    row = {"idle_seconds": 0.2, "first_token_seconds": 0.4}
    reply = Reply([say("a"), *chatter(b": wait\n\n", 0.05, 60), say("late"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        _, raw = await reply_of(gateway.address)
    error = checked(raw)[-1].data["error"]
    assert (error["code"], "nothing but comments" in error["message"]) == ("timeout", True)


async def test_a_silence_may_be_longer_than_the_wait_for_the_first_token() -> None:
    row = {"idle_seconds": 2, "first_token_seconds": 0.1}
    reply = Reply([say("a"), Chatter(0.3), say("b"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, upstream_row=row) as gateway:
        _, raw = await reply_of(gateway.address)
    assert checked(raw)[-1].type == "response.completed"


@pytest.mark.parametrize("after", [[], chatter(b": wait\n\n", 0.02, 100)], ids=["silence", "comments"])
async def test_a_server_that_finished_but_does_not_end_is_left(after: list[bytes | asyncio.Event]) -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}\n\n'
    reply = Reply([say("a"), end(), Chatter(0.05), usage, *after, asyncio.Event()])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS, grace_seconds=0.1) as gateway:
        async with asyncio.timeout(1):
            _, raw = await reply_of(gateway.address)
    last = checked(raw)[-1].data
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert (last["finish_reason"], last["usage"]) == ("stop", counts)


async def test_heartbeats_of_a_server_that_finished_keep_no_client_of_its_api_waiting() -> None:
    """tombii/better-ccflare pull request 307: after its stop reason came pings, and never `message_stop`."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [], "usage": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    ]
    frames_of = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    reply = Reply([*frames_of, *chatter(ping, 0.02, 200), asyncio.Event()])
    row = {"api": "messages", "kind": "anthropic"}
    async with (
        ScriptedServer(reply) as upstream,
        serving(upstream, server=BEATS, upstream_row=row, grace_seconds=0.1) as gateway,
        httpx.AsyncClient(base_url=f"http://{gateway.address[0]}:{gateway.address[1]}") as client,
        asyncio.timeout(2),
    ):
        body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        answer = await client.post("/v1/messages", json=body)
    lines = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [one["type"] for one in lines if one["type"] != "ping"][-2:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize(
    "reply",
    [Reply(hold=asyncio.Event()), Reply([asyncio.Event()]), Reply([say("a"), asyncio.Event()])],
    ids=["no head", "no token", "silence"],
)
async def test_a_caller_can_shorten_every_wait(reply: Reply) -> None:
    async with ScriptedServer(reply) as upstream, serving(upstream, server=BEATS) as gateway:
        began = time.monotonic()
        _, raw = await reply_of(gateway.address, generate_cfg={"request_timeout": 0.2})
        assert time.monotonic() - began < 1
    assert b'"code":"timeout"' in raw


async def test_the_wait_for_an_unreachable_server_ends_at_the_callers_deadline() -> None:
    async with unreachable() as url, serving(url) as gateway:
        status, raw = await reply_of(gateway.address, generate_cfg={"request_timeout": 0.1})
    assert (status, code(raw)) == (504, "timeout")


async def test_a_long_retry_after_is_reported_and_not_waited_for() -> None:
    busy = Reply([b"{}"], status=429, headers={"content-length": "2", "retry-after": "60"})
    async with ScriptedServer(busy) as upstream, serving(upstream) as gateway, calling(gateway.address) as caller:
        status, raw = await caller.reply(generate_cfg={"max_retries": 3})
    assert (status, caller.headers["retry-after"], len(upstream.requests)) == (429, "60", 1)
    assert json.loads(raw)["error"]["retryable"] is True


async def test_another_replica_gets_the_request_at_once_whatever_the_first_one_answers() -> None:
    busy = Reply([b"{}"], status=429, headers={"content-length": "2", "retry-after": "20"})
    async with ScriptedServer(busy) as one, ScriptedServer(Reply([say("a"), end(), DONE])) as two:
        rows = {name: {"base_url": f"{server.url}/v1"} for name, server in (("one", one), ("two", two))}
        tree = {
            "upstreams": rows,
            "models": {"m": {"upstreams": ["one", {"name": "two", "priority": 2}]}},
            "server": {"log_level": "error"},
        }
        async with serving_with(Settings.model_validate(tree)) as gateway:
            async with asyncio.timeout(5):
                status, raw = await reply_of(gateway.address)
    assert (status, checked(raw)[-1].type) == (200, "response.completed")


async def test_a_caller_who_reads_late_stops_the_server_and_loses_nothing() -> None:
    texts: list[str] = []
    stopped = asyncio.Event()

    def flood() -> Iterator[bytes]:
        """As much as the system's buffers take, however large these are."""
        while not stopped.is_set() and len(texts) < 4000:
            texts.append(f"{len(texts):06d}" * 4000)
            yield say(texts[-1])
        yield from (end(), DONE)

    replies = Reply(flood(), chunked=True), Reply([say("a"), end(), DONE], chunked=True)
    async with ScriptedServer(*replies) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address, receive_bytes=16384) as caller:
            await caller.ask(completed_bodies=False)
            await eventually(lambda: any(delivery.blocked for delivery in gateway.context.replies.active))
            await stands_still(upstream)
            assert upstream.connections[0].finished == 0
            stopped.set()
            await caller.head()
            raw = await caller.rest()
        deltas = [event.data["delta"]["content"] for event in checked(raw) if event.type == "message.delta"]
        assert "".join(deltas) == "".join(texts)
        assert (await reply_of(gateway.address, completed_bodies=False))[0] == 200  # on the connection that was paused
        assert len(upstream.connections) == 1


async def stands_still(upstream: ScriptedServer) -> None:
    sent = -1
    while sent != upstream.connections[0].sent:
        sent = upstream.connections[0].sent
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("last", [[asyncio.Event()], [end(), DONE]], ids=["the model goes on", "the model is done"])
async def test_a_caller_who_reads_nothing_is_cut_off(last: list[bytes | asyncio.Event]) -> None:
    """A whole reply of which the system's buffers take a part, in one write; and one that goes on."""
    script = [chunk({"content": "x" * 8_000_000}), *last]
    quick = BEATS | {"stall_seconds": 0.3}
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream, server=quick) as gateway:
        async with calling(gateway.address, receive_bytes=8192) as caller:
            await caller.ask()
            await eventually(lambda: any(delivery.blocked for delivery in gateway.context.replies.active))
            await eventually(gateway.quiet)
            await eventually(lambda: gateway.callers == 0)
            await caller.head()
            assert await caller.cut()


async def test_a_defect_in_one_timer_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.formats.qwen.stream import QwenDeltaEncoder

    real = QwenDeltaEncoder.open

    def broken(self: QwenDeltaEncoder) -> bytes:
        if self._info.request_id == "bad":
            raise RuntimeError("a defect")
        return real(self)

    monkeypatch.setattr(QwenDeltaEncoder, "open", broken)
    quick = {"commit_seconds": 0.1, "heartbeat_seconds": 0.1}
    async with ScriptedServer(Reply(hold=asyncio.Event())) as upstream, serving(upstream, server=quick) as gateway:
        async with calling(gateway.address) as good, calling(gateway.address) as bad:
            await bad.ask_as("bad")
            await good.ask()
            assert await good.head() == 200
            assert frames(await good.write())[0].type == "response.started"
            await bad.head()
            assert frames(await bad.write())[0].type == "response.failed"
            assert [await good.write() for _ in range(2)] == [b": heartbeat\n\n"] * 2
