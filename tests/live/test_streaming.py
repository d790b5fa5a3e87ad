"""What a caller sees of a stream, over real sockets, while the model server is still at it."""

import asyncio
import json
from typing import Any

import pytest

from tests.live.gateway import DONE, chunk, end, say, serving
from tests.live.raw_client import calling, checked, frames, reply_of
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

HELLO = [say("Hel"), say("lo"), end(), DONE]
QUICK = {"heartbeat_seconds": 0.1, "commit_seconds": 0.1}


def read_text(raw: bytes) -> str:
    return "".join(frame.data["delta"].get("content", "") for frame in frames(raw) if frame.type == "message.delta")


async def test_every_word_arrives_before_the_next_one_is_sent() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    script: list[bytes | asyncio.Event] = [say("one"), gates[0], say("two"), gates[1], end(), gates[2], DONE]
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            assert await caller.head() == 200
            assert (await caller.event()).type == "response.started"
            first = frames(await caller.write())
            assert [frame.type for frame in first] == ["message.started", "message.delta"]
            gates[0].set()
            assert (await caller.event()).data["delta"] == {"content": "two"}
            gates[1].set()
            gates[2].set()
            assert [frame.type for frame in frames(await caller.rest())] == ["message.completed", "response.completed"]


async def test_a_chunk_that_comes_byte_by_byte_is_sent_at_its_last_byte() -> None:
    gate = asyncio.Event()
    pieces = [bytes([byte]) for byte in say("slow but sure").rstrip(b"\n") + b"\n"]
    async with ScriptedServer(Reply([*pieces, gate, end(), DONE])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            await caller.event()
            assert [frame.type for frame in frames(await caller.write())] == ["message.started", "message.delta"]
            gate.set()
            assert frames(await caller.rest())[-1].type == "response.completed"


async def test_a_stream_is_one_sequence_with_one_end_and_the_headers_that_proxies_need() -> None:
    async with ScriptedServer(Reply(HELLO, chunked=True)) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            status, raw = await caller.reply()
    assert status == 200
    assert caller.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert caller.headers["x-accel-buffering"] == "no"
    assert "no-store" in caller.headers["cache-control"]
    assert caller.headers["x-request-id"]
    assert b"\r" not in raw
    events = checked(raw)
    assert events[-1].type == "response.completed"
    assert events[-1].data["finish_reason"] == "stop"
    assert read_text(raw) == "Hello"


async def test_kinds_are_separate_messages_in_the_order_they_came() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]}
    script: list[bytes | asyncio.Event] = [
        chunk({"reasoning_content": "Hm"}),
        say("Well"),
        chunk(call),
        end("tool_calls"),
        DONE,
    ]
    async with ScriptedServer(Reply(script)) as upstream, serving(upstream) as gateway:
        _, raw = await reply_of(gateway.address)
    events = checked(raw)
    kinds = [event.data["kind"] for event in events if event.type == "message.started"]
    assert kinds == ["reasoning_content", "content", "function_call"]
    whole = [event.data["message"] for event in events if event.type == "message.completed"]
    assert (whole[0]["reasoning_content"], whole[1]["content"]) == ("Hm", "Well")
    assert whole[2]["function_call"] == {"name": "f", "arguments": "{}"}


async def test_a_server_that_says_nothing_is_bridged_with_heartbeats() -> None:
    hold = asyncio.Event()
    async with ScriptedServer(Reply(HELLO, hold=hold)) as upstream, serving(upstream, server=QUICK) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            assert await caller.head() == 200
            assert (await caller.event()).type == "response.started"
            assert [await caller.write() for _ in range(2)] == [b": heartbeat\n\n"] * 2
            hold.set()
            rest = await caller.rest()
            assert frames(rest)[-1].type == "response.completed"
            assert read_text(rest) == "Hello"


