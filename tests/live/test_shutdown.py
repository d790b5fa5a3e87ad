"""How the real process goes down: what runs may end, what must end says so, and the exit is quiet."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from app.server.process import REPEAT_SECONDS, WORKER_SECONDS

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import process
from tests.live.raw_client import DEADLINE_SECONDS, calling, checked, frames, reply_of
from tests.scripted_server import Reply, ScriptedServer
from tests.terminal_device import open_terminal

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


AT_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # of a process that leads its session: its controlling terminal
for number in (0, 1, 2):
    os.dup2(terminal, number)
os.close(terminal)
os.execv(sys.argv[2], sys.argv[2:])
"""


@WORKERS
async def test_a_terminal_that_hangs_up_lets_streams_finish(workers: int) -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    terminal, other_end = open_terminal()
    before = (sys.executable, "-c", AT_TERMINAL, os.ttyname(other_end))
    async with (
        ScriptedServer(Reply(script)) as upstream,
        process(upstream, workers=workers, before=before, forked=False, log_format="json") as gateway,
    ):
        os.close(other_end)
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            os.close(terminal)
            await gateway.until_closed()
            gate.set()
            assert checked(raw + await caller.rest())[-1].type == "response.completed"
        assert (await gateway.ended())[0] == 0


@WORKERS
async def test_a_gateway_under_nohup_survives_a_hangup(workers: int) -> None:
    script: list[bytes | asyncio.Event] = [say("a"), end(), DONE]
    async with ScriptedServer(Reply(script, chunked=True)) as upstream:
        async with process(upstream, workers=workers, before=("nohup",), forked=False) as gateway:
            gateway.signal_all(signal.SIGHUP)
            await asyncio.sleep(1)
            status, raw = await reply_of(gateway.address)
            assert (status, checked(raw)[-1].type) == (200, "response.completed")
            gateway.signal(signal.SIGTERM)
            assert (await gateway.ended())[0] == 0


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
        assert (await gateway.ended())[0] == 0


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


@WORKERS
async def test_ctrl_c_is_a_quiet_end(workers: int) -> None:
    """The gateway is a process of its own group: the signal reaches the workers too, as in a terminal."""
    async with ScriptedServer() as upstream, process(upstream, workers=workers, forked=workers == 1) as gateway:
        gateway.signal_all(signal.SIGINT)
        code, output = await gateway.ended()
    assert code == 130
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


async def test_a_worker_that_ends_while_its_supervisor_waits_for_its_answer_does_not_delay_ctrl_c() -> None:
    async with ScriptedServer() as upstream, process(upstream, workers=2, forked=False) as gateway:
        worker = gateway.workers()[0]
        os.kill(worker, signal.SIGSTOP)
        await asyncio.sleep(1.5)  # the supervisor asks each worker twice a second, and now waits for this one
        os.kill(worker, signal.SIGKILL)
        gateway.signal(signal.SIGINT)
        async with asyncio.timeout(WORKER_SECONDS / 2):
            assert (await gateway.ended())[0] == 130


async def test_ctrl_c_while_workers_start_is_a_quiet_end() -> None:
    """One of three serves; the others are at any place of their start. Each loads its modules, as those of users do,
    and gets the signal too, as in a terminal."""
    async with ScriptedServer() as upstream, process(upstream, workers=3, forked=False, spawned=True) as gateway:
        gateway.signal_all(signal.SIGINT)
        code, output = await gateway.ended()
    assert code == 130
    assert "Traceback" not in output


@WORKERS
async def test_one_ctrl_c_lets_streams_finish(workers: int) -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, end(), DONE]
    async with ScriptedServer(Reply(script)) as upstream, process(upstream, workers=workers) as gateway:
        async with calling(gateway.address) as caller:
            await caller.ask()
            await caller.head()
            raw = await caller.write() + await caller.write()
            gateway.signal_all(signal.SIGINT)
            await gateway.until_closed()
            gate.set()
            assert checked(raw + await caller.rest())[-1].type == "response.completed"
        assert (await gateway.ended())[0] == 130


async def test_a_second_ctrl_c_ends_everything_at_once() -> None:
    async with ScriptedServer(Reply([say("a"), asyncio.Event()])) as upstream:
        async with process(upstream, settle_seconds=60, drain_seconds=60) as gateway:
            async with calling(gateway.address) as caller:
                await caller.ask()
                await caller.head()
                raw = await caller.write() + await caller.write()
                gateway.signal(signal.SIGINT)
                await gateway.until_draining()
                await asyncio.sleep(REPEAT_SECONDS)
                gateway.signal(signal.SIGINT)
                assert checked(raw + await caller.rest())[-1].data["error"]["code"] == "draining"
            code, output = await gateway.ended()
    assert code == 130
    assert "Traceback" not in output


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
