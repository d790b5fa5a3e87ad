"""How a server begins and ends to listen, and what it does when the system has no file left."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from app.config.tables.server import Server
from app.main import create_app
from app.server.process import CannotListen, ParleyServer, bind

from tests.live.gateway import make_server, serving, settings
from tests.live.raw_client import DEADLINE_SECONDS, HEALTH
from tests.recording_socket import RecordingSocket
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.anyio

CLIENTS = 8


def new_server() -> ParleyServer:
    what = settings("http://127.0.0.1:9", {}, {})
    return make_server(what, create_app(what))


async def test_a_connection_that_was_accepted_last_does_not_delay_the_shutdown() -> None:
    server, listening = new_server(), RecordingSocket()
    await server.listen([listening])
    with socket.create_connection(listening.getsockname()) as client:
        while not listening.accepted:
            await asyncio.sleep(0)
        assert not server.server_state.connections
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.shutdown()
        assert client.recv(100) == b""


async def test_a_server_that_cannot_listen_at_all_its_addresses_has_not_started() -> None:
    server, free = new_server(), RecordingSocket()
    address = free.getsockname()
    with socket.socket() as ours, socket.socket() as other:
        for one in (ours, other):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(("127.0.0.1", 0))
        other.bind(ours.getsockname())
        other.listen()
        with pytest.raises(CannotListen, match="already in use"):
            await server.startup([free, ours])
    assert not server.started
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@contextmanager
def no_further_files() -> Iterator[None]:
    """This process can open no file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_without_files_idle_connections_make_room_for_new_ones() -> None:
    loop = asyncio.get_running_loop()

    async def is_healthy(client: socket.socket) -> bool:
        await loop.sock_connect(client, gateway.address)
        await loop.sock_sendall(client, HEALTH)
        return (await loop.sock_recv(client, 1000)).startswith(b"HTTP/1.1 200 ")

    async with ScriptedServer() as upstream, serving(upstream) as gateway:
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.socket()) for _ in range(2 * CLIENTS)]
            for client in clients:
                client.setblocking(False)
            for client in clients[:CLIENTS]:
                assert await is_healthy(client)
            with no_further_files():
                async with asyncio.timeout(CLIENTS / 2):  # the pauses of the listener take a fifth of it
                    assert all(await asyncio.gather(*map(is_healthy, clients[CLIENTS:])))


def test_the_host_of_two_colons_is_all_addresses_of_both_families() -> None:
    bound = bind(Server(host="::", port=0))
    try:
        for one in bound:
            one.listen()
        port = bound[0].getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=5).close()
    finally:
        for one in bound:
            one.close()