async def test_a_silence_in_the_middle_is_bridged_with_heartbeats() -> None:
    gate = asyncio.Event()
    reply = Reply([say("a"), gate, say("b"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server=QUICK) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            assert [await caller.write() for _ in range(2)] == [b": heartbeat\n\n"] * 2
            gate.set()
            checked(raw + await caller.rest())


async def test_no_silence_is_longer_than_the_heartbeat() -> None:
    gate = asyncio.Event()
    reply = Reply([say("a"), gate, end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream, server={"heartbeat_seconds": 0.4}) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            await caller.write(), await caller.write()
            now = asyncio.get_running_loop().time
            last = now()
            for _ in range(3):
                await caller.write()
                assert now() - last < 0.45
                last = now()
            gate.set()
            await caller.rest()


async def test_a_comment_of_the_server_opens_the_stream() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([b": busy\n\n", gate, *HELLO])) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            assert await caller.head() == 200
            assert (await caller.event()).type == "response.started"
            gate.set()
            assert frames(await caller.rest())[-1].type == "response.completed"


REFUSED = Reply([b'{"error":{"message":"slow down"}}'], status=429, headers={"content-length": "33"})
FAILS_AT_ONCE = Reply([b'data: {"error":{"message":"out of memory"}}\n\n'])
CUT_AT_ONCE = Reply([], chunked=True, abrupt=True)


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (REFUSED, 429, "rate_limit"),
        (FAILS_AT_ONCE, 502, "server_error"),
        (CUT_AT_ONCE, 502, "upstream_incomplete"),
        (Reply([b"nonsense\r\n\r\n"], status=None), 502, "upstream_incomplete"),
        (Reply([], status=None, abrupt=True), 502, "upstream_incomplete"),
        (Reply([], headers={"content-encoding": "br"}), 502, "upstream_protocol"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_the_first_word_is_a_status(reply: Reply, status: int, code: str, stream: bool) -> None:
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            got, raw = await caller.reply(stream=stream)
    assert (got, json.loads(raw)["error"]["code"]) == (status, code)
    assert caller.headers["content-type"] == "application/json"


@pytest.mark.parametrize("reply", [REFUSED, FAILS_AT_ONCE, CUT_AT_ONCE])
async def test_an_error_after_the_stream_was_opened_is_its_last_frame(reply: Reply) -> None:
    hold = asyncio.Event()
    late = Reply(reply.chunks, reply.status, reply.headers, reply.chunked, reply.abrupt, hold)
    async with ScriptedServer(late) as upstream, serving(upstream, server=QUICK) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            assert await caller.head() == 200
            raw = await caller.write()
            hold.set()
            events = checked(raw + await caller.rest())
    assert [event.type for event in events] == ["response.started", "response.failed"]
    assert events[-1].data["error"]["retryable"] is True


@pytest.mark.parametrize("abrupt", [True, False])
async def test_events_before_a_cut_are_sent_and_then_the_failure(abrupt: bool) -> None:
    gate = asyncio.Event()
    reply = Reply([say("half a "), gate, say("sentence")], chunked=True, abrupt=abrupt)
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway:
        gate.set()
        status, raw = await reply_of(gateway.address)
        assert status == 200
        assert checked(raw)[-1].data["error"]["code"] == "upstream_incomplete"
        assert read_text(raw).startswith("half a ")


async def test_nothing_follows_the_end_whatever_the_server_says() -> None:
    script: list[bytes | asyncio.Event] = [say("a"), end() + DONE + say("b") + b"data: {\n\n" + end("length"), say("c")]
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream) as gateway:
        _, raw = await reply_of(gateway.address)
    assert checked(raw)[-1].data["finish_reason"] == "stop"
    assert read_text(raw) == "a"


async def test_no_frame_of_a_long_text_is_longer_than_line_readers_take() -> None:
    text = "é\u2028\u0001🙂" * 75_000
    script: list[bytes | asyncio.Event] = [say(text), end(), DONE]
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream) as gateway:
        _, raw = await reply_of(gateway.address)
    events = checked(raw)
    assert read_text(raw) == text
    assert max(event.size for event in events if event.type == "message.delta") < 60_000
    (whole,) = [event for event in events if event.type == "message.completed"]
    assert whole.data["message"]["content"] == text


async def test_characters_at_which_some_readers_end_a_line_are_escaped() -> None:
    text = "a\u2028b\u2029c\u0085d"
    async with ScriptedServer(Reply([say(text), end(), DONE])) as upstream, serving(upstream) as gateway:
        _, raw = await reply_of(gateway.address)
    assert read_text(raw) == text
    assert len(raw.decode().splitlines()) == raw.count(b"\n")


async def test_completed_messages_can_come_without_the_text_of_the_deltas() -> None:
    async with ScriptedServer(Reply(HELLO)) as upstream, serving(upstream) as gateway:
        _, raw = await reply_of(gateway.address, completed_bodies=False)
    (whole,) = [event for event in checked(raw) if event.type == "message.completed"]
    assert whole.data["message"] == {"role": "assistant", "content": ""}


async def test_a_snapshot_is_the_whole_list_each_time() -> None:
    gate = asyncio.Event()
    reply = Reply([say("Hel"), gate, say("lo"), end(), DONE])
    async with ScriptedServer(reply) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask(stream_mode="snapshot")
            await caller.head()
            raw = await caller.write() + await caller.write()
            gate.set()
            events = checked(raw + await caller.rest())
    seen = [event.data["messages"][0]["content"] for event in events if event.type == "messages"]
    assert (seen[0], seen[-1]) == ("Hel", "Hello")
    assert {event.type for event in events} == {"response.started", "messages", "response.completed"}


async def test_without_a_stream_the_reply_is_one_document() -> None:
    async with ScriptedServer(Reply(HELLO, chunked=True)) as upstream, serving(upstream, server=QUICK) as gateway:
        async with calling(gateway.address) as caller:
            for _ in range(2):
                status, raw = await caller.reply(stream=False)
                body: dict[str, Any] = json.loads(raw)
                assert (status, body["messages"]) == (200, [{"role": "assistant", "content": "Hello"}])
        assert len(upstream.connections) == 1


async def test_a_connection_serves_one_stream_after_the_other_whatever_their_ends() -> None:
    replies = [Reply(HELLO, chunked=True), Reply([say("x")], chunked=True, abrupt=True), REFUSED]
    async with ScriptedServer(*replies) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as caller:
            assert checked((await caller.reply())[1])[-1].type == "response.completed"
            assert checked((await caller.reply())[1])[-1].type == "response.failed"
            assert (await caller.reply())[0] == 429


async def test_a_defect_of_ours_ends_its_own_reply_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.formats.qwen.stream import QwenDeltaEncoder

    gate = asyncio.Event()
    real = QwenDeltaEncoder.feed

    def broken(self: QwenDeltaEncoder, events: Any) -> bytes:
        if any(getattr(event, "text", "") == "bug" for event in events):
            raise RuntimeError("a defect")
        return real(self, events)

    monkeypatch.setattr(QwenDeltaEncoder, "feed", broken)
    replies = [Reply([say("fine"), gate, end(), DONE]), Reply([say("a"), gate, say("bug")]), Reply([say("bug")])]
    async with ScriptedServer(*replies) as upstream, serving(upstream) as gateway:
        async with calling(gateway.address) as good, calling(gateway.address) as bad:
            await good.ask()
            await upstream.request(1)
            await bad.ask()
            await upstream.request(2)
            assert checked((await reply_of(gateway.address))[1])[-1].type == "response.failed"
            await bad.head()
            raw = await bad.write() + await bad.write()
            gate.set()
            assert checked(raw + await bad.rest())[-1].data["error"]["code"] == "internal_error"
            await good.head()
            assert checked(await good.rest())[-1].type == "response.completed"
