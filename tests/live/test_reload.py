"""The real process reads its configuration again, while it serves."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import Process, process
from tests.live.raw_client import calling, checked
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

READ_AGAIN = "the configuration was re"
"""What each worker logs that has applied a configuration: "reloaded", or "read again: nothing to apply has changed"."""
QUESTION = {"messages": [{"role": "user", "content": "Hi"}], "stream": False}


def configuration(upstream: ScriptedServer, *models: str, **server: Any) -> str:
    lines = [f'[upstreams.box]\nbase_url = "{upstream.url}/v1"\n[server]']
    lines += [f"{name} = {value!r}" for name, value in server.items()]
    return "\n".join([*lines, *(f'[models.{name}]\nupstreams = ["box"]' for name in models), ""])


async def models(client: httpx.AsyncClient) -> set[str]:
    return {row["id"] for row in (await client.get("/v1/models")).json()["data"]}


async def until_models(client: httpx.AsyncClient, *wanted: str) -> None:
    async with asyncio.timeout(20):
        while await models(client) != {*wanted}:
            await asyncio.sleep(0.02)


def client_of(gateway: Process) -> httpx.AsyncClient:
    limits = httpx.Limits(max_keepalive_connections=0)  # so that every worker answers
    return httpx.AsyncClient(base_url="http://{}:{}".format(*gateway.address), verify=False, limits=limits)


@pytest.mark.parametrize("workers", [1, 2])
async def test_sighup_applies_a_new_configuration_while_streams_go_on(workers: int, tmp_path: Path) -> None:
    file = tmp_path / "parley.toml"
    gate = asyncio.Event()
    slow = Reply([say("a"), gate, say("b"), end(), DONE])
    async with ScriptedServer(slow) as upstream:
        file.write_text(configuration(upstream, "one", drain_seconds=20))
        before = ("env", "-u", "PARLEY_UPSTREAM_URL", f"PARLEY_CONFIG={file}", "PARLEY_SERVER__WATCH_CONFIG=false")
        async with process(upstream, workers=workers, before=before) as gateway, client_of(gateway) as client:
            async with calling(gateway.address) as caller:
                await caller.ask(model="one")
                await caller.head()
                raw = await caller.write() + await caller.write()
                file.write_text(configuration(upstream, "two", drain_seconds=21))
                gateway.signal(signal.SIGHUP)
                await gateway.until_logged(READ_AGAIN, workers)
                assert await models(client) == {"two"}
                refused = await client.post("/v1/chat", json=QUESTION | {"model": "one"})
                assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_model")
                gate.set()
                assert checked(raw + await caller.rest())[-1].type == "response.completed"
            file.write_text("[models.three]\nupstreams = ['nowhere']\n[server]\nport = 'x'")
            gateway.signal(signal.SIGHUP)
            await gateway.until_logged("the old one stays", workers)
            answer = await client.post("/v1/chat", json=QUESTION | {"model": "two"})
            assert answer.status_code == 200
            gateway.signal(signal.SIGTERM)
            code, output = await gateway.ended()
    assert code == 0
    # A worker that was still starting began with the second configuration.
    assert 1 <= output.count("restart to apply server.drain_seconds") <= workers
    refusals = [line for line in output.splitlines() if "the old one stays" in line]
    assert len(refusals) == workers
    assert all("no upstream 'nowhere'" in line for line in refusals)


async def test_a_file_that_is_replaced_is_noticed_without_a_signal(tmp_path: Path) -> None:
    file, new = tmp_path / "parley.toml", tmp_path / "new.toml"
    async with ScriptedServer(Reply([say("a"), end(), DONE], chunked=True)) as upstream:
        file.write_text(configuration(upstream, "one"))
        before = ("env", "-u", "PARLEY_UPSTREAM_URL", f"PARLEY_CONFIG={file}")
        async with process(upstream, before=before) as gateway, client_of(gateway) as client:
            await until_models(client, "one")
            new.write_text(configuration(upstream, "two"))
            new.replace(file)
            await until_models(client, "two")
            file.write_text("[server")
            await asyncio.sleep(0.8)
            assert await models(client) == {"two"}
            gateway.signal(signal.SIGTERM)
            assert (await gateway.ended())[0] == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_gateway_that_still_starts_does_not_end_at_sighup(workers: int, tmp_path: Path) -> None:
    file, new = tmp_path / "parley.toml", tmp_path / "new.toml"
    os.mkfifo(file)  # so that it waits for its configuration
    before = ("env", f"PARLEY_CONFIG={file}", "PARLEY_SERVER__WATCH_CONFIG=false")
    async with ScriptedServer() as upstream:
        new.write_text(configuration(upstream, "two"))
        async with (
            process(None, workers=workers, before=before, spawned=True, ready=False) as gateway,
            client_of(gateway) as client,
        ):
            with await asyncio.to_thread(file.open, "w") as pipe:
                gateway.signal(signal.SIGHUP)
                new.replace(file)
                pipe.write(configuration(upstream, "one"))
            await gateway.until_ready()
            await gateway.until_logged(READ_AGAIN, workers)
            assert await models(client) == {"two"}
            gateway.signal(signal.SIGTERM)
            assert (await gateway.ended())[0] == 0
