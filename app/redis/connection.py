"""The connection to Redis of a process, behind a circuit breaker: an operation takes at most a tenth of a second, and
none is tried while Redis is down.

The first failure opens the breaker: every call fails at once, also those waiting for their turn, and a task probes the
server, at first after a tenth of a second and then once a second, until it answers. An outage therefore delays only
the calls in progress when it begins, each of them once. Time in which this process was too busy to read the answer
does not count against the server.

Connections have an age: a new client, which looks the name up again, replaces the one before it when it has answered.
So a name that moves to another server is followed although the old server still answers, and a server that became a
replica is left.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from typing_extensions import override

from app.redis.urls import RedisUrl, parse_cache_url
from redis import exceptions

Command: TypeAlias = tuple[str | bytes | int, ...]
SendBatch: TypeAlias = Callable[[Sequence[Command]], Awaitable[list[Any]]]
"""Sends commands. Returns for each its result or the exception that it failed with."""

BATCHES_AT_ONCE = 2
MAX_COMMANDS = 64
MAX_BYTES = 256 * 1024


class CommandBatcher:
    """It belongs to one event loop."""

    def __init__(self, send: SendBatch) -> None:
        self._send = send
        self._waiting: deque[tuple[Command, asyncio.Future[Any]]] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def execute(self, command: Command) -> Any:
        """Return the result of the command. Raises what it failed with, or what its batch failed with."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, future))
        if len(self._senders) < BATCHES_AT_ONCE:
            # It runs after the callbacks that are ready now, so their commands are in its first batch.
            sender = loop.create_task(self._send_waiting())
            self._senders.add(sender)
        return await future

    async def _send_waiting(self) -> None:
        sender = asyncio.current_task()
        assert sender is not None
        try:
            await self._send_batches()
        finally:
            # Not in a callback of the task: a command that comes before the callback would wait forever.
            self._senders.discard(sender)

    async def _send_batches(self) -> None:
        while batch := self._take_batch():
            try:
                results = await self._send([command for command, _ in batch])
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its request has left
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _take_batch(self) -> list[tuple[Command, asyncio.Future[Any]]]:
        batch: list[tuple[Command, asyncio.Future[Any]]] = []
        size = 0
        while self._waiting and len(batch) < MAX_COMMANDS and size < MAX_BYTES:
            command, future = self._waiting.popleft()
            if not future.done():
                batch.append((command, future))
                size += count_bytes(command)
        return batch


def count_bytes(command: Command) -> int:
    """Return the approximate size of a command."""
    return sum(len(part) for part in command if not isinstance(part, int))


T = TypeVar("T")
Client: TypeAlias = Redis | RedisCluster

TIMEOUT_SECONDS = 0.1
_LOG = logging.getLogger("parley.cache")
_PROBE_SECONDS = 1.0
_FIRST_REST_SECONDS = 0.1
_STEPS = 10
"""A timeout is counted in this many timer steps. A step that takes too long counts once: this process was busy."""
_BUSY_SECONDS = 1.0
"""A timeout is extended by at most this much because the process is busy."""
_MAX_AGE_SECONDS = 60.0
"""As `connection_max_seconds` of an upstream: how long a moved name may go unnoticed."""
_REDIS_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)


class RedisUnavailable(Exception):
    """Redis cannot be reached, or does not answer in time."""


class RedisUnanswered(RedisUnavailable):
    """Redis does not answer in time: it may have executed the operation, or may do so later."""


class RedisRejected(RedisUnavailable):
    """Redis rejects the command: out of memory, read-only, no permission. This does not open the breaker."""


