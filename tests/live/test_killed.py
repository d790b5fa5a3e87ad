"""Gateways on one file: killed while they write, side by side, and on a file that is damaged."""

import asyncio
import os
import signal
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.fork_server import forked
from tests.live.gateway import DONE, end, say
from tests.live.parley_command import Process, process
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.scripted_server import Reply, ScriptedServer

ROUNDS = 4 * int(os.environ.get("SEEDS") or 2)
SCRIPT = Reply([say("One"), end(), DONE], chunked=True)


def test_what_a_killed_gateway_left_is_whole_and_answered_from(tmp_path: Path) -> None:
    command = [*forked("tests.live.crashing_process"), str(tmp_path), str(ROUNDS)]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert '"hit after the kill": 0' not in run.stdout
    assert '"refresh"' in run.stdout


@pytest.mark.anyio
async def test_two_gateways_on_a_damaged_file_begin_a_new_one_and_answer_from_what_the_other_keeps(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cache.db"
    path.write_bytes(b"this is no database" * 1000)
    async with ScriptedServer(SCRIPT) as upstream, AsyncExitStack() as stack:
        gateways = [process(upstream, cache=f"sqlite:///{path}") for _ in range(2)]
        one, other = await asyncio.gather(*(stack.enter_async_context(gateway) for gateway in gateways))
        # Both come upon the damage at the same time.
        assert list(await asyncio.gather(ask(one, "1"), ask(other, "2"))) == ["miss", "miss"]
        assert await kept(other, "1")
        assert await kept(one, "2")
        assert set_aside(tmp_path) == [b"this is no database" * 1000]
        one.signal(signal.SIGKILL)
        assert (await one.ended())[0] == -signal.SIGKILL
        assert [await ask(other, question) for question in ("1", "2", "3")] == ["hit", "hit", "miss"]
        assert len(upstream.requests) == 3


def set_aside(folder: Path) -> list[bytes]:
    return [left.read_bytes() for left in folder.glob("*corrupt-*")]


async def ask(gateway: Process, question: str, mode: str = "on") -> str:
    """What the reply says of the cache."""
    async with calling(gateway.address) as caller:
        messages = [{"role": "user", "content": question}]
        status, raw = await caller.reply(messages=messages, cache={"mode": mode})
        assert status == (504 if b"cache_miss" in raw else 200)
        return caller.headers["x-parley-cache"]


async def kept(gateway: Process, question: str) -> bool:
    """Whether it is answered from the file, where it may stand a moment after its end was sent."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await ask(gateway, question, "only") != "hit":
            await asyncio.sleep(0.01)
    return True
