"""How connections are made: proxies, certificates, Unix sockets, ages; over real sockets."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.upstream import causes
from app.upstream.http.client import make_transport_fault
from app.upstream.http.options import ConnectionOptions, Proxy, make_ssl_context, parse_proxy
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import PushTransport

from tests.certificates import certificate
from tests.default_limits import upstream_target

pytestmark = pytest.mark.anyio

TLS_1_2 = ssl.TLSVersion.TLSv1_2
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class HttpServer:
    """Answers each request with `ok` and keeps the heads of all."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client went away
        finally:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            self.heads.append(head)
            await reader.readexactly(2)
            writer.write(ANSWER)


class ConnectProxy(HttpServer):
    """A proxy that opens tunnels and answers other requests itself."""

    def __init__(self, status: bytes = b"200 Connection established") -> None:
        super().__init__()
        self.status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if not head.startswith(b"CONNECT "):
            await reader.readexactly(2)
            refusal = b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self.status
            writer.write(ANSWER if self.status.startswith(b"200") else refusal)
            await writer.drain()
            await reader.read()
            return
        writer.write(b"HTTP/1.1 %b\r\nvia: test\r\n\r\n" % self.status)
        if not self.status.startswith(b"200"):
            await writer.drain()
            await reader.read()
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(4096):
                    sink.write(data)
            finally:
                sink.transport.abort()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)


@asynccontextmanager
async def listening(
    server: HttpServer, context: ssl.SSLContext | None = None, path: str | None = None
) -> AsyncIterator[None]:
    if path is not None:
        listener = await asyncio.start_unix_server(server.accept, path)
    else:
        listener = await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=context)
        server.port = listener.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        listener.close()
        await asyncio.sleep(0.05)  # its connections end


async def send(transport: PushTransport, url: str, options: ConnectionOptions) -> bytes:
    extensions = {"timeout": {"connect": 5.0, "read": 5.0}, "pool_key": PoolKey("a", 10, options)}
    request = httpx.Request("POST", url, headers={"host": "h"}, content=b"{}", extensions=extensions)
    response = await transport.handle_async_request(request)
    body = b"".join([part async for part in response.aiter_raw()])
    await response.aclose()
    return body


async def test_a_proxy_is_told_the_whole_url_of_a_plain_request() -> None:
    transport, proxy = PushTransport(), ConnectProxy()
    async with listening(proxy):
        options = ConnectionOptions(proxy=Proxy("http", "127.0.0.1", proxy.port, b"Basic YTpi"))
        assert await send(transport, "http://model.invalid:8001/v1/x?y=1", options) == b"ok"
        await transport.aclose()
    assert proxy.heads[0].startswith(b"POST http://model.invalid:8001/v1/x?y=1 HTTP/1.1\r\n")
    assert b"proxy-authorization: Basic YTpi\r\n" in proxy.heads[0]


@pytest.mark.parametrize("tls_to_the_proxy", [False, True])
async def test_a_request_with_tls_goes_through_a_tunnel(tmp_path: Path, tls_to_the_proxy: bool) -> None:
    context = certificate(tmp_path, "DNS:localhost,IP:127.0.0.1")
    trust = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    transport, proxy, server = PushTransport(trust), ConnectProxy(), HttpServer()
    async with listening(proxy, context if tls_to_the_proxy else None), listening(server, context):
        scheme = "https" if tls_to_the_proxy else "http"
        options = ConnectionOptions(proxy=Proxy(scheme, "localhost", proxy.port, b"Basic YTpi"))
        for _ in range(2):
            assert await send(transport, f"https://localhost:{server.port}/v1", options) == b"ok"
        await transport.aclose()
    assert proxy.heads == [
        b"CONNECT localhost:%d HTTP/1.1\r\nhost: localhost:%d\r\nproxy-authorization: Basic YTpi\r\n\r\n"
        % (server.port, server.port)
    ]
    assert server.connections == 1
    assert all(b"authorization" not in head and head.startswith(b"POST /v1 ") for head in server.heads)


@pytest.mark.parametrize(
    ("status", "expected"), [(b"407 Proxy Authentication Required", "answered 407"), (b"nonsense", "not HTTP")]
)
async def test_a_proxy_that_refuses_is_named(status: bytes, expected: str) -> None:
    transport, proxy = PushTransport(), ConnectProxy(status)
    async with listening(proxy):
        options = ConnectionOptions(proxy=Proxy("http", "127.0.0.1", proxy.port, None))
        with pytest.raises(httpx.ConnectError) as raised:
            await send(transport, "https://localhost:9/v1", options)
    cause = causes.find_connect_cause(raised.value, tls=True)
    assert cause.word == "proxy_refused" and expected in cause.text
    assert transport.open_connections == 0


async def test_a_proxy_that_demands_another_login_is_not_a_server_that_answers() -> None:
    transport, proxy = PushTransport(), ConnectProxy(b"407 Proxy Authentication Required")
    async with listening(proxy):
        options = ConnectionOptions(proxy=Proxy("http", "127.0.0.1", proxy.port, None))
        with pytest.raises(httpx.ConnectError) as raised:
            await send(transport, "http://model.invalid:9/v1", options)
        assert await send(transport, f"http://127.0.0.1:{proxy.port}/v1", ConnectionOptions()) == b""
    cause = causes.find_connect_cause(raised.value, tls=False)
    assert cause.word == "proxy_refused" and "answered 407" in cause.text


