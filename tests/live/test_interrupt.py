"""Ctrl-C ends the real process: the first lets streams finish, the second ends them."""

import asyncio
import os
import signal

import pytest
from app.server.process import REPEAT_SECONDS, WORKER_SECONDS

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import process
from tests.live.raw_client import calling, checked
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

WORKERS = pytest.mark.parametrize("workers", [1, 2])


@WORKERS
async def test_ctrl_c_is_a_quiet_end(workers: int) -> None:
    """The gateway is a process of its own group: the signal reaches the workers too, as in a terminal."""
    async with ScriptedServer() as upstream, process(upstream, workers=workers, forked=workers == 1) as gateway:
        gateway.signal_all(signal.SIGINT)
        code, output = await gateway.ended()
    assert code == 130
    assert "Traceback" not in output


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
