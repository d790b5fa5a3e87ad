"""The connection pool of one process, by upstream and address.

A request takes an idle connection, else opens a new one, else waits until fewer than `max_connections` are open.

One timer serves the deadlines of all connections. Nearly every deadline is cancelled before it is due, so the timer is
not: when it fires too early, it is set again for the first deadline that is left.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import httpx

from app.upstream.http.connection import LINGER_SECONDS, ClosedEarly, UpstreamConnection
from app.upstream.http.options import (
    DEFAULT_OPTIONS,
    ConnectionOptions,
    Proxy,
    file_times,
    make_ssl_context,
)
from app.upstream.http.tunnel import ProxyUnreachable, open_tunnel


class PoolKey(NamedTuple):
    """The upstream that owns a group of connections, how many it may open to each address, and how."""

    upstream: str
    max_connections: int
    options: ConnectionOptions = DEFAULT_OPTIONS


class ServerAddress(NamedTuple):
    scheme: str
    host: str
    port: int
    pool_key: PoolKey


MIN_TIMER_SECONDS = 0.02
"""A timer that fired too early is not set again for less than this: deadlines that are close together share one."""


class Pool:
    def __init__(self, ssl_context: ssl.SSLContext | None, linger_seconds: float = LINGER_SECONDS) -> None:
        self._ssl = ssl_context
        """For all servers, whatever their options say."""
        self._ssl_contexts: dict[ConnectionOptions, tuple[tuple[int, ...], ssl.SSLContext]] = {}
        """Each with the times of the files that it was made from."""
        self._linger_seconds = linger_seconds
        self._idle: dict[ServerAddress, list[UpstreamConnection]] = {}
        self._open: dict[UpstreamConnection, ServerAddress] = {}
        self._counts: dict[ServerAddress, int] = {}
        """How many connections are open or being opened."""
        self._waiting: dict[ServerAddress, deque[asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        """When the timer fires, in the event loop's time."""

    @property
    def idle_connections(self) -> int:
        return sum(len(connections) for connections in self._idle.values())

    async def take(
        self, address: ServerAddress, timeout_seconds: float | None, *, fresh: bool = False
    ) -> UpstreamConnection:
        """Return a connection to the address; `fresh` demands a new one. `timeout_seconds` bounds all waits together.

        Raises httpx.ConnectError, httpx.ConnectTimeout or httpx.PoolTimeout.
        """
        connection = self._take_idle(address, fresh)
        if connection is not None:
            return connection
        timeout_error: Callable[[], httpx.TimeoutException] = _pool_timeout
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._is_full(address):
                    await self._wait_for_turn(address)
                    connection = self._take_idle(address, fresh)
                    if connection is not None:
                        return connection
                timeout_error = _connect_timeout
                return await self._connect(address)
        except TimeoutError:
            raise timeout_error() from None

    def _is_full(self, address: ServerAddress) -> bool:
        return self._counts.get(address, 0) >= address.pool_key.max_connections

    def _take_idle(self, address: ServerAddress, fresh: bool) -> UpstreamConnection | None:
        if not fresh:
            return self.take_idle(address)
        idle = self._idle.get(address)
        if idle and self._is_full(address):
            idle.pop(0).abort()  # makes room for a new one
        return None

    def take_idle(self, address: ServerAddress) -> UpstreamConnection | None:
        """Return an open connection that no request uses, if there is one."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if not connection.is_usable():
                continue
            if connection.is_too_old(address.pool_key.options.max_age_seconds):
                connection.abort()
                continue
            connection.take()
            return connection
        return None

    async def _wait_for_turn(self, address: ServerAddress) -> None:
        """Wait until a connection is idle or a new one may be opened."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(address, deque())
        waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in waiting:
                waiting.remove(future)
            elif not future.cancelled():
                self._wake(address)  # it was woken and cancelled at once: wake the next one instead
            raise

    async def _connect(self, address: ServerAddress) -> UpstreamConnection:
        self._counts[address] = self._counts.get(address, 0) + 1
        try:
            connection = await self._open_connection(address)
            if connection.closed:
                raise httpx.ConnectError("the connection was closed at once") from ClosedEarly("closed at once")
        except (OSError, UnicodeError, OverflowError) as error:
            self._uncount(address)
            if isinstance(error, TimeoutError):
                raise
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        except BaseException:
            self._uncount(address)
            raise
        self._open[connection] = address
        return connection

    async def _open_connection(self, address: ServerAddress) -> UpstreamConnection:
        scheme, host, port, key = address
        loop = asyncio.get_running_loop()
        options = key.options
        context = self._get_ssl_context(options) if scheme == "https" else None
        name = host if context else None
        connection = UpstreamConnection(self, self._linger_seconds)
        if options.socket_path is not None:
            await loop.create_unix_connection(
                lambda: connection, options.socket_path, ssl=context, server_hostname=name
            )
        elif options.proxy is not None:
            await self._connect_through(options.proxy, host, port, context, connection)
        else:
            await loop.create_connection(lambda: connection, host, port, ssl=context, server_hostname=name)
        return connection

    async def _connect_through(
        self, proxy: Proxy, host: str, port: int, context: ssl.SSLContext | None, connection: UpstreamConnection
    ) -> None:
        """Connect to the proxy, and through it to the server if that is spoken to with TLS."""
        outer = self._get_ssl_context(DEFAULT_OPTIONS) if proxy.scheme == "https" else None
        try:
            tunnel = await open_tunnel(proxy, outer, None if context is None else (host, port), connection)
        except (OSError, UnicodeError) as error:
            if isinstance(error, TimeoutError):
                raise
            reason = f"the proxy {proxy.host}:{proxy.port} cannot be reached: {error}"
            raise ProxyUnreachable(reason) from error
        if context is None or tunnel is None:
            return
        transport = await asyncio.get_running_loop().start_tls(tunnel, connection, context, server_hostname=host)
        if transport is None:
            raise httpx.ConnectError("the tunnel was closed") from ClosedEarly("closed at once")
        connection.connection_made(transport)

    def _get_ssl_context(self, options: ConnectionOptions) -> ssl.SSLContext:
        """Return the context of these options; it is made again when one of its files has changed."""
        if self._ssl is not None:
            return self._ssl
        files = ConnectionOptions(
            ca_file=options.ca_file, client_certificate=options.client_certificate, client_key=options.client_key
        )
        times = file_times(files)
        made = self._ssl_contexts.get(files)
        if made is None or made[0] != times:
            made = self._ssl_contexts[files] = times, make_ssl_context(files)
        return made[1]

    def release(self, connection: UpstreamConnection) -> None:
        address = self._open.get(connection)
        if address is None:
            return
        options = address.pool_key.options
        if connection.is_too_old(options.max_age_seconds):
            connection.abort()
            return
        connection.set_idle(options.idle_seconds)
        self._idle.setdefault(address, []).append(connection)
        self._wake(address)

    def forget(self, connection: UpstreamConnection) -> None:
        address = self._open.pop(connection, None)
        if address is None:
            return
        idle = self._idle.get(address)
        if connection.idle and idle and connection in idle:
            idle.remove(connection)
        self._uncount(address)

    def expect_deadline(self, at: float) -> None:
        if at < self._timer_at:
            self._set_timer(at)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._check_deadlines)

    def _check_deadlines(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer, self._timer_at = None, float("inf")
        deadlines = [(connection.deadline, connection) for connection in self._open if connection.deadline is not None]
        for deadline, connection in deadlines:
            if deadline <= now:
                connection.on_deadline()
        left = [deadline for deadline, _ in deadlines if deadline > now]
        if left:
            self.expect_deadline(max(min(left), now + MIN_TIMER_SECONDS))

    def _uncount(self, address: ServerAddress) -> None:
        self._counts[address] -= 1
        self._wake(address)

    def _wake(self, address: ServerAddress) -> None:
        waiting = self._waiting.get(address)
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        for connection in list(self._open):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, float("inf")


def _pool_timeout() -> httpx.TimeoutException:
    return httpx.PoolTimeout("all connections are in use")


def _connect_timeout() -> httpx.TimeoutException:
    return httpx.ConnectTimeout("no connection in time")