class RedisConnection:
    """A Redis client behind a circuit breaker. It belongs to one event loop and connects with the first call. All that
    a process keeps in one Redis shares it, so an outage is noticed, and written to the log, once."""

    def __init__(
        self,
        address: RedisUrl | str,
        *,
        max_connections: int = 256,
        at_once: int = 16,
        timeout_seconds: float = TIMEOUT_SECONDS,
        rest_seconds: float = 1.0,
        max_age_seconds: float = _MAX_AGE_SECONDS,
    ) -> None:
        """Set up the breaker without connecting. Raises ValueError for a URL that is not of a Redis.

        At most `at_once` calls with the usual timeout are in progress. `rest_seconds` is the longest pause between
        two probes. Connections older than `max_age_seconds` are replaced when they are used.
        """
        self._address = _to_redis_url(address)
        self._max_connections = max_connections
        self._timeout_seconds, self._rest_seconds = timeout_seconds, rest_seconds
        self._turns = asyncio.Semaphore(at_once)
        self._batcher = CommandBatcher(self._send_batch)
        self._max_age_seconds = max_age_seconds
        self._current: _AgingClient | None = None
        self._clients: set[_AgingClient] = set()
        """All that are not closed."""
        self._renewing: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether a call would fail at once."""
        return self._closed or self._probing is not None

    async def call(self, op: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """Return the result of `op`. Raises RedisUnavailable for every error of Redis; its subclass RedisUnanswered
        says that Redis may execute `op` nevertheless.

        `timeout` is in seconds and starts with the call's turn. A call with a longer timeout than usual does not wait
        for a turn and takes none from others.
        """
        if timeout is not None and timeout > self._timeout_seconds:
            return await self._call_or_trip(op, timeout)
        if self.is_open:
            raise RedisUnavailable("redis is down")
        # Without this limit each of many calls would wait for all, and in a busy process all would time out.
        async with self._turns:
            return await self._call_or_trip(op, timeout or self._timeout_seconds)

    async def execute(self, *command: str | bytes | int) -> Any:
        """Return the result of one command, which shares a round trip with those of other requests. Raises
        RedisUnavailable for every error of Redis."""
        if count_bytes(command) > MAX_BYTES:  # small commands do not wait for it
            return await self.call(lambda redis: redis.execute_command(*command))
        if self.is_open:
            raise RedisUnavailable("redis is down")
        return await self._batcher.execute(command)

    async def _send_batch(self, commands: Sequence[Command]) -> list[Any]:
        results = await self.call(partial(_send_commands, commands=commands))
        for result in results:
            self._renew_if_replica(result)
        return [_to_unavailable(result) if isinstance(result, Exception) else result for result in results]

    async def _call_or_trip(self, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        if self.is_open:
            raise RedisUnavailable("redis is down")
        try:
            return await self._call_with_timeout(op, seconds)
        except RedisRejected:
            raise
        except RedisUnavailable as error:
            if not self.is_open:
                _LOG.warning("redis is down: %s", error)
                self._probing = asyncio.get_running_loop().create_task(self._probe())
            raise

    async def _call_with_timeout(self, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        current = self._get_current()
        try:
            return await _use(current, op, seconds)
        except RedisRejected as error:
            self._renew_if_replica(error.__cause__)
            raise

    def _get_current(self) -> "_AgingClient":
        if self._current is None:
            self._current = self._make_client()
        self._renew_if_older(self._max_age_seconds)
        return self._current

    def _make_client(self) -> "_AgingClient":
        made = _AgingClient(make_client(self._address, self._max_connections))
        self._clients.add(made)
        return made

    async def _close_client(self, unused: "_AgingClient") -> None:
        with contextlib.suppress(*_REDIS_ERRORS):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await unused.client.aclose()
        self._clients.discard(unused)

    def _renew_if_replica(self, result: object) -> None:
        """Look the server up again if it takes no writes: where there was a failover, the name is that of another."""
        if isinstance(result, exceptions.ReadOnlyError):
            self._renew_if_older(self._rest_seconds)

    def _renew_if_older(self, seconds: float) -> None:
        current = self._current
        if current is None or self._renewing is not None or self.is_open:
            return
        if time.monotonic() - current.made_at >= seconds:
            self._renewing = asyncio.get_running_loop().create_task(self._renew(current))

    async def _renew(self, old: "_AgingClient") -> None:
        """Replace the client by a new one, if that reaches the server, and close it when its last call has ended."""
        new = unused = self._make_client()
        try:
            await _use(new, _ping, _PROBE_SECONDS)
            self._current, unused = new, old
            await old.unused.wait()
        except RedisUnavailable:
            # Calls go on with the present client, and open the breaker if that fails too.
            await asyncio.sleep(self._rest_seconds)
        await self._close_client(unused)
        self._renewing = None

    async def _probe(self) -> None:
        rest_seconds = min(_FIRST_REST_SECONDS, self._rest_seconds)
        while True:
            await asyncio.sleep(rest_seconds)
            rest_seconds = min(2 * rest_seconds, self._rest_seconds)
            try:
                await self._call_with_timeout(_ping, _PROBE_SECONDS)
            except RedisRejected:
                pass
            except RedisUnavailable:
                continue
            self._probing = None
            _LOG.info("redis answers again")
            return

    async def aclose(self) -> None:
        self._closed = True
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
            self._probing = None
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
            self._renewing = None
        self._current = None
        for client in [*self._clients]:
            await self._close_client(client)


class _AgingClient:
    """A client, its age, and whether calls use it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.made_at = time.monotonic()
        self.unused = asyncio.Event()
        self.unused.set()
        self._users = 0

    def __enter__(self) -> Client:
        self._users += 1
        self.unused.clear()
        return self.client

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self.unused.set()


