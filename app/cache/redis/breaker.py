"""A circuit breaker for Redis: an operation takes at most a tenth of a second, and none is tried while Redis is down.

The first failure opens the breaker: every call fails at once, also those waiting for their turn, and a task probes the
server, at first after a tenth of a second and then once a second, until it answers. An outage therefore delays only
the calls in progress when it begins, each of them once. Time in which this process was too busy to read the answer
does not count against the server.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from app.cache.redis.batches import MAX_BYTES, Command, CommandBatcher, count_bytes
from app.cache.redis.client import make_client
from app.cache.urls import RedisUrl, parse_cache_url

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
_REDIS_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)


class RedisUnavailable(Exception):
    """Redis cannot be reached, or does not answer in time."""


class RedisUnanswered(RedisUnavailable):
    """Redis does not answer in time: it may have executed the operation, or may do so later."""


class RedisRejected(RedisUnavailable):
    """Redis rejects the command: out of memory, read-only, no permission. This does not open the breaker."""


class RedisCircuitBreaker:
    """A Redis client behind a circuit breaker. It belongs to one event loop and connects with the first call."""

    def __init__(
        self,
        address: RedisUrl | str,
        *,
        max_connections: int = 256,
        at_once: int = 16,
        timeout_seconds: float = TIMEOUT_SECONDS,
        rest_seconds: float = 1.0,
    ) -> None:
        """Set up the breaker without connecting. Raises ValueError for a URL that is not of a Redis.

        At most `at_once` calls with the usual timeout are in progress. `rest_seconds` is the longest pause between
        two probes.
        """
        self._address = _to_redis_url(address)
        self._max_connections = max_connections
        self._timeout_seconds, self._rest_seconds = timeout_seconds, rest_seconds
        self._turns = asyncio.Semaphore(at_once)
        self._batcher = CommandBatcher(self._send_batch)
        self._client: Client | None = None
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
        try:
            async with _within(seconds):
                return await op(self._get_client())
        except TimeoutError as error:
            raise RedisUnanswered(f"no answer within {seconds * 1000:.0f} ms") from error
        except _REDIS_ERRORS as error:
            raise _to_unavailable(error) from error

    def _get_client(self) -> Client:
        if self._client is None:
            self._client = make_client(self._address, self._max_connections)
        return self._client

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
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(*_REDIS_ERRORS):
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await client.aclose()


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
    return RedisRejected(text) if isinstance(error, exceptions.ResponseError) else RedisUnavailable(text)


async def _ping(client: Client) -> object:
    """Look up a key that never exists: unlike PING, a cluster client can send this to one node."""
    return await client.exists("parley:probe")


def _to_redis_url(address: RedisUrl | str) -> RedisUrl:
    url = parse_cache_url(address) if isinstance(address, str) else address
    if not isinstance(url, RedisUrl):
        raise ValueError("must be the URL of a Redis, such as redis://127.0.0.1:6379/0")
    return url
