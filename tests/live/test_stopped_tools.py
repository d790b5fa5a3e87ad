"""A real gateway that is reloaded or told to end while a tool runs."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from chaos_checks import find_alive, find_descendants

from tests.live.gateway import DONE, chunk, end, eventually, say
from tests.live.gateway_processes import GatewayProcesses, Process, run_gateways
from tests.live.raw_client import Caller, calling, frames, readiness
from tests.scripted_server import Reply, ScriptedServer
from tests.tools.local_servers import SCRIPT

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcesses]:
    with run_gateways(tmp_path_factory.mktemp("gateways")) as one:
        yield one


def call_tool(name: str, arguments: dict[str, Any]) -> Reply:
    function = {"name": f"s-{name}", "arguments": json.dumps(arguments)}
    called = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    return Reply([chunk(called), end("tool_calls"), DONE])


def configure(upstream: ScriptedServer, log: Path) -> str:
    return f"""
        passthrough = "local"
        [upstreams.local]
        base_url = "{upstream.url}/v1"
        [mcp_servers.s]
        command = "{sys.executable}"
        args = ["{SCRIPT}"]
        env = {{MCP_LOG = "{log}", VALUE = "1"}}
    """


async def run_tool(gateway: Process, caller: Caller, log: Path) -> None:
    """Ask for a reply, and return when its tool runs."""
    await gateway.until_ready()
    await caller.ask(functions=["s"])
    await eventually(lambda: log.exists() and '"tools/call"' in log.read_text())


async def test_a_tool_that_runs_at_sigterm_may_finish_and_so_may_the_reply(
    processes: GatewayProcesses, tmp_path: Path
) -> None:
    log, file = tmp_path / "log", tmp_path / "file"
    async with ScriptedServer(call_tool("wait", {"file": str(file)}), Reply([say("Done."), end(), DONE])) as upstream:
        gateway = processes.start(configure(upstream, log), "drain_seconds = 60")
        await gateway.until_ready()
        async with calling(gateway.address) as caller:
            await run_tool(gateway, caller, log)
            started = find_descendants(gateway.number)
            os.kill(gateway.number, signal.SIGTERM)
            while await readiness(gateway.address) is not None:
                pass
            file.touch()
            await caller.head()
            told = frames(await caller.rest())
    assert told[-1].type == "response.completed"
    assert [row["outcome"] for row in told[-1].data["server_tools"]["calls"]] == ["ok"]
    await eventually(lambda: not gateway.runs)
    assert len(started) == 2  # the tool process and its server
    await eventually(lambda: not find_alive(started))


async def test_a_tool_that_runs_longer_than_the_drain_ends_with_the_gateway_and_the_reply_says_so(
    processes: GatewayProcesses, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with ScriptedServer(call_tool("hang", {})) as upstream:
        gateway = processes.start(configure(upstream, log), "drain_seconds = 0.2")
        await gateway.until_ready()
        async with calling(gateway.address) as caller:
            await run_tool(gateway, caller, log)
            started = find_descendants(gateway.number)
            os.kill(gateway.number, signal.SIGTERM)
            await caller.head()
            told = frames(await caller.rest())
        assert len(upstream.requests) == 1
    assert (told[-1].type, told[-1].data["error"]["code"]) == ("response.failed", "draining")
    await eventually(lambda: not gateway.runs)
    await eventually(lambda: not find_alive(started))


async def test_a_killed_gateway_leaves_no_process_behind(processes: GatewayProcesses, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with ScriptedServer(call_tool("hang", {})) as upstream:
        gateway = processes.start(configure(upstream, log))
        await gateway.until_ready()
        async with calling(gateway.address) as caller:
            await run_tool(gateway, caller, log)
            started = find_descendants(gateway.number)
            gateway.kill()
            await eventually(lambda: not find_alive(started))


async def test_a_reload_that_changes_a_server_lets_its_running_calls_finish(
    processes: GatewayProcesses, tmp_path: Path
) -> None:
    log, file = tmp_path / "log", tmp_path / "file"
    last = Reply([say("Done."), end(), DONE])
    replies = (call_tool("wait", {"file": str(file)}), last, call_tool("environment", {}), last)
    async with ScriptedServer(*replies) as upstream:
        gateway = processes.start(configure(upstream, log))
        await gateway.until_ready()
        async with calling(gateway.address) as caller, ask_status(gateway) as status:
            await run_tool(gateway, caller, log)
            [old] = find_children(gateway)
            gateway.reconfigure('VALUE = "1"', 'VALUE = "2"')
            while (await status()) != "idle":
                pass
            file.touch()
            await caller.head()
            first = frames(await caller.rest())
            second = frames((await caller.reply(functions=["s"], cache={"mode": "off"}))[1])
            await eventually(lambda: not find_alive({old}))
            assert len(find_children(gateway)) == 1
        await gateway.end()
    assert [row["outcome"] for row in first[-1].data["server_tools"]["calls"]] == ["ok"]
    environments = [frame.data["message"]["content"] for frame in second if frame.type == "message.completed"]
    assert '"VALUE": "2"' in environments[1]


def find_children(gateway: Process) -> set[tuple[int, str]]:
    """The servers that its tool process has started."""
    return {one for pid, _ in find_descendants(gateway.number) for one in find_descendants(pid)}


@asynccontextmanager
async def ask_status(gateway: Process) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Yield what returns the state of the server of tools."""
    async with httpx.AsyncClient(base_url="http://{}:{}".format(*gateway.address), verify=False) as client:

        async def ask() -> str:
            state: str = (await client.get("/v1/status")).json()["mcp_servers"][0]["state"]
            return state

        yield ask
