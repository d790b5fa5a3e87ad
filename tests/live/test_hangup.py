"""A terminal that hangs up ends the real process like SIGTERM, unless nohup started it."""

import asyncio
import os
import signal
import sys

import pytest

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import process
from tests.live.raw_client import calling, checked, reply_of
from tests.scripted_server import Reply, ScriptedServer
from tests.terminal_device import open_terminal

pytestmark = pytest.mark.anyio

WORKERS = pytest.mark.parametrize("workers", [1, 2])


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