async def _use(aging: _AgingClient, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
    """Return the result of `op`. Raises RedisUnavailable."""
    with aging as client:
        try:
            async with _within(seconds):
                return await op(client)
        except TimeoutError as error:
            raise RedisUnanswered(f"no answer within {seconds * 1000:.0f} ms") from error
        except _REDIS_ERRORS as error:
            raise _to_unavailable(error) from error


@contextlib.asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError when the server has had `seconds`, not counting time in which this process was busy."""
    loop = asyncio.get_running_loop()
    step, last = seconds / _STEPS, time.monotonic() + seconds + _BUSY_SECONDS
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def count(steps: int) -> None:
            nonlocal timer
            if steps == _STEPS or time.monotonic() > last:
                limit.reschedule(loop.time())
            else:
                timer = loop.call_later(step, count, steps + 1)

        timer = loop.call_later(step, count, 1)
        try:
            yield
        finally:
            timer.cancel()


async def _send_commands(redis: Client, commands: Sequence[Command]) -> list[Any]:
    """Return the results of the commands, and the errors of those that Redis rejected."""
    async with redis.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        results: list[Any] = await pipe.execute(raise_on_error=False)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, exceptions.ResponseError):
            raise result  # a node of a cluster failed
    return results


def _to_unavailable(error: Exception) -> RedisUnavailable:
    text = str(error) or type(error).__name__
    if isinstance(error, exceptions.MovedError):
        text = "it is a cluster, whose URL begins with redis+cluster: or rediss+cluster: (cache.url)"
    return RedisRejected(text) if isinstance(error, exceptions.ResponseError) else RedisUnavailable(text)


async def _ping(client: Client) -> object:
    """Look up a key that never exists: unlike PING, a cluster client can send this to one node."""
    return await client.exists("parley:probe")


def _to_redis_url(address: RedisUrl | str) -> RedisUrl:
    url = parse_cache_url(address) if isinstance(address, str) else address
    if not isinstance(url, RedisUrl):
        raise ValueError("must be the URL of a Redis, such as redis://127.0.0.1:6379/0")
    return url


class Script:
    """A Lua script, which Redis runs as one atomic step."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: Client, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
        try:
            return await redis.evalsha(self._sha, len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            return await redis.eval(self._text, len(keys), *keys, *arguments)


_UNBLOCKED_CONNECTIONS = 1024
"""The size of pools that raise an error when they are full instead of waiting."""


class _SentinelPool(SentinelConnectionPool):
    """A pool that also closes the connections to the sentinels."""

    @override
    async def aclose(self) -> None:
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


def make_client(address: RedisUrl, max_connections: int) -> Redis | RedisCluster:
    """Create a client that connects with its first command. It has no timeouts; the circuit breaker sets them."""
    if address.form == "cluster":
        return _cluster(address)
    if address.form == "sentinel":
        return _make_sentinel_client(address)
    server: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": address.socket}
    if address.form == "single":
        (host, port), kind = address.hosts[0], SSLConnection if address.tls else Connection
        server = {"connection_class": kind, "host": host, "port": port, **_tls(address)}
    pool = BlockingConnectionPool(max_connections, timeout=None, db=address.db, **server, **_options(address))
    return Redis.from_pool(pool)


def _cluster(address: RedisUrl) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    return RedisCluster(
        startup_nodes=nodes,
        max_connections=_UNBLOCKED_CONNECTIONS,
        require_full_coverage=False,
        ssl=address.tls,
        **_tls(address),
        **_options(address),
    )


def _make_sentinel_client(address: RedisUrl) -> Redis:
    """The login is sent to the master only, not to the sentinels. TLS applies to both."""
    tls = {"ssl": address.tls, **_tls(address)}
    bounds = {name: value for name, value in _options(address).items() if name not in ("username", "password")}
    sentinels = Sentinel(address.hosts, sentinel_kwargs={**tls, **bounds})  # type: ignore[no-untyped-call]
    pool = _SentinelPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinels,
        max_connections=_UNBLOCKED_CONNECTIONS,
        db=address.db,
        **tls,
        **_options(address),
    )
    return Redis.from_pool(pool)


def _options(address: RedisUrl) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        # RESP2: servers before Redis 6 do not know RESP3.
        "protocol": 2,
        # One retry: only the next command finds out that an idle connection was closed.
        "retry": Retry(NoBackoff(), 1),
    }


def _tls(address: RedisUrl) -> dict[str, Any]:
    options: dict[str, Any] = dict(address.tls_options)
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"].lower() in ("true", "1", "yes")
    return options