async def test_a_proxy_that_is_not_there_is_not_the_server() -> None:
    transport = PushTransport()
    options = ConnectionOptions(proxy=Proxy("http", "127.0.0.1", 9, None))
    for url in ("https://localhost:8/v1", "http://localhost:8/v1"):
        with pytest.raises(httpx.ConnectError) as raised:
            await send(transport, url, options)
        assert causes.find_connect_cause(raised.value, tls=False) is causes.PROXY_UNREACHABLE


async def test_a_server_at_a_unix_socket(tmp_path: Path) -> None:
    transport, server = PushTransport(), HttpServer()
    path = str(tmp_path / "model.sock")
    async with listening(server, path=path):
        options = ConnectionOptions(socket_path=path)
        assert await send(transport, "http://localhost/v1", options) == b"ok"
        await transport.aclose()
    with pytest.raises(httpx.ConnectError):
        await send(transport, "http://localhost/v1", ConnectionOptions(socket_path=str(tmp_path / "none.sock")))


async def test_an_old_connection_takes_no_further_request() -> None:
    transport, server = PushTransport(), HttpServer()
    async with listening(server):
        url = f"http://127.0.0.1:{server.port}/v1"
        for _ in range(3):
            await send(transport, url, ConnectionOptions(max_age_seconds=60))
        assert server.connections == 1
        for _ in range(3):
            await send(transport, url, ConnectionOptions(max_age_seconds=-1))
        assert server.connections == 4
        await transport.aclose()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders, each with a key and a certificate that signs itself."""
    folders = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    for folder in folders:
        certificate(folder, "DNS:localhost")
    return folders


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """A server in a thread, at the port that is returned. asyncio's would close without an alert."""

    def answer() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return  # the test is over
            accepted.settimeout(5)
            stream = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            with contextlib.suppress(OSError):
                stream.recv(65536)  # after the handshake
                stream.sendall(ANSWER)
            with contextlib.suppress(OSError), socket.socket(fileno=stream.detach()) as plain:
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(4096):  # a close with unread bytes would be a reset, which can overtake the alert
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.mark.parametrize("version", [TLS_1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", ["ours", "theirs", None])
async def test_a_server_that_demands_a_certificate(
    folders: tuple[Path, Path], version: ssl.TLSVersion, shown: str | None
) -> None:
    ours, theirs = folders
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(theirs / "server.pem", theirs / "key.pem")
    context.load_verify_locations(ours / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version
    transport = PushTransport()
    folder = {"ours": ours, "theirs": theirs}.get(shown or "")
    files = (None, None) if folder is None else (str(folder / "server.pem"), str(folder / "key.pem"))
    options = ConnectionOptions(None, str(theirs / "server.pem"), *files)
    with tls_server(context) as port:
        url = f"https://localhost:{port}/v1"
        if shown == "ours":
            assert await send(transport, url, options) == b"ok"
        else:
            with pytest.raises(httpx.TransportError) as raised:
                await send(transport, url, options)
            cause = find_cause(raised.value)
            # With TLS 1.2 the alert for a certificate that is missing is only `handshake failure`.
            assert cause.word == (
                "tls_alert" if (shown, version) == (None, TLS_1_2) else "tls_client_certificate_refused"
            )
            assert "alert: " in cause.text
            assert cause.word in causes.LASTING_WORDS
            assert "certificate" in cause.text
            fault = make_transport_fault(raised.value, upstream_target("u", "https://localhost"))
            assert (fault.transient, fault.cause) == (False, cause.word)
        await transport.aclose()


def find_cause(error: Exception) -> causes.Cause:
    if isinstance(error, httpx.ConnectError):
        return causes.find_connect_cause(error, tls=True)
    return causes.find_exchange_cause(error, answered=False)


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    """The server's issuer changes; the file that names it is written again."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = certificate(tmp_path / "a", "DNS:localhost"), certificate(tmp_path / "b", "DNS:localhost")
    trusted = tmp_path / "ca.pem"
    options = ConnectionOptions(ca_file=str(trusted), max_age_seconds=-1)
    transport, server = PushTransport(), HttpServer()
    for context, folder in ((first, "a"), (second, "b")):
        trusted.write_bytes((tmp_path / folder / "server.pem").read_bytes())
        async with listening(server, context):
            assert await send(transport, f"https://localhost:{server.port}/v1", options) == b"ok"
            await transport.aclose()


def test_a_key_with_a_password_does_not_ask_the_terminal(folders: tuple[Path, Path], tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "ec", "-in", folders[0] / "key.pem", "-aes128", "-passout", "pass:secret", "-out", locked],
        check=True,
        capture_output=True,
    )
    with pytest.raises(OSError, match="password"):
        make_ssl_context(ConnectionOptions(None, None, str(folders[0] / "server.pem"), str(locked)))


def test_passwords_of_proxies_may_hold_any_character() -> None:
    proxy = parse_proxy("http://a%40b:p%3A%2F@proxy.example.com")
    assert proxy == Proxy("http", "proxy.example.com", 80, b"Basic YUBiOnA6Lw==")
