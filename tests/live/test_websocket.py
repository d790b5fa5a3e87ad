"""`GET /v1/responses` as a WebSocket over the gateway's own server, with a client of the package `websockets`."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets.asyncio.client as client
from app.server.connection import MAX_SOCKET_LINE
from app.server.socket_connection import MAX_FRAGMENTS
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.each_case import each_case
from tests.live.gateway import DONE, Gateway, end, eventually, say, serving
from tests.live.parley_command import process
from tests.live.raw_client import DEADLINE_SECONDS, calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

HI = {"type": "response.create", "model": "m", "input": "hi", "store": False}
ENDS = ("error", "response.completed", "response.failed", "response.incomplete")
Address = tuple[str, int]


def hello() -> Reply:
    return Reply([say("Hello"), end(), DONE])


@asynccontextmanager
async def socket_to(address: Address, path: str = "/v1/responses", **options: Any) -> AsyncIterator[Any]:
    url = f"ws://{address[0]}:{address[1]}{path}"
    async with client.connect(url, proxy=None, open_timeout=DEADLINE_SECONDS, **options) as socket:
        yield socket


async def read(socket: Any) -> list[dict[str, Any]]:
    """Read the frames of one response."""
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not frames or frames[-1]["type"] not in ENDS:
            frames.append(json.loads(await socket.recv()))
    return frames


async def ask(socket: Any, **fields: Any) -> list[dict[str, Any]]:
    await socket.send(json.dumps(HI | fields))
    return await read(socket)


async def close_code(socket: Any) -> int | None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as closed:
            return None if closed.rcvd is None else closed.rcvd.code


async def raw_handshake(gateway: Gateway, more: bytes = b"", path: bytes = b"/v1/responses") -> int:
    head = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    key = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    async with calling(gateway.address) as caller:
        await caller.say(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + head + key + more + b"\r\n")
        return await caller.head()


async def test_requests_of_one_socket_are_answered_with_and_without_compression() -> None:
    for compression in ("deflate", None):
        async with ScriptedServer(hello(), hello()) as upstream, serving(upstream) as gateway:
            async with socket_to(gateway.address, compression=compression) as socket:
                first = await ask(socket)
                assert first[-1]["type"] == "response.completed"
                second = await ask(socket, input="on", previous_response_id=first[-1]["response"]["id"])
                assert second[-1]["type"] == "response.completed"
            await eventually(lambda: not gateway.context.websockets)
            assert gateway.context.budget.held_bytes == 0


@each_case(("path", "status"), [(b"/healthz", 200), (b"/v1/models?x=/v1/responses", 502), (b"/v1/responses/", 426)])
async def test_an_upgrade_of_another_path_is_ignored(path: bytes, status: int) -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        assert await raw_handshake(gateway, path=path) == status


@each_case(
    "more",
    [
        b"content-length: 2\r\n",
        b"transfer-encoding: chunked\r\n",
        b"x: " + b"y" * MAX_SOCKET_LINE + b"\r\n",
        b"x: y\r\n" * 140,
    ],
)
async def test_a_handshake_that_is_not_read_as_one_sends_the_client_to_http(more: bytes) -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        assert await raw_handshake(gateway, more) == 426


async def test_a_handshake_with_a_wrong_version_is_refused_by_a_status() -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway, calling(gateway.address) as caller:
        head = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 8\r\nsec-websocket-key: x\r\n"
        await caller.say(b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n")
        assert await caller.head() in (400, 426)


async def test_the_caller_who_goes_cancels_what_runs() -> None:
    async with ScriptedServer(Reply([say("a"), asyncio.Event()])) as upstream, serving(upstream) as gateway:
        async with socket_to(gateway.address) as socket:
            await socket.send(json.dumps(HI))
            await upstream.request(1)
            await socket.recv()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.connections[0].closed.wait()


CREATE = '"type":"response.create","model":"m","input":"hi"'


@each_case(
    "frame",
    [
        r'{"type":"\ud800"}',
        rf'{{{CREATE},"stream_id":"\ud800"}}',
        rf'{{{CREATE},"generate":"\uZZZZ"}}',
        rf'{{{CREATE},"background":["\x"]}}',
        f'{{{CREATE},"stream_id":{"[" * 900}{"]" * 900}}}',
        f'{{{CREATE},"generate":1e999}}',
        f'{{{CREATE},"stream_id":{"9" * 5000}}}',
        rf'{{{CREATE},"\ud800":1}}',
        f'{{{CREATE},"x":NaN}}',
    ],
)
async def test_a_value_that_cannot_be_read_does_not_end_the_socket(frame: str) -> None:
    async with ScriptedServer(hello()) as upstream, serving(upstream) as gateway, socket_to(gateway.address) as socket:
        await socket.send(frame)
        (error,) = await read(socket)
        assert error["type"] == "error" and 400 <= error["status"] < 500
        assert (await ask(socket))[-1]["type"] == "response.completed"


async def test_a_long_message_and_a_bomb_are_closed_with_1009_and_too_many_fragments_with_1008() -> None:
    async with ScriptedServer() as upstream, serving(upstream, server={"max_body_bytes": 100_000}) as gateway:
        long = json.dumps(HI | {"input": "x" * 200_000})
        for compression in ("deflate", None):
            async with socket_to(gateway.address, compression=compression) as socket:
                await socket.send(long)
                assert await close_code(socket) == 1009
        async with socket_to(gateway.address) as socket:
            with contextlib.suppress(ConnectionClosed):
                await socket.send(["x"] * (MAX_FRAGMENTS + 100))
            assert await close_code(socket) == 1008


async def test_a_message_in_fragments_is_one_request() -> None:
    async with ScriptedServer(hello()) as upstream, serving(upstream) as gateway, socket_to(gateway.address) as socket:
        await socket.send(list(json.dumps(HI)))
        assert (await read(socket))[-1]["type"] == "response.completed"
        await socket.send([b"a", b"b"])
        assert await close_code(socket) == 1003


async def test_the_memory_of_a_message_that_is_not_whole_counts() -> None:
    limits = {"max_request_memory_bytes": 64 * 1024 * 1024, "max_body_bytes": 4_000_000}
    async with ScriptedServer() as upstream, serving(upstream, server=limits) as gateway:
        budget = gateway.context.budget
        gate = asyncio.Event()

        async def pieces() -> AsyncIterator[str]:
            yield "x" * 1_000_000
            await gate.wait()

        async with socket_to(gateway.address, compression=None) as socket:
            sending = asyncio.create_task(socket.send(pieces()))
            await eventually(lambda: budget.held_bytes >= 1_000_000)
            sending.cancel()
        await eventually(lambda: budget.held_bytes == 0)
        other = budget.lease()
        other.change(budget.max_bytes // 2)
        async with socket_to(gateway.address, compression=None) as socket:
            sending = asyncio.create_task(socket.send(pieces()))
            assert await close_code(socket) == 1013
            sending.cancel()
        other.release()


async def test_a_client_that_reads_nothing_is_dropped() -> None:
    long = say("x" * 1_000_000)
    async with (
        ScriptedServer(Reply([long] * 40)) as upstream,
        serving(upstream, server={"stall_seconds": 0.5}) as gateway,
        socket_to(gateway.address, compression=None, max_queue=1, max_size=None) as socket,
    ):
        await socket.send(json.dumps(HI))
        socket.transport.pause_reading()
        await eventually(lambda: not gateway.context.websockets)
        await eventually(lambda: not gateway.callers)


async def test_what_runs_ends_and_idle_sockets_are_closed_when_the_process_stops() -> None:
    gate = asyncio.Event()
    script: list[bytes | asyncio.Event] = [say("a"), gate, say("b"), end(), DONE]
    async with ScriptedServer(Reply(script)) as upstream, process(upstream) as gateway:
        async with socket_to(gateway.address) as busy, socket_to(gateway.address) as idle:
            await busy.send(json.dumps(HI))
            await busy.recv()
            await upstream.request(1)
            gateway.signal(signal.SIGTERM)
            assert await close_code(idle) == 1012
            gate.set()
            assert (await read(busy))[-1]["type"] == "response.completed"
            assert await close_code(busy) == 1012
        code, output = await gateway.ended()
    assert code == 0
    assert "Traceback" not in output


async def test_a_refused_handshake_is_an_http_error(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            async with socket_to(gateway.address, origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body)["error"]["code"] == "origin_not_allowed"
        await eventually(lambda: not gateway.callers)
    assert [record for record in caplog.records if record.name == "uvicorn.error"] == []


def test_the_package_is_not_imported_before_a_client_upgrades() -> None:
    program = "import sys, app.main, app.server.process; print('websockets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
