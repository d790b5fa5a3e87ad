"""How the real process goes down: what runs may end, what must end says so, and the exit is quiet."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import process
from tests.live.raw_client import DEADLINE_SECONDS, calling, checked, frames, reply_of
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


WORKERS = pytest.mark.parametrize("workers", [1, 2])


@WORKERS
async def test_a_stream_may_finish_after_sigterm(workers: int) -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    async with ScriptedServer(Reply(script)) as upstream, process(upstream, workers=workers) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            gateway.signal(signal.SIGTERM)
            await gateway.until_closed()
            gate.set()
            assert checked(raw + await caller.rest())[-1].type == "response.completed"
        code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


async def test_while_it_settles_it_is_not_ready_but_serves() -> None:
    script: list[bytes | asyncio.Event] = [say("a"), end(), DONE]
    async with (
        ScriptedServer(Reply(script, chunked=True)) as upstream,
        process(upstream, settle_seconds=1.5) as gateway,
    ):
        gateway.signal(signal.SIGTERM)
        await gateway.until_draining()
        assert await gateway.readiness() == 503
        status, raw = await reply_of(gateway.address)
        assert (status, checked(raw)[-1].type) == (200, "response.completed")
        assert await says_close(gateway.address)
        assert (await gateway.ended())[0] == 0


async def says_close(address: tuple[str, int]) -> bool:
    """Whether the response to a health check is the last one of its connection."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    received = await asyncio.wait_for(reader.read(), DEADLINE_SECONDS)
    writer.close()
    return b"\r\nconnection: close\r\n" in received


@WORKERS
async def test_what_runs_longer_than_it_may_ends_with_a_last_frame(workers: int) -> None:
    replies = [Reply([say("a"), asyncio.Event()]), Reply(hold=asyncio.Event())]
    async with ScriptedServer(*replies) as upstream:
        async with process(upstream, workers=workers, drain_seconds=0.5) as gateway:
            async with calling(gateway.address) as streaming, calling(gateway.address) as silent:
                await streaming.ask()
                await streaming.head()
                await silent.ask()
                await upstream.request(2)
                gateway.signal(signal.SIGTERM)
                failed = checked(await streaming.rest())[-1].data["error"]
                assert (failed["code"], failed["retryable"]) == ("draining", True)
                assert await silent.head() == 503
                assert b'"draining"' in await silent.rest()
            for connection in upstream.connections:
                await asyncio.wait_for(connection.closed.wait(), DEADLINE_SECONDS)
            code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


async def test_a_worker_that_is_killed_is_replaced() -> None:
    async with ScriptedServer() as upstream, process(upstream, workers=2, forked=False) as gateway:
        killed = gateway.workers()[0]
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(gateway.workers()) < 2 or killed in gateway.workers():
                await asyncio.sleep(0.05)
        await gateway.until_logged("a new one is started")
        gateway.signal(signal.SIGTERM)
        assert (await gateway.ended())[0] == 0


@WORKERS
async def test_a_signal_that_comes_twice_at_once_lets_streams_finish(workers: int) -> None:
    """`make` passes the SIGTERM of its process group on, which the gateway has got already."""
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    async with ScriptedServer(Reply(script)) as upstream, process(upstream, workers=workers) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            gateway.signal_all(signal.SIGTERM)
            await asyncio.sleep(0.1)
            gateway.signal_all(signal.SIGTERM)
            await gateway.until_closed()
            gate.set()
            assert checked(raw + await caller.rest())[-1].type == "response.completed"
        assert (await gateway.ended())[0] == 0


async def test_workers_whose_supervisor_is_killed_finish_their_streams_and_free_the_address() -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    async with (
        ScriptedServer(Reply(script)) as upstream,
        process(upstream, workers=2, forked=False, settle_seconds=60) as gateway,
    ):
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            workers = gateway.workers()
            assert len(workers) == 2
            gateway.signal(signal.SIGKILL)
            await gateway.until_closed()
            socket.create_server(gateway.address).close()
            gate.set()
            assert checked(raw + await caller.rest())[-1].type == "response.completed"
        async with asyncio.timeout(DEADLINE_SECONDS):
            while any(map(is_running, workers)):
                await asyncio.sleep(0.02)
        assert "the supervisor of this worker has ended" in (await gateway.ended())[1]


def is_running(process_id: int) -> bool:
    status = Path(f"/proc/{process_id}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


async def test_a_caller_who_reads_nothing_does_not_delay_the_shutdown() -> None:
    script: list[bytes | asyncio.Event] = [say("x" * 4_000_000), asyncio.Event()]
    async with ScriptedServer(Reply(script)) as upstream, process(upstream, drain_seconds=0.3) as gateway:
        async with calling(gateway.address, receive_bytes=8192) as caller:
            await caller.ask()
            await upstream.request()
            gateway.signal(signal.SIGTERM)
            code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


async def test_a_stream_of_the_demo_model_survives_sigterm() -> None:
    async with process(None) as gateway, calling(gateway.address) as caller:
        await caller.ask(model="demo")
        await caller.head()
        raw = await caller.write() + await caller.write()
        gateway.signal(signal.SIGTERM)
        assert checked(raw + await caller.rest())[-1].type == "response.completed"
        code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


def test_frames_are_read_strictly() -> None:
    """The reader of these tests would notice a frame that is none."""
    with pytest.raises(AssertionError):
        frames(b"id: 1\r\nevent: a\r\ndata: {}\r\n\n\n")
