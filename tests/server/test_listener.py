"""Many clients that connect at once are accepted at once, also while the event loop is busy."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import cast

import pytest
import uvloop
from app.server.listener import ACCEPTED_AT_ONCE, RETRY_SECONDS, Listener

from tests.recording_socket import RecordingSocket

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
CLIENTS = 128
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class EchoServer:
    """Sends back what it receives. `transports` are those of all connections so far, `pauses` the errors for which
    clients had to wait."""

    def __init__(self, listening: socket.socket) -> None:
        self.transports: list[asyncio.Transport] = []
        self.pauses: list[int | None] = []
        self.listener = Listener(listening, lambda: _Echo(self), CLIENTS, lambda error: self.pauses.append(error.errno))

    async def __aenter__(self) -> "EchoServer":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.listener.close()
        for transport in self.transports:
            transport.abort()
        await asyncio.sleep(0.01)


class _Echo(asyncio.Protocol):
    def __init__(self, server: EchoServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.transports.append(self._transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


def bound() -> socket.socket:
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    return listening


def connect(listening: socket.socket) -> socket.socket:
    return socket.create_connection(listening.getsockname())


def run(new_loop: NewLoop, scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(scenario, 20))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def echoed(client: socket.socket) -> bytes:
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, b"hello")
    return await loop.sock_recv(client, 100)


@LOOPS
def test_all_clients_are_accepted_in_a_few_turns_of_the_event_loop(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = RecordingSocket()
        async with EchoServer(listening) as server:
            with ExitStack() as clients:
                opened = [clients.enter_context(connect(listening)) for _ in range(CLIENTS)]
                turns: list[int] = []
                while sum(turns) < CLIENTS:
                    await asyncio.sleep(0)
                    turns.append(listening.accepts - sum(turns))
                assert max(turns) == ACCEPTED_AT_ONCE
                await until(lambda: len(server.transports) == CLIENTS)
                assert await echoed(opened[-1]) == b"hello"
                names = {transport.get_extra_info("peername") for transport in server.transports}
                assert names == {client.getsockname() for client in opened}

    run(new_loop, scenario())


@LOOPS
def test_a_connection_sends_small_writes_at_once(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = bound()
        async with EchoServer(listening) as server:
            with connect(listening):
                await until(lambda: bool(server.transports))
                accepted = server.transports[0].get_extra_info("socket")
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(new_loop, scenario())


@LOOPS
def test_a_connection_that_the_client_has_aborted_does_not_disturb_others(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = RecordingSocket(errno.ECONNABORTED)
        async with EchoServer(listening):
            with connect(listening) as client:
                assert await echoed(client) == b"hello"

    run(new_loop, scenario())


@LOOPS
@pytest.mark.parametrize("errors", [(errno.EMFILE, errno.ENFILE), (errno.EPERM, errno.EINVAL)])
def test_clients_wait_while_the_system_accepts_no_connection(new_loop: NewLoop, errors: tuple[int, ...]) -> None:
    async def scenario() -> None:
        listening = RecordingSocket(*errors)
        async with EchoServer(listening) as server:
            began = asyncio.get_running_loop().time()
            with connect(listening) as client:
                assert await echoed(client) == b"hello"
            assert asyncio.get_running_loop().time() - began > 2 * RETRY_SECONDS - 0.01
            assert listening.accepts < 10
            assert server.pauses == list(errors)

    run(new_loop, scenario())


@LOOPS
def test_a_connection_that_cannot_be_used_is_closed(new_loop: NewLoop) -> None:
    def make_protocol() -> asyncio.BaseProtocol:
        raise ConnectionResetError

    async def scenario() -> None:
        listening = RecordingSocket()
        listener = Listener(listening, make_protocol, CLIENTS, lambda error: None)
        with connect(listening) as client:
            client.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(client, 100) == b""
            [accepted] = listening.accepted
            assert accepted.fileno() < 0
        listener.close()

    run(new_loop, scenario())


@LOOPS
def test_a_closed_listener_refuses_clients_and_keeps_those_it_has(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = bound()
        address = listening.getsockname()
        async with EchoServer(listening) as server:
            with connect(listening) as client:
                await until(lambda: bool(server.transports))
                server.listener.close()
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(address)
                assert await echoed(client) == b"hello"

    run(new_loop, scenario())


@LOOPS
def test_a_connection_that_was_accepted_is_known_once_the_listener_has_closed(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = RecordingSocket()
        async with EchoServer(listening) as server:
            with connect(listening):
                await until(lambda: listening.accepts > 0)
                assert not server.transports
                server.listener.close()
                await server.listener.wait_closed()
                assert len(server.transports) == 1

    run(new_loop, scenario())


@LOOPS
def test_a_listener_that_waits_for_files_can_be_closed(new_loop: NewLoop) -> None:
    async def scenario() -> None:
        listening = RecordingSocket(errno.EMFILE)
        async with EchoServer(listening) as server:
            with connect(listening):
                await until(lambda: listening.accepts == 1)
                server.listener.close()
                await asyncio.sleep(2 * RETRY_SECONDS)
        assert listening.accepts == 1

    run(new_loop, scenario())
