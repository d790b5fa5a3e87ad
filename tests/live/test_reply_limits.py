"""What a model server sends is bounded in size, time and number, and ends in an error that says so."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests.live.gateway import DONE, chunk, end, say, serving
from tests.live.raw_client import calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio
BEAT = {"heartbeat_seconds": 0.2}


def slowly(piece: bytes, number: int, seconds: float) -> list[bytes | asyncio.Event]:
    """So many of the piece, one each so many seconds."""
    pieces: list[bytes | asyncio.Event] = []
    for at in range(number):
        event = asyncio.Event()
        asyncio.get_running_loop().call_later((at + 1) * seconds, event.set)
        pieces += [event, piece]
    return pieces


async def failed(reply: Reply, *, stream: bool = True, **row: Any) -> dict[str, Any]:
    """The error in which a reply ends."""
    async with (
        ScriptedServer(reply) as upstream,
        serving(upstream, server=BEAT, upstream_row=row) as gateway,
        calling(gateway.address) as caller,
    ):
        async with asyncio.timeout(20):
            _, body = await caller.reply(stream=stream)
    if body.startswith(b"{"):
        return dict(json.loads(body)["error"])
    last = [line for line in body.split(b"\n") if line.startswith(b"data: ")][-1]
    return dict(json.loads(last[6:])["error"])


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_that_grows_too_long_is_a_protocol_error(stream: bool) -> None:
    error = await failed(Reply([say("x" * 1000)] * 200, chunked=True), stream=stream, max_reply_bytes=100_000)
    assert error["code"] == "upstream_protocol"
    assert "100000 bytes" in error["message"]


async def test_one_line_without_end_is_a_protocol_error() -> None:
    error = await failed(Reply([b"data: {" + b" " * 50_000] + [b" " * 50_000] * 4), max_reply_bytes=100_000)
    assert error["code"] == "upstream_protocol"


async def test_what_a_compressed_reply_expands_to_counts() -> None:
    bomb = gzip.compress(say("x" * 2_000_000))
    reply = Reply([bomb], headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    error = await failed(reply, max_reply_bytes=1_000_000)
    assert error["code"] == "upstream_protocol"


@pytest.mark.parametrize(
    "delta", [{}, {"content": ""}, {"role": "assistant"}, {"tool_calls": []}, {"tool_calls": [{"index": 0}]}]
)
async def test_chunks_that_carry_nothing_keep_no_reply_alive(delta: dict[str, Any]) -> None:
    reply = Reply([say("Hello"), *slowly(chunk(delta), 100, 0.05)], chunked=True)
    error = await failed(reply, idle_seconds=0.5)
    assert error["code"] == "timeout"


async def test_a_reply_may_take_only_so_long() -> None:
    error = await failed(Reply(slowly(say("x"), 100, 0.05), chunked=True), max_reply_seconds=0.7)
    assert error["code"] == "timeout"
    assert "0.7 s" in error["message"]


async def test_text_that_is_held_back_is_progress() -> None:
    """Arguments that begin with a quote are written at the end."""
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '"'}}
    more = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]})
    begin, pieces = chunk({"tool_calls": [call]}), slowly(more, 15, 0.1)
    reply = Reply([begin, *pieces, end("tool_calls"), DONE], chunked=True)
    async with (
        ScriptedServer(reply) as upstream,
        serving(upstream, server=BEAT, upstream_row={"idle_seconds": 0.5}) as gateway,
        calling(gateway.address) as caller,
    ):
        _, body = await caller.reply()
    assert b"response.completed" in body


@pytest.mark.parametrize("whole", [True, False])
async def test_more_calls_than_may_be_are_a_protocol_error(whole: bool) -> None:
    calls = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(1100)]
    if whole:
        choice = {"index": 0, "message": {"role": "assistant", "tool_calls": calls}, "finish_reason": "tool_calls"}
        reply = Reply([json.dumps({"choices": [choice]}).encode()])
    else:
        reply = Reply([chunk({"tool_calls": [call]}) for call in calls], chunked=True)
    assert (await failed(reply))["code"] == "upstream_protocol"
